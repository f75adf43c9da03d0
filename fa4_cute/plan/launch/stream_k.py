"""Stream-K: the key tiles of all query tiles in a line, of which every CTA takes as many.

A step of decoding has a query tile for every key/value head of every sequence, with as many key
tiles as the sequence has, which only the device knows. A number of splits for all leaves SMs idle
while the longest sequence is read. In a line each CTA takes a stretch, wherever that begins::

    query tiles   |....=====|....==|....===========|....=|      . start, = key tiles
    stretches     |    0    |    1    |    2    |    3    |

Of a key all heads follow one another in memory. Where a row is no whole cache line of the L2,
neighbours share one, and in one line of query tiles they would be read one after the other. So
there are several then, each of every so many heads of all sequences: CTAs with the same stretch
read neighbouring heads at the same time (measured: ``docs/hopper.md``, "Rows that are parts of
lines").

The start of a query tile, with its end, costs as much as some key tiles, by how large these are,
and counts as that many places in front of them (``start_tiles`` of a specification). A query tile
belongs to the CTAs in whose stretches its key tiles lie; one without key tiles has one place all
the same, so that somebody writes its rows. A pair of CTAs takes a stretch together, and counts as
one here.

Where all query tiles have as many key tiles, as samples of one prompt have, a stretch of whole ones
needs no joining, and is taken if it is little longer.

Parts of query tiles are numbered by CTA and query tile together: from one part to the next in the
line one of the two goes up by one, so that no two have one number, and those of a query tile follow
one another. It is where a part's results are kept, line after line.

Source: the decomposition is that of Osama et al. for products of matrices (arXiv 2301.03598).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

from ..facts.hardware import ceil_div
from ..masks.masks import HOST, Arithmetic

MAX_PLACES: Final = 2**30
"""Places of a line at most: the end of the last stretch is a signed 32-bit number, too."""
LEAST_KEYS: Final = 512
"""Keys of a stretch at least: with fewer, to join parts takes longer than to read keys (predicted
for a B200, measured on an H200: ``docs/experiments.md``)."""
ALONE_PLACES: Final = 128
"""Places of an SM up to which one CTA takes them all, where two would fit: starts and ends of more
parts cost more than they hide (measured on an H200: ``docs/experiments.md``)."""
LONGER: Final = 5
"""A stretch of whole query tiles may be longer by one part in so many: memory is the limit, and the
SMs that have one saturate it as well."""


ONE_IN: Final = 100
"""Of so many CTAs one may have no stretch, so that there are more lines."""


class Lines(NamedTuple):
    """The lines of a launch, all of the same sequences.

    Attributes:
        num_lines: how many. heads: of a sequence in each.
        stretches: of each, one for a CTA or pair.
    """

    num_lines: int
    heads: int
    stretches: int


def head_in_line(number: Any, line: Any, num_lines: Any) -> Any:
    """Return which head of its sequence the ``number``-th of a line is."""
    return number * num_lines + line


def num_lines_of(heads: int, num_ctas: int) -> int:
    """Return into how many lines the ``heads`` of a sequence fall: as many as divide them and leave
    hardly one of ``num_ctas`` CTAs without a stretch."""
    divisors = (n for n in range(min(heads, num_ctas), 0, -1) if heads % n == 0)
    return next((n for n in divisors if num_ctas % n * ONE_IN <= num_ctas), 1)


def least_places(key_tile: int) -> int:
    """Return the places of a stretch at least, by the keys of a key tile."""
    return ceil_div(LEAST_KEYS, key_tile)


def places_of_tile(key_tiles: Any, start_tiles: int, ops: Arithmetic = HOST) -> Any:
    """Return the places that a query tile with so many key tiles has in the line."""
    return ops.maximum(key_tiles, 1) + start_tiles


def places_of_stretch(
    places: Any, num_ctas: Any, key_tile: int, ops: Arithmetic = HOST, *, alike: Any = 0
) -> Any:
    """Return the places of a stretch, in a line of ``places``.

    Args:
        places: of the line. num_ctas: that have a stretch of it.
        key_tile: keys of a key tile. ops: how numbers are compared.
        alike: places of every query tile; 0 where they differ.
    """
    even = (places + (num_ctas - 1)) // num_ctas
    stretch = ops.maximum(even, least_places(key_tile))
    num_tiles = places // ops.maximum(alike, 1)
    whole = (num_tiles + (num_ctas - 1)) // num_ctas * alike
    is_longer = whole - stretch > stretch // LONGER
    return ops.select(is_longer, stretch, ops.select(alike > 0, whole, stretch))


def num_ctas_of(places: int, most: int, key_tile: int) -> int:
    """Return how many CTAs a line of so many places may need, of ``most`` that may have it."""
    return min(most, ceil_div(places, least_places(key_tile)))


def num_parts_of(num_tiles: int, num_ctas: int) -> int:
    """Return how many parts of query tiles are numbered."""
    return num_tiles + num_ctas


@dataclass(frozen=True)
class Part:
    """What a stretch has of a query tile.

    Attributes:
        first, count: its key tiles, by their number among those that the query tile visits.
        index: its number among the parts of the query tile. num_parts: how many there are.
    """

    first: Any
    count: Any
    index: Any
    num_parts: Any


@dataclass(frozen=True)
class TileInLine:
    """A query tile in the line.

    Attributes:
        start: its first place. key_tiles: how many it visits.
        stretch: places of every stretch. start_tiles: those in front of the key tiles.
    """

    start: Any
    key_tiles: Any
    stretch: Any
    start_tiles: int

    def part(self, cta: Any, ops: Arithmetic = HOST) -> Part:
        """Return the part of ``cta``, in whose stretch key tiles of it lie, or its only place."""
        keys = self.start + self.start_tiles
        begin = cta * self.stretch
        first = ops.maximum(begin - keys, 0)
        end = ops.minimum(begin + self.stretch - keys, self.key_tiles)
        first_cta = keys // self.stretch
        last_cta = (keys + ops.maximum(self.key_tiles, 1) - 1) // self.stretch
        return Part(first, end - first, cta - first_cta, last_cta - first_cta + 1)


def may_begin(place: Any, cta: Any, stretch: Any, start_tiles: int) -> Any:
    """Return whether a query tile that begins at ``place`` has its first key tile in the stretch of
    ``cta``, or one before it."""
    return place + start_tiles < (cta + 1) * stretch


def tiles_of_lengths(
    lengths: Iterable[int], heads: int, key_tile: int, num_ctas: int, start_tiles: int
) -> list[TileInLine]:
    """Return the query tiles of a line by their numbers: one for each of its heads of a sequence.

    Args:
        lengths: keys of the sequences, of which queries see all. heads: of each in the line.
        key_tile: keys of a key tile. num_ctas: that have a stretch of it.
        start_tiles: what a query tile's start and end take, in key tiles.
    """
    counts = [ceil_div(keys, key_tile) for keys in lengths for _ in range(heads)]
    places = [int(places_of_tile(count, start_tiles)) for count in counts]
    alike = places[0] if len(set(places)) == 1 else 0
    stretch = int(places_of_stretch(sum(places), num_ctas, key_tile, alike=alike))
    starts = accumulate(places, initial=0)
    found = zip(starts, counts, strict=False)
    return [TileInLine(start, n, stretch, start_tiles) for start, n in found]
