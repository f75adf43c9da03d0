"""``places``: where the results of a rank's calls are kept until they are joined.

Calls about different rows share a place. So all-gather, whose calls are about different chunks,
needs one, and a zigzag ring under a causal mask one for each step. When no more places may be used,
what is there is joined into the first one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .band import Span
from .steps import Call

MOST_PLACES: Final = 8
"""Each holds an O of all rows of the rank; a join in between rounds once more."""
_EVERY_ROW: Final = (0, sys.maxsize)


@dataclass(frozen=True)
class Place:
    """Where the result of one call is kept.

    Attributes:
        number: of the place.
        folds: whether all that is kept is joined into place 0 before the call.
    """

    number: int
    folds: bool = False


def places(calls: Iterable[Call], most: int = MOST_PLACES) -> tuple[Place, ...]:
    """Return the place of each of ``calls``, which are made in this order.

    No call has a row twice, so a place has not, either.

    Args:
        calls: of one rank.
        most: how many places there may be, two or more.
    """
    found: list[Place] = []
    taken: list[list[Span]] = []
    for call in calls:
        rows = [part.rows for part in call.parts]
        number = next((n for n, others in enumerate(taken) if not _meet(rows, others)), len(taken))
        folds = number == most
        if folds:
            taken, number = [[_EVERY_ROW]], 1
        if number == len(taken):
            taken.append([])
        taken[number] += rows
        found.append(Place(number, folds))
    return tuple(found)


def _meet(some: Sequence[Span], others: Sequence[Span]) -> bool:
    return any(one[0] < other[1] and other[0] < one[1] for one in some for other in others)
