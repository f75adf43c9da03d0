"""Which row of a tile, and which lanes of Tensor Memory, a thread owns; how lanes meet."""

from cutlass import Int32

from ..plan.facts.hardware import (
    TMEM_LANE_SHIFT,
    WARP_GROUP_THREADS,
    WARP_THREADS,
    WARPS_PER_GROUP,
)
from . import ids

LANE_DISTANCES = (1, 2, 4, 8, 16)
"""Of the lanes that meet, step by step, until what one holds has reached all of a warp."""


def row_in_group() -> Int32:
    """Return the thread's index within its warp group: the row, and the TMEM lane, it owns."""
    return ids.thread_index() % WARP_GROUP_THREADS


def lane_address(tmem: Int32, column: int) -> Int32:
    """Return the TMEM address of ``column`` in the lanes that the calling warp may touch."""
    warp = ids.warp_index() % WARPS_PER_GROUP
    return tmem + (warp * WARP_THREADS << TMEM_LANE_SHIFT) + column


def lane_of(address: Int32) -> Int32:
    """Return the lane of a Tensor Memory address: 0 of what was allocated.

    The compiler does not know that, so that a sum with it is not computed again in a loop.
    """
    return address >> TMEM_LANE_SHIFT
