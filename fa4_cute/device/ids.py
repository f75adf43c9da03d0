"""Indices of the calling thread and CTA."""

from cutlass import Int32, cute


def thread_index() -> Int32:
    """Return the thread's index in its CTA."""
    return cute.arch.thread_idx()[0]


def lane_index() -> Int32:
    """Return the thread's index in its warp."""
    return cute.arch.lane_idx()


def warp_index() -> Int32:
    """Return the warp's index in its CTA, known to the compiler to be the same in all lanes."""
    return cute.arch.make_warp_uniform(cute.arch.warp_idx())


def block_index() -> tuple[Int32, Int32, Int32]:
    """Return the CTA's index in the grid."""
    return cute.arch.block_idx()


def grid_size_x() -> Int32:
    """Return the number of CTAs along x."""
    return cute.arch.grid_dim()[0]
