"""Which key tiles a query tile visits under a mask, and how: the arithmetic all roles share.

The terms of a mask (``plan.masks.masks``) each give a query tile one range of key tiles. Ranges are
sorted and made disjoint, and the n-th visited tile is found by comparing n with the ranges' sizes.
Tiles in no range are never loaded. The code runs on host integers and, traced, on registers::

    key tiles   0 1 2 3 4 5 6 7 8 9
    term 0        [---)                    visited: 1 2 | 5 6 7
    term 1                [-----)          n:       0 1   2 3 4

Source: ``docs/sources.md`` section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from ..facts.hardware import align_up
from .masks import (
    HOST,
    Arithmetic,
    Interval,
    Lengths,
    Mask,
    SlidingWindowMask,
    Term,
    is_zero,
    terms,
)

WORD_COLUMNS: Final = 32
"""Columns of a visibility word: the scores that a thread masks, or skips masking, together."""


@dataclass(frozen=True)
class Rows:
    """The rows of a query tile, counted from the first key (bottom-right alignment).

    Attributes:
        first, last: first and last row, both included.
        num_keys: keys of the sequence.
        lengths: valid keys of the sequence per padding slot.
    """

    first: Any
    last: Any
    num_keys: Any
    lengths: Lengths = ()


@dataclass(frozen=True)
class KeyTileMap:
    """Disjoint ascending ranges of key tiles; ends are ints or registers."""

    ranges: tuple[Interval, ...]
    ops: Arithmetic = HOST

    @classmethod
    def of(
        cls, mask_terms: Sequence[Term], rows: Rows, tile_keys: int, ops: Arithmetic = HOST
    ) -> KeyTileMap:
        """Return the tiles of ``tile_keys`` keys in which some of ``rows`` sees some key."""
        ranges = [_tile_range(term, rows, tile_keys, ops) for term in mask_terms]
        return cls(_disjoint(_sorted(ranges, ops), ops), ops)

    @property
    def count(self) -> Any:
        """Number of visited tiles."""
        total = _size(self.ranges[0])
        for tiles in self.ranges[1:]:
            total = total + _size(tiles)
        return total

    @property
    def start(self) -> Any:
        """A tile that no visited one comes before: the first one where its range is not empty."""
        return self.ranges[0].start

    @property
    def end(self) -> Any:
        """The first tile after all that are visited."""
        return self.ranges[-1].stop

    def tile(self, n: Any) -> Any:
        """Return the key tile that is visited as the ``n``-th.

        Every range has a shift of its own, and only one is added to ``n``: a sum of gaps would be
        taken from each limit of the mask on its own.
        """
        shift, before = self.ranges[0].start, _size(self.ranges[0])
        for tiles in self.ranges[1:]:
            shift = self.ops.select(n >= before, tiles.start - before, shift)
            before = before + _size(tiles)
        return _shifted(n, shift)


class TileStatus(Enum):
    """What a query tile does with a key tile."""

    SKIPPED = "never loaded"
    MASKED = "masked per element"
    FULL = "all visible"


def tile_status(mask: Mask, rows: Rows, tile: int, tile_keys: int) -> TileStatus:
    """Return how the key tile ``tile`` is handled by a query tile that is one warp's rows or more.

    A tile is FULL when one term shows all of it to all rows, and none adds a bias there: where
    terms overlap the largest sum of biases counts.
    """
    found = terms(mask)
    keys = Interval(tile * tile_keys, (tile + 1) * tile_keys)
    visited = KeyTileMap.of(found, rows, tile_keys)
    if not any(tiles.start <= tile < tiles.stop for tiles in visited.ranges):
        return TileStatus.SKIPPED
    for term in found:
        tiles = _tile_range(term, rows, tile_keys, HOST)
        if term.biases and tiles.start <= tile < tiles.stop:
            return TileStatus.MASKED
    for term in found:
        seen = visible_to_all(term, rows, HOST)
        if seen.start <= keys.start and keys.stop <= seen.stop:
            return TileStatus.FULL
    return TileStatus.MASKED


def visible_to_all(term: Term, rows: Rows, ops: Arithmetic) -> Interval:
    """Return the keys that every one of ``rows`` sees through ``term``: ends move right only."""
    first = term.interval(rows.first, rows.num_keys, rows.lengths, ops)
    last = term.interval(rows.last, rows.num_keys, rows.lengths, ops)
    return Interval(last.start, first.stop)


def visible_keys(mask: Mask, row: int, num_keys: int, lengths: Lengths = ()) -> set[int]:
    """Return the keys that ``row`` sees: the definition the kernel's arithmetic is tested with."""
    seen: set[int] = set()
    for term in terms(mask):
        span = term.interval(row, num_keys, lengths, HOST)
        seen |= set(range(span.start, span.stop))
    return seen


def _tile_range(term: Term, rows: Rows, tile_keys: int, ops: Arithmetic) -> Interval:
    first = term.interval(rows.first, rows.num_keys, rows.lengths, ops)
    last = term.interval(rows.last, rows.num_keys, rows.lengths, ops)
    # Keys before 0 do not exist, and a quotient of a negative number would round the wrong way.
    end = last.stop if last.stop is rows.num_keys else ops.maximum(last.stop, 0)
    stop = (end + (tile_keys - 1)) // tile_keys
    start = 0 if is_zero(first.start) else first.start // tile_keys
    return Interval(start, stop if is_zero(start) else ops.maximum(start, stop))


def _sorted(ranges: list[Interval], ops: Arithmetic) -> list[Interval]:
    """Sort by start with a fixed network of exchanges."""
    ranges = list(ranges)
    for end in range(len(ranges) - 1, 0, -1):
        for i in range(end):
            low, high = ranges[i], ranges[i + 1]
            swap = high.start < low.start
            ranges[i] = _choose(swap, high, low, ops)
            ranges[i + 1] = _choose(swap, low, high, ops)
    return ranges


def _choose(condition: Any, then: Interval, otherwise: Interval, ops: Arithmetic) -> Interval:
    if isinstance(condition, bool):
        # Both ranges start at a known key, so the order is known while tracing.
        return then if condition else otherwise
    return Interval(
        ops.select(condition, then.start, otherwise.start),
        ops.select(condition, then.stop, otherwise.stop),
    )


def _disjoint(ranges: list[Interval], ops: Arithmetic) -> tuple[Interval, ...]:
    """Cut from every range what earlier ones cover."""
    found = [ranges[0]]
    for tiles in ranges[1:]:
        start = ops.maximum(tiles.start, found[-1].stop)
        found.append(Interval(start, ops.maximum(tiles.stop, start)))
    return tuple(found)


def _size(tiles: Interval) -> Any:
    return tiles.stop if is_zero(tiles.start) else tiles.stop - tiles.start


def _shifted(n: Any, start: Any) -> Any:
    return n if is_zero(start) else n + start


@lru_cache(maxsize=1024)
def visited_keys(
    mask: Mask, seqlen_q: int, seqlen_k: int, positions: int, tile_keys: int
) -> tuple[int, ...]:
    """Return how many keys each query tile of a head visits, in whole key tiles.

    Args:
        mask: without lengths of sequences. seqlen_q, seqlen_k: of a sequence.
        positions: of a query tile. tile_keys: of a key tile.
    """
    found, shift = terms(mask), seqlen_k - seqlen_q
    counts = []
    for first in range(0, seqlen_q, positions):
        last = min(first + positions, seqlen_q) - 1
        rows = Rows(first + shift, last + shift, seqlen_k)
        counts.append(KeyTileMap.of(found, rows, tile_keys).count * tile_keys)
    return tuple(counts)


def most_visited(mask: Mask, positions: int, seqlen_k: int, tile_keys: int) -> int:
    """Return how many keys a query tile visits at most, in whole key tiles; of a window, its own.

    Args:
        mask: that ends at a row's own key. positions: of a query tile.
        seqlen_k: of the longest sequence. tile_keys: of a key tile.
    """
    every = align_up(seqlen_k, tile_keys)
    if not isinstance(mask, SlidingWindowMask) or mask.left is None:
        return every
    return min(every, align_up(mask.left + positions - 1, tile_keys) + tile_keys)
