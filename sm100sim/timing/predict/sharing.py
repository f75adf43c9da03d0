"""Clusters that read the same rows: who asks first waits for memory, who is later for the rest.

The machine runs one cluster for all that do the same, and each row of memory that it shares comes
as late as for the first that asks. Clusters that begin together stay together: nobody can get ahead
of a row that all wait for. One that begins later finds what the others had, until it has caught up.
So clusters take their places here in the order of the launch, and a row is asked for once.

An H200's SMs that copy the same 800 cycles apart find it in the L2 (benchmarks,
`timing/sharing/cold.py`). In a kernel of Triton's, 16 of whose CTAs read the same rows, a wait is
321 cycles longer than for the L2; who asks alone waits 673 longer (`timing/waits/h200_odd.json`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from ..records import Action, LaunchTrace

COPIES: Final = (Action.COPY_LOAD, Action.CP_ASYNC)
SHARERS: Final = 1.5
"""Sharers from which on rows are not a cluster's own."""
NEAR: Final = 0.1
"""How far, as a share, the sharers of a tensor may be from the clusters along axes of a grid."""


@dataclass(frozen=True)
class Kind:
    """What a cluster takes: with shared rows in the L2, and where all of them come from memory."""

    near: float
    far: float

    def waits(self, longer: float) -> int:
        """How often it waits for shared rows, if each wait is so much longer."""
        return max(round((self.far - self.near) / longer), 0)


def groups_of(launch: LaunchTrace) -> tuple[int, ...] | None:
    """Return the group of each cluster, whose members copy the same rows; None: not known.

    A launch does not say who shares rows, and one cluster was executed for all of a kind. Known is
    how many share a tensor: where that is the number of clusters along axes of the grid, those that
    differ there alone are taken to share. Along a square grid's axes as many lie: there, as in
    products, it is not known. Clusters of several kinds, under a triangular mask, read half as much
    in the mean.

    Args:
        launch: whose events say by how many what they copy is shared (`predict.memory`).
    """
    sizes = tuple(n // c for n, c in zip(launch.grid, launch.cluster, strict=True))
    sharers = {
        event.sharers
        for trace in launch.traces
        for event in trace.events
        if event.kind in COPIES and event.sharers > SHARERS
    }
    masked = len(launch.traces) > 1
    fitting = [
        axes
        for axes in ((0,), (1,), (0, 1))
        if sharers and all(_lie(n, prod(sizes[axis] for axis in axes), masked) for n in sharers)
    ]
    if len(fitting) != 1:
        return None
    return tuple(_group(number, sizes, fitting[0]) for number in range(prod(sizes)))


def _lie(sharers: float, along: int, masked: bool) -> bool:
    """Whether so many clusters along axes of a grid are those that share."""
    expected = (along, (along + 1) / 2) if masked else (along,)
    return any(abs(sharers / n - 1) <= NEAR for n in expected)


def _group(number: int, sizes: Sequence[int], axes: Sequence[int]) -> int:
    """A number of a cluster's place, but for where it lies along some axes."""
    found, step = 0, 1
    for axis, size in enumerate(sizes):
        number, at = divmod(number, size)
        if axis not in axes:
            found += at * step
            step *= size
    return found


def last_end(
    order: Sequence[int], kinds: Sequence[Kind], groups: Sequence[int], longer: float,
    places: int, gap: float,
) -> float:  # fmt: skip
    """Return when the last cluster ends.

    Args:
        order: kind of each cluster, as they take the first free place. groups: of each.
        longer: cycles that shared rows take longer from memory than from the L2.
        places: clusters that run at once. gap: cycles from one of a place to its next.
    """
    waits = [kind.waits(longer) for kind in kinds]
    asked: dict[tuple[int, int], float] = {}
    events: list[tuple[float, int, int]] = []  # time, cluster, rows that it has had
    last = 0.0

    def begin(number: int, now: float) -> None:
        alone = 0 if waits[order[number]] else kinds[order[number]].near
        heapq.heappush(events, (now + gap + alone, number, 0))

    following = min(places, len(order))
    for number in range(following):
        begin(number, 0.0)
    while events:
        last, number, had = heapq.heappop(events)
        kind = order[number]
        if had < waits[kind]:  # those that it waits for come at even distances
            first = asked.setdefault((groups[number], had), last)
            there = max(first + longer, last)
            heapq.heappush(events, (there + kinds[kind].near / waits[kind], number, had + 1))
        elif following < len(order):
            begin(following, last)
            following += 1
    return last
