"""Packed tiles: numbers of the query tiles of packed sequences, one sequence behind the other.

A launch does not know how long sequences are, only how many rows all have. Sequence ``n`` whose
first row is ``r`` has the packed tiles from ``r // positions + n`` on: enough for its query tiles,
at most one to spare, and found without the lengths of those before it. So the sequence of a packed
tile is the last one that begins there or before, and 32 lanes that look at as many sequences at
once need one step for up to 32 of them, two for up to 1,024.
"""

from __future__ import annotations

from typing import Any, Final

from ..facts.hardware import WARP_THREADS

WAYS: Final = WARP_THREADS
"""Parts into which a step divides sequences: a lane looks at the first one of each."""


def first_packed_tile(first_row: Any, sequence: Any, positions: int) -> Any:
    """Return the first packed tile of a sequence, as a number, or a register of a traced kernel.

    Args:
        first_row: its first packed query. sequence: its number. positions: of a query tile.
    """
    return first_row // positions + sequence


def num_packed_tiles(total_q: int, batch: int, positions: int) -> int:
    """Return the packed tiles of all sequences: one more would begin there, behind all rows."""
    return first_packed_tile(total_q, batch, positions) if total_q and batch else 0


def first_step(batch: int) -> int:
    """Return how many sequences apart lanes look first: a power of ``WAYS``."""
    step = 1
    while step * WAYS < batch:
        step *= WAYS
    return step
