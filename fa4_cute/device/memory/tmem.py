"""Tensor Memory: allocation, and moves between its lanes and registers.

A Tensor Memory address is ``lane << 16 | column``. A warp reaches the 32 lanes of its quarter of
the warp group: the address handed to a move carries that quarter's first lane. All moves here use
the shape ``32x32b``: thread ``t`` owns lane ``t`` and one register holds one column.
PTX ISA: "Tensor Memory and Tensor Core instructions".
"""

from collections.abc import Sequence

from cutlass import Float32, Int32, cute

from ..pointers import in_tensor_memory, shared
from ..ptx import emit

_COUNTS = (128, 64, 32, 16, 8, 4, 2, 1)


def split_columns(columns: int) -> list[tuple[int, int]]:
    """Return (offset, count) of the moves that cover ``columns``; counts are powers of two."""
    parts, offset = [], 0
    for count in _COUNTS:
        while columns - offset >= count:
            parts.append((offset, count))
            offset += count
    return parts


def alloc(result_address: Int32, columns: int, cta_group: int = 1) -> None:
    """Allocate ``columns`` and write the base to shared memory, then give up the permit. One warp.

    With ``cta_group`` 2, one warp of each CTA of the pair executes it, with the same address and
    columns; both get the same base. The permit is released at once: nobody allocates a second
    time in this kernel.
    """
    pair = cta_group > 1
    cute.arch.alloc_tmem(columns, shared(result_address, Int32), is_two_cta=pair)
    cute.arch.relinquish_tmem_alloc_permit(is_two_cta=pair)


def dealloc(base: Int32, columns: int, cta_group: int = 1) -> None:
    """Free the allocation. One warp of each CTA that allocated; all accesses have completed."""
    cute.arch.dealloc_tmem(in_tensor_memory(base), columns, is_two_cta=cta_group > 1)


def load(address: Int32, columns: int) -> list[Float32]:
    """Start loading ``columns`` columns; the values count only after :func:`wait_loads`.

    DSL: ``tcgen05.Ld32x32bOp`` emits the same instruction and then reads the loaded registers, to
    pack them by twos, before ``wait::ld``: the PTX ISA defines them only after it.
    """
    values: list[Float32] = []
    for offset, count in split_columns(columns):
        registers = ", ".join(f"${i}" for i in range(count))
        values += emit(
            f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {{{registers}}}, [${count}];",
            (Float32,) * count,
            (address + offset if offset else address,),
        )
    return values


def wait_loads(values: list[Float32]) -> list[Float32]:
    """Wait for this thread's loads; return ``values``, now defined, so that uses come after.

    DSL: ``cute.arch.fence_view_async_tmem_load`` emits the same instruction, tied to no value: the
    compiler may move a use in front of it.
    """
    return emit(
        "tcgen05.wait::ld.sync.aligned;", (Float32,) * len(values), values, tied=len(values)
    )


def store(address: Int32, words: Sequence[Int32]) -> None:
    """Start storing one 32-bit word per column; done only after :func:`wait_stores`.

    DSL: ``tcgen05.St32x32bOp`` emits the same instruction after it packed the words by twos into
    64-bit registers and unpacked them again.
    """
    for offset, count in split_columns(len(words)):
        registers = ", ".join(f"${i + 1}" for i in range(count))
        emit(
            f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [$0], {{{registers}}};",
            (),
            (address + offset if offset else address, *words[offset : offset + count]),
        )


def wait_stores() -> None:
    """Wait for this thread's stores to Tensor Memory."""
    cute.arch.fence_view_async_tmem_store()


def fence_before_thread_sync() -> None:
    """Order this thread's tcgen05 operations before a following arrival.

    DSL: only ``cutlass.experimental``, which may change with every version, has this fence.
    """
    emit("tcgen05.fence::before_thread_sync;")


def fence_after_thread_sync() -> None:
    """Order this thread's tcgen05 operations after the wait it has just completed.

    DSL: only ``cutlass.experimental``, which may change with every version, has this fence.
    """
    emit("tcgen05.fence::after_thread_sync;")
