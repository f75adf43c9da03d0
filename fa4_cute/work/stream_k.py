"""Stream-K: which parts of query tiles a CTA takes, where all their key tiles lie in a line.

Every role finds for itself where the line ends and which query tile the CTA's stretch begins in:
the lanes of a warp look at 32 sequences at once. From there on it goes from query tile to query
tile, and asks for the lengths of the next sequence only (``plan.launch.stream_k``).
"""

from dataclasses import dataclass, replace
from typing import Any

import cutlass
from cutlass import Boolean, Int32, Uint32, cute

from ..device import ids
from ..device.registers import DEVICE
from ..plan.facts.hardware import WARP_THREADS
from ..plan.launch.stream_k import (
    TileInLine,
    may_begin,
    places_of_stretch,
    places_of_tile,
)
from ..plan.spec.attention_spec import AttentionSpec
from .sequence import Arguments, decode_sequence
from .tile import WorkTile, num_visited, scheduled_heads, visited_tiles, with_hidden

LANE_STEPS = (1, 2, 4, 8, 16)
"""Lanes whose sums are added, step by step, until each has that of all before it."""
LOOKED_AT = 4
"""Sequences that a lane looks at together."""


@dataclass(frozen=True)
class Line:
    """The line of a launch, which every CTA finds alike.

    Attributes:
        places: of all query tiles. stretch: of each CTA.
    """

    places: Int32
    stretch: Int32

    @classmethod
    def of(cls, sums: "LaneSums") -> "Line":
        """Return the line of the launch. Whole warps."""
        places = sums.places
        return cls(places, places_of_stretch(places, ids.grid_size_x(), DEVICE))

    def begin(self) -> Int32:
        """Return the first place of the CTA's stretch."""
        return ids.block_index()[0] * self.stretch

    def holds(self, place: Int32) -> Boolean:
        """Return whether the query tile at ``place`` has a part in the CTA's stretch, when all
        before it are done."""
        inside = may_begin(place, ids.block_index()[0], self.stretch)
        return Boolean(inside & (place < self.places))


@dataclass(frozen=True)
class LineCursor:
    """Where a CTA is in the line.

    Attributes:
        place: where the next part begins, or its query tile.
        number: of the sequence there. start: its first place.
    """

    place: Int32
    number: Int32
    start: Int32


    def after(self, spec: AttentionSpec, args: Arguments, work: WorkTile) -> "LineCursor":
        """Return that of the next part, when that of ``work`` is done."""
        places = places_of_sequence(spec, args, self.number)
        place = self.start + (work.head + 1) * places
        is_over = work.head + 1 == scheduled_heads(spec, args.num_q_heads)
        start = DEVICE.select(is_over, place, self.start)
        number = self.number + DEVICE.select(is_over, 1, 0)
        return LineCursor(place, number, start)

    def __extract_mlir_values__(self) -> list[Any]:
        """Return the registers, for the loop over parts."""
        return [value.ir_value() for value in vars(self).values()]

    def __new_from_mlir_values__(self, values: list[Any]) -> "LineCursor":
        """Return the cursor whose registers are ``values``."""
        return LineCursor(*map(Int32, values))


def stretch_of(spec: AttentionSpec, args: Arguments) -> tuple[Line, LineCursor]:
    """Return the line of the launch, and where the CTA's stretch begins. Whole warps."""
    sums = LaneSums.of(spec, args)
    line = Line.of(sums)
    place = line.begin()
    return line, LineCursor(place, *sequence_at(spec, args, sums, place))


def work_in_line(
    spec: AttentionSpec, args: Arguments, cursor: LineCursor, line: Line
) -> WorkTile:
    """Return the part of a query tile at ``cursor``, one query tile of a head and sequence."""
    sequence = decode_sequence(spec, args, cursor.number)
    position, config = Int32(0), spec.config
    key_tiles = visited_tiles(spec, sequence, position, config.PairBM_eff())
    count = num_visited(spec, sequence, position, key_tiles)
    places = places_of_tile(count, DEVICE)
    head = Int32(Uint32(cursor.place - cursor.start) // Uint32(places))
    kv_head = head if config.fuse_gqa else head // config.group
    part = TileInLine(cursor.start + head * places, count, line.stretch).part(
        ids.block_index()[0], DEVICE
    )
    work = WorkTile(position, head, kv_head, cursor.number, sequence, key_tiles, part.count)
    work = replace(work, first_tile=part.first, split=part.index, num_parts=part.num_parts)
    return with_hidden(spec, work)


def places_of_sequence(spec: AttentionSpec, args: Arguments, number: Int32) -> Int32:
    """Return the places of each query tile of a sequence: one of every head."""
    sequence = decode_sequence(spec, args, number)
    key_tiles = visited_tiles(spec, sequence, Int32(0), spec.config.PairBM_eff())
    return places_of_tile(num_visited(spec, sequence, Int32(0), key_tiles), DEVICE)


def places_of_heads(spec: AttentionSpec, args: Arguments, number: Int32) -> Int32:
    """Return those of all heads of a sequence; 0 where there is none of that number."""
    count = args.extras.num_sequences
    places = places_of_sequence(spec, args, DEVICE.minimum(number, count - 1))
    places = places * scheduled_heads(spec, args.num_q_heads)
    return DEVICE.select(number < count, places, 0)


@dataclass(frozen=True)
class LaneSums:
    """Places of as many sequences that follow one another for every lane of a warp.

    Attributes:
        each: sequences of a lane.
        end: places up to the end of the lane's. own: those of the lane's.
    """

    each: Int32
    end: Int32
    own: Int32

    @classmethod
    def of(cls, spec: AttentionSpec, args: Arguments) -> "LaneSums":
        """Return those of the launch. Whole warps."""
        each = Int32((Uint32(args.extras.num_sequences) + (WARP_THREADS - 1)) // WARP_THREADS)
        own = places_of_lane(spec, args, each)
        return cls(each, sum_of_lanes(own), own)

    @property
    def places(self) -> Int32:
        """Places of all sequences. Whole warps."""
        return Int32(cute.arch.shuffle_sync(self.end, WARP_THREADS - 1))


@cute.jit
def places_of_lane(spec: cutlass.Constexpr, args: cutlass.Constexpr, each: Int32) -> Int32:
    """Return the places of the lane's ``each`` sequences."""
    places, first = Int32(0), ids.lane_index() * each
    for i in cutlass.range(0, each, unroll=LOOKED_AT):
        places = places + places_of_heads(spec, args, first + i)
    return places


@cute.jit
def sequence_at(
    spec: cutlass.Constexpr, args: cutlass.Constexpr, sums: LaneSums, place: Int32
) -> tuple[Int32, Int32]:
    """Return the sequence at ``place``, and its first place; the last one behind them all."""
    lane = last_begun(sums.end - sums.own, sums.own, place)
    number = lane * sums.each
    start = Int32(cute.arch.shuffle_sync(sums.end - sums.own, lane))
    before = start
    for first in cutlass.range(number, number + sums.each, WARP_THREADS, unroll=1):
        own = places_of_heads(spec, args, first + ids.lane_index())
        end = before + sum_of_lanes(own)
        if Int32(cute.arch.shuffle_sync(end - own, 0)) <= place:
            lane = last_begun(end - own, own, place)
            number = first + lane
            start = Int32(cute.arch.shuffle_sync(end - own, lane))
        before = Int32(cute.arch.shuffle_sync(end, WARP_THREADS - 1))
    return number, start


def last_begun(start: Int32, own: Int32, place: Int32) -> Int32:
    """Return the last lane that has places and begins at ``place`` or before; 0 for none."""
    begun = cutlass.Boolean((start <= place) & (own > 0))
    count = Int32(cute.arch.popc(cute.arch.vote_ballot_sync(begun)))
    return DEVICE.maximum(count - 1, 0)


def sum_of_lanes(own: Int32) -> Int32:
    """Return the sum of ``own`` of the lanes up to this one."""
    total = own
    for step in LANE_STEPS:
        other = Int32(cute.arch.shuffle_sync_up(total, step, mask_and_clamp=0))
        total = total + DEVICE.select(ids.lane_index() >= step, other, 0)
    return total
