"""Bytes of K, V and biases that come from memory, in the order in which query tiles are taken.

Clusters go through their query tiles side by side, from the last key to the first. What one of them
asks for lies in the L2 until others have asked for as much as that holds, whatever was used longest
ago first. So a key that all query tiles of a head see is read once where they follow one another
soon, and as often as there are query tiles where all heads come in between.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout

L2_BYTES: Final = 63_000_000
"""Half of a B200's 126 MB: either half of the SMs has a half next to it. Of an H200's 50 MB all is
kept that has 22 MB, and nothing from 52 MB on (``timing/sharing/h200_rows.json``)."""
Place = tuple[int, int]
"""A head, of those of all sequences, and a query tile."""


@dataclass(frozen=True)
class Shared:
    """Bytes of what several query tiles ask for.

    Attributes:
        key: K and V of a key of a head. pair: a bias of a query and a key.
        heads: of a sequence, whose biases those of all others share.
    """

    key: int
    pair: int = 0
    heads: int = 1


@dataclass(frozen=True)
class Pace:
    """Cycles that a cluster takes: for a query tile besides its keys, and for a block of keys."""

    tile: float
    block: float


class Cache:
    """What was used last, up to so many bytes."""

    def __init__(self, capacity: int) -> None:
        """Nothing was."""
        self._capacity, self._held, self.missed = capacity, 0, 0
        self._sizes: OrderedDict[tuple[int, ...], int] = OrderedDict()

    def use(self, name: tuple[int, ...], size: int) -> None:
        """Ask for something, which comes from memory if it is not there."""
        if name in self._sizes:
            self._sizes.move_to_end(name)
            return
        self.missed += size
        self._held += size
        self._sizes[name] = size
        while self._held > self._capacity:
            self._held -= self._sizes.popitem(last=False)[1]


def fetched(
    extent: Extent, layout: Layout, shared: Shared, pace: Pace, places: int,
    capacity: int = L2_BYTES,
) -> int:  # fmt: skip
    """Return the bytes that come from memory.

    Args:
        extent, layout: query tiles, and who takes them. shared: what they ask for.
        pace: how fast. places: clusters that run at the same time. capacity: of the L2.
    """
    cache, order = Cache(capacity), extent.order(layout)
    given = _fixed(layout, order, places) if layout.persistent else None
    handed = iter(order)

    def works(place: int) -> Iterator[Place]:
        yield from given[place] if given else handed

    ways = {place: _blocks(extent, layout, works(place), pace) for place in range(places)}
    events = [(0.0, place) for place in ways]
    while events:
        now, place = heapq.heappop(events)
        asked = next(ways[place], None)
        if asked is None:
            continue
        head, tile, block, cycles = asked
        if block >= 0:
            cache.use((head, block), layout.block * shared.key)
            if shared.pair:
                size = layout.rows * layout.block * shared.pair
                cache.use((head % shared.heads, tile, block), size)
        heapq.heappush(events, (now + cycles, place))
    return cache.missed


def _fixed(layout: Layout, order: Sequence[Place], places: int) -> list[list[Place]]:
    """Return what each of the persistent clusters takes."""
    count = min(places, len(order))
    numbers = list(range(len(order)))
    taken = [layout.taken(numbers, cluster, count) for cluster in range(count)]
    return [[order[n] for n in each] for each in taken] + [[] for _ in range(places - count)]


def _blocks(
    extent: Extent, layout: Layout, works: Iterator[Place], pace: Pace
) -> Iterator[tuple[int, int, int, float]]:
    """Yield head, tile and block that a cluster asks for, and cycles until it asks for the next
    one; block -1 is the start of a query tile."""
    for head, tile in works:
        yield head, tile, -1, pace.tile
        for block in reversed(extent.blocks(layout, tile * layout.rows, layout.rows)):
            yield head, tile, block, pace.block


def once(extent: Extent, layout: Layout, shared: Shared) -> int:
    """Return the bytes of the same, each read once."""
    return fetched(extent, layout, shared, Pace(0.0, 1.0), 1, capacity=1 << 62)
