"""Indices of the calling thread and CTA, read anew at each call.

The reads are marked as having effects on purpose: a value that is needed both before and after a
long loop is read twice instead of holding a register throughout.
"""

from cutlass import Int32, cute

from .ptx import emit

COUNT_BITS = 2**31 - 1
"""All bits of an index or count: the compiler learns that it is not negative, and so divides by
shifts. Only what is divided says so: the thread's index makes the first product with P wait longer.
"""


def thread_index() -> Int32:
    """Return the thread's index in its CTA.

    DSL: ``cute.arch.thread_idx`` emits the same instruction as a pure value, which the compiler
    computes with early and holds: fewer instructions in most kernels, but the first product with P
    waits up to 2 % longer in two, and with all four indices pure two kernels spill 42 values.
    """
    return emit("mov.u32 $0, %tid.x;", (Int32,))[0]


def lane_index() -> Int32:
    """Return the thread's index in its warp.

    DSL: ``cute.arch.lane_idx``, as for :func:`thread_index`.
    """
    return emit("mov.u32 $0, %laneid;", (Int32,))[0]


def warp_index() -> Int32:
    """Return the warp's index in its CTA, known to the compiler to be the same in all lanes."""
    return cute.arch.make_warp_uniform(cute.arch.warp_idx())


def block_index() -> tuple[Int32, Int32, Int32]:
    """Return the CTA's index in the grid.

    DSL: ``cute.arch.block_idx``, as for :func:`thread_index`.
    """
    x, y, z = (emit(f"mov.u32 $0, %ctaid.{axis};", (Int32,))[0] for axis in "xyz")
    return x & COUNT_BITS, y, z


def grid_size_x() -> Int32:
    """Return the number of CTAs along x.

    DSL: ``cute.arch.grid_dim``, as for :func:`thread_index`.
    """
    return _grid_size("x")


def grid_size_y() -> Int32:
    """Return the number of CTAs along y, as :func:`grid_size_x`."""
    return _grid_size("y")


def _grid_size(axis: str) -> Int32:
    return emit(f"mov.u32 $0, %nctaid.{axis};", (Int32,))[0] & COUNT_BITS
