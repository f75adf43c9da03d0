"""Places of the query tiles of packed sequences, which lie one behind the other.

A launch does not know how long sequences are, only how many rows all have. Sequence ``n`` whose
first row is ``r`` has its places from ``r // positions + n`` on: enough for its query tiles, at
most one to spare, and found without the lengths of those before it. So the sequence of a place is
the last one that begins there or before, and 32 lanes that look at as many sequences at once need
one step for up to 32 of them, two for up to 1,024.
"""

from __future__ import annotations

from typing import Any, Final

from ..facts.hardware import WARP_THREADS

WAYS: Final = WARP_THREADS
"""Parts into which a step divides sequences: a lane looks at the first one of each."""


def first_place(first_row: Any, sequence: Any, positions: int) -> Any:
    """Return the first place of a sequence; a number, or a register while a kernel is traced.

    Args:
        first_row: its first packed query. sequence: its number. positions: of a query tile.
    """
    return first_row // positions + sequence


def num_places(total_q: int, batch: int, positions: int) -> int:
    """Return the places of all sequences: where one more would begin, behind all rows."""
    return first_place(total_q, batch, positions) if total_q and batch else 0


def first_step(batch: int) -> int:
    """Return how many sequences apart lanes look first: a power of ``WAYS``."""
    step = 1
    while step * WAYS < batch:
        step *= WAYS
    return step
