"""Which sequence a packed tile belongs to, where a launch counts query tiles by rows.

All lanes of a warp look at as many sequences at once (``plan.launch.packed_rows``).
"""

from dataclasses import dataclass, replace

import cutlass
from cutlass import Int32, Uint32, cute

from ..device import ids
from ..device.memory import gmem
from ..device.registers import DEVICE
from ..plan.launch.packed_rows import WAYS, first_packed_tile
from ..plan.spec.attention_spec import AttentionSpec
from .sequence import Arguments, Sequence, decode_sequence


@dataclass(frozen=True)
class PackedTiles:
    """The packed tiles of a sequence.

    Attributes:
        number: of the sequence.
        sequence: its lengths and offsets.
        first: the first of its packed tiles.
        count: how many it has: at most one has no query. The launch may have more behind the last
            sequence, where there are more rows than sequences have.
    """

    number: Int32
    sequence: Sequence
    first: Int32
    count: Int32

    def tile_and_head(
        self, spec: AttentionSpec, index: Int32, heads: Int32
    ) -> tuple[Int32, Int32]:
        """Return query tile and head of work ``index`` of the launch, one of this sequence.

        With causal masks the longest come first.
        """
        index, count, heads = (Uint32(n) for n in (index - self.first * heads, self.count, heads))
        is_of_rows = index < count * heads
        index = Uint32(DEVICE.select(is_of_rows, Int32(index), 0))
        if spec.variant.is_dynamic:
            tile = index // heads
            head = index - tile * heads
        else:
            head = index // count
            tile = index - head * count
        if spec.variant.longest_first:
            tile = count - 1 - tile
        # The one behind the last has no query.
        return DEVICE.select(is_of_rows, Int32(tile), self.count), Int32(head)


def find_sequence(spec: AttentionSpec, args: Arguments, packed_tile: Uint32) -> PackedTiles:
    """Return the packed tiles of the sequence of one of them. Whole warps.

    Every lane decodes the sequence that it looks at, so that nothing is loaded after it is found.
    """
    positions, count = spec.config.PairBM_eff(), args.extras.num_sequences
    wanted = Int32(packed_tile)
    start = narrowed(args, positions, wanted)
    of_lane = start + ids.lane_index()
    own = decode_sequence(spec, args, DEVICE.minimum(of_lane, count - 1))
    row = Int32(own.first_query)
    lane = num_begun(row, of_lane, (positions, wanted, count)) - 1
    found, number = from_lane(own, lane), start + lane
    first = packed_tile_of_row(Int32(found.first_query), number, positions)
    behind = packed_tile_of_row(found.first_query + found.seqlen_q, number, positions) + 1
    return PackedTiles(number, found, first, behind - first)


@cute.jit
def narrowed(args: Arguments, positions: cutlass.Constexpr[int], packed_tile: Int32) -> Int32:
    """Return the first of ``WAYS`` sequences, or fewer, of which one has the packed tile."""
    count, start, step = args.extras.num_sequences, Int32(0), args.extras.first_step
    while step > 1:
        sequence = start + ids.lane_index() * step
        at = DEVICE.minimum(sequence, count)
        row = gmem.load_i32(gmem.word_address(args.extras.cu_seqlens_q, at))
        start = start + (num_begun(row, sequence, (positions, packed_tile, count)) - 1) * step
        step = Int32(Uint32(step) // WAYS)
    return start


def num_begun(row: Int32, sequence: Int32, launch: tuple[int, Int32, Int32]) -> Int32:
    """Return how many lanes' sequences begin at a packed tile or before it.

    Args:
        row: the first row of the lane's. sequence: its number.
        launch: positions of a query tile, the packed tile, and the number of sequences.
    """
    positions, packed_tile, count = launch
    begun = packed_tile_of_row(row, sequence, positions) <= packed_tile
    is_begun = cutlass.Boolean(begun & (sequence < count))
    return Int32(cute.arch.popc(cute.arch.vote_ballot_sync(is_begun)))


def packed_tile_of_row(row: Int32, sequence: Int32, positions: int) -> Int32:
    """Return a sequence's first packed tile; no row is negative, so that the division is short."""
    return Int32(first_packed_tile(Uint32(row), Uint32(sequence), positions))


def from_lane(own: Sequence, lane: Int32) -> Sequence:
    """Return the sequence that ``lane`` has decoded."""

    def taken(value: Int32 | int) -> Int32 | int:
        return value if isinstance(value, int) else cute.arch.shuffle_sync(value, lane)

    names = ("seqlen_q", "seqlen_k", "first_query", "first_key", "key_batch")
    lengths = {slot: cute.arch.shuffle_sync(n, lane) for slot, n in own.lengths.items()}
    return replace(own, lengths=lengths, **{name: taken(getattr(own, name)) for name in names})
