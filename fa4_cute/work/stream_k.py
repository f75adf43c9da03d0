"""Stream-K: which parts of query tiles a CTA takes, where all their key tiles lie in a line.

The CTAs of a pair take the same: each finds it for itself, by the number of the pair.

CTAs with the same number along x have the same stretch, each of the line that its number along y
names: of neighbouring heads.

Before a CTA's roles begin, a warp finds where the line ends and which query tile the CTA's stretch
begins in: its lanes look at 32 sequences at once. From there on every role goes from query tile to
query tile, and asks for the lengths of the next sequence only (``plan.launch.stream_k``).
"""

from dataclasses import dataclass, replace

import cutlass
from cutlass import Boolean, Int32, Uint32, cute

from ..device import ids
from ..device.lanes import LANE_DISTANCES
from ..device.math.fragment import from_lane
from ..device.memory import shared
from ..device.registers import DEVICE
from ..device.sync import barriers
from ..plan.barriers.answers import MAX_WARPS, PAIR_BYTES
from ..plan.facts.hardware import WARP_THREADS
from ..plan.launch.launch import shares_cache_lines
from ..plan.launch.stream_k import (
    TileInLine,
    head_in_line,
    may_begin,
    num_parts_of,
    places_of_stretch,
    places_of_tile,
)
from ..plan.spec.attention_spec import AttentionSpec
from .sequence import Arguments, decode_sequence
from .tile import (
    WorkTile,
    in_clusters,
    num_visited,
    visited_tiles,
    with_hidden,
)

LOOKED_AT = 4
"""Sequences that a lane looks at together."""


@dataclass(frozen=True)
class TilePlace:
    """A query tile and where it begins in the line.

    Attributes:
        number: of the query tile: one for each head of the line, of each sequence.
        start: its first place.
    """

    number: Int32
    start: Int32

    def after(self, spec: AttentionSpec, args: Arguments) -> "TilePlace":
        """Return the next one."""
        sequence, _ = divided(self.number, args.extras.num_heads)
        return TilePlace(self.number + 1, self.start + places_of_sequence(spec, args, sequence))


@dataclass(frozen=True)
class Stretch:
    """A CTA's stretch of the line, in shared memory, which is read whenever it is asked for.

    Held in registers it would be there beside all that a query tile needs. So each warp has a
    pair of words there, the query tile that it is at, and one more pair says how long the line is.

    Attributes:
        address: of the pairs, by warp.
    """

    address: Int32

    @property
    def tile(self) -> TilePlace:
        """The query tile that the warp is at."""
        return TilePlace(*shared.load_vector(self._pair(ids.warp_index()), 2, Int32))

    @property
    def line(self) -> tuple[Int32, Int32]:
        """Places of the line, and of every stretch."""
        places, stretch = shared.load_vector(self._pair(MAX_WARPS), 2, Int32)
        return places, stretch

    def _pair(self, index: Int32 | int) -> Int32:
        return self.address + index * PAIR_BYTES

    def tell(self, line: tuple[Int32, Int32], first: TilePlace) -> None:
        """Write the line, and the query tile that all warps begin with. One warp, whole."""
        is_tile = ids.lane_index() < MAX_WARPS
        pairs = zip((first.number, first.start), line, strict=True)
        words = [DEVICE.select(is_tile, tile, of_line) for tile, of_line in pairs]
        shared.store_vector(self._pair(DEVICE.minimum(ids.lane_index(), MAX_WARPS)), words)

    def go_on(self, spec: AttentionSpec, args: Arguments) -> None:
        """Have the warp be at the next query tile. Whole warps."""
        tile = self.tile.after(spec, args)
        # Every lane has read the last one, whose words all of them write; none reads before that.
        barriers.warp_barrier()
        shared.store_vector(self._pair(ids.warp_index()), [tile.number, tile.start])
        barriers.warp_barrier()

    def holds_tile(self, spec: AttentionSpec) -> Boolean:
        """Return whether the CTA has a part of the query tile that the warp is at."""
        (places, stretch), tile = self.line, self.tile
        inside = may_begin(tile.start, stretch_number(spec), stretch, spec.start_tiles)
        return Boolean(inside & (tile.start < places))


def work_in_line(spec: AttentionSpec, args: Arguments, stretch: Stretch) -> WorkTile:
    """Return the CTA's part of the query tile that the warp is at."""
    tile, (_, places) = stretch.tile, stretch.line
    number, head = divided(tile.number, args.extras.num_heads)
    head = head_of_line(spec, head)
    sequence = decode_sequence(spec, args, number)
    position, config = Int32(0), spec.config
    key_tiles = visited_tiles(spec, sequence, position, config.PairBM_eff())
    count = num_visited(spec, sequence, position, key_tiles)
    kv_head = head if config.fuse_gqa else head // config.group
    in_line = TileInLine(tile.start, count, places, spec.start_tiles)
    part = in_line.part(stretch_number(spec), DEVICE)
    work = WorkTile(position, head, kv_head, number, sequence, key_tiles, part.count)
    work = replace(work, first_tile=part.first, split=part.index, num_parts=part.num_parts)
    return with_hidden(spec, work)


def head_of_line(spec: AttentionSpec, number: Int32) -> Int32:
    """Return which head of its sequence the ``number``-th of the CTA's line is."""
    if not shares_cache_lines(spec):
        return number
    return Int32(head_in_line(number, ids.block_index()[1], ids.grid_size_y()))


def first_part_of_line(spec: AttentionSpec, args: Arguments) -> Int32 | int:
    """Return the number of the first part of the CTA's line, behind those of the lines before."""
    if not shares_cache_lines(spec):
        return 0
    tiles = args.extras.num_sequences * args.extras.num_heads
    return ids.block_index()[1] * num_parts_of(tiles, in_clusters(spec, ids.grid_size_x()))


def tile_in_line(spec: AttentionSpec, args: Arguments, work: WorkTile) -> Int32:
    """Return the number of a query tile in its line."""
    number = work.head
    if shares_cache_lines(spec):
        number, _ = divided(work.head, ids.grid_size_y())
    return work.batch * args.extras.num_heads + number


def divided(number: Int32, by: Int32) -> tuple[Int32, Int32]:
    """Return quotient and remainder of two numbers that are not negative."""
    quotient = Uint32(number) // Uint32(by)
    return Int32(quotient), Int32(Uint32(number) - quotient * Uint32(by))


def keep_stretch(spec: AttentionSpec, args: Arguments, stretch: Stretch) -> None:
    """Find the CTA's stretch and tell it, before all warps meet. One warp, whole.

    Only there have all warps the registers to find it.
    """
    line, sequence, start = find_stretch(spec, args)
    places = places_of_sequence(spec, args, DEVICE.minimum(sequence, last_sequence(args)))
    begin = first_place(spec, line[1])
    head, _ = divided(begin - start, places)
    number = sequence * args.extras.num_heads + head
    stretch.tell(line, TilePlace(number, start + head * places))


@cute.jit
def find_stretch(
    spec: cutlass.Constexpr, args: cutlass.Constexpr
) -> tuple[tuple[Int32, Int32], Int32, Int32]:
    """Return the places of the line and of a stretch, and the sequence in which the CTA's begins,
    with the first place of that. Whole warps.

    Up to 32 sequences take one look of all lanes. Of more, a lane first adds up some that follow
    one another, and only those of the lane in which the stretch begins are looked at one by one.
    """
    count, lane = args.extras.num_sequences, ids.lane_index()
    usual = places_of_sequence(spec, args, Int32(0))
    each, first, before, places, stretch = Int32(1), Int32(0), Int32(0), Int32(0), Int32(0)
    if count > WARP_THREADS:
        each = Int32((Uint32(count) + (WARP_THREADS - 1)) // WARP_THREADS)
        own, differ = places_of_lane(spec, args, each, usual)
        end = sum_of_lanes(own)
        places = from_lane(end, WARP_THREADS - 1)
        stretch = stretch_in_line(spec, places, usual, differ)
        begun = last_begun(end - own, own, first_place(spec, stretch))
        first, before = begun * each, from_lane(end - own, begun)
    own, differ = places_of_heads(spec, args, first + lane, usual)
    end = before + sum_of_lanes(own)
    if count <= WARP_THREADS:
        places = from_lane(end, WARP_THREADS - 1)
        stretch = stretch_in_line(spec, places, usual, differ)
    begin = first_place(spec, stretch)
    for _step in cutlass.range(WARP_THREADS, each, WARP_THREADS, unroll=1):
        # More than 1,024 sequences: those of a lane are more than a warp looks at together.
        if from_lane(end, WARP_THREADS - 1) <= begin:
            first, before = first + WARP_THREADS, from_lane(end, WARP_THREADS - 1)
            own, differ = places_of_heads(spec, args, first + lane, usual)
            end = before + sum_of_lanes(own)
    begun = last_begun(end - own, own, begin)
    return (places, stretch), first + begun, from_lane(end - own, begun)


def stretch_in_line(spec: AttentionSpec, places: Int32, usual: Int32, differ: Int32) -> Int32:
    """Return the places of a stretch of a line of so many: there is one for every CTA or pair.

    Whole warps.

    Args:
        spec: the static choices. places: of the line.
        usual: places of a query tile of the first sequence.
        differ: not 0 where a sequence that the lane looked at has another number.
    """
    some_differ = barriers.any_in_warp(differ != 0)
    alike = DEVICE.select(some_differ, 0, usual)
    count = in_clusters(spec, ids.grid_size_x())
    return Int32(places_of_stretch(places, count, spec.config.BN, DEVICE, alike=alike))


@cute.jit
def places_of_lane(
    spec: cutlass.Constexpr, args: cutlass.Constexpr, each: Int32, usual: Int32
) -> tuple[Int32, Int32]:
    """Return the places of ``each`` sequences that follow one another, the lane's, and whether some
    differ from the ``usual`` ones."""
    places, differ, first = Int32(0), Int32(0), ids.lane_index() * each
    for i in cutlass.range(0, each, unroll=LOOKED_AT):
        own, differs = places_of_heads(spec, args, first + i, usual)
        places, differ = places + own, differ | differs
    return places, differ


def places_of_sequence(spec: AttentionSpec, args: Arguments, number: Int32) -> Int32:
    """Return the places of each query tile of a sequence: one of every head."""
    sequence = decode_sequence(spec, args, number)
    key_tiles = visited_tiles(spec, sequence, Int32(0), spec.config.PairBM_eff())
    count = num_visited(spec, sequence, Int32(0), key_tiles)
    return places_of_tile(count, spec.start_tiles, DEVICE)


def places_of_heads(
    spec: AttentionSpec, args: Arguments, number: Int32, usual: Int32
) -> tuple[Int32, Int32]:
    """Return the places of the line's heads of a sequence, 0 where there is none of that number,
    and by what those of one, or then of the last sequence, differ from the ``usual`` ones."""
    own = places_of_sequence(spec, args, DEVICE.minimum(number, last_sequence(args)))
    places = own * args.extras.num_heads
    return DEVICE.select(number < args.extras.num_sequences, places, 0), own ^ usual


def last_sequence(args: Arguments) -> Int32:
    """Return the number of the last sequence."""
    return args.extras.num_sequences - 1


def stretch_number(spec: AttentionSpec) -> Int32:
    """Return the number of the stretch that the CTA takes, alone or with the other of its pair."""
    return in_clusters(spec, ids.block_index()[0])


def first_place(spec: AttentionSpec, stretch: Int32) -> Int32:
    """Return where the CTA's stretch begins."""
    return stretch_number(spec) * stretch


def last_begun(start: Int32, own: Int32, place: Int32) -> Int32:
    """Return the last lane that has places and begins at ``place`` or before; 0 for none."""
    begun = Boolean((start <= place) & (own > 0))
    count = Int32(cute.arch.popc(cute.arch.vote_ballot_sync(begun)))
    return DEVICE.maximum(count - 1, 0)


def sum_of_lanes(own: Int32) -> Int32:
    """Return the sum of ``own`` of the lanes up to this one."""
    total = own
    for step in LANE_DISTANCES:
        other = Int32(cute.arch.shuffle_sync_up(total, step, mask_and_clamp=0))
        total = total + DEVICE.select(ids.lane_index() >= step, other, 0)
    return total
