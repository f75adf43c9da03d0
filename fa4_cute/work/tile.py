"""``WorkTile``: what a CTA computes, decoded from its block or its place in the schedule.

Position, head, batch and the number of key tiles. All roles count the same key tiles, otherwise
their barriers would fall out of step.
"""

from dataclasses import dataclass, replace

import cutlass
from cutlass import Int32, Uint32, cute

from ..device import ids
from ..device.registers import DEVICE, UNSIGNED
from ..plan.masks.key_tiles import KeyTileMap, Rows
from ..plan.masks.masks import is_zero
from ..plan.masks.query_tiles import KeptOrder, SequenceOrder
from ..plan.spec.attention_spec import AttentionSpec
from .packed import find_sequence
from .progress import counted
from .sequence import Arguments, Sequence, decode_sequence

Place = tuple[Int32, Int32, Int32]
"""Position of a query tile's first query, its head and its batch entry."""


@dataclass(frozen=True)
class WorkTile:
    """What one CTA computes: a query tile of one head, or one split of its keys.

    Attributes:
        position: position of the tile's first query in its sequence.
        head: head of the Q map: a query head, or a K/V head when the group is fused into rows.
        kv_head: head of the K and V maps.
        batch: batch entry.
        sequence: the lengths and offsets of that entry.
        key_tiles: the key tiles that some row of the tile sees.
        num_key_tiles: how many of them this CTA visits, without ``lead``; may be 0.
        num_hidden: how many of these, at their end, the first Q tile leaves out: one or none.
        lead: how many key tiles the second Q tile is ahead of the first: one or none. It begins
            that much later, and the first Q tile ends that much earlier.
        first_tile: number of the first one it visits; later ones belong to other splits.
        split: which of the splits of the query tile the CTA computes.
        num_parts: how many there are where each query tile has its own number of them.
    """

    position: Int32
    head: Int32
    kv_head: Int32
    batch: Int32
    sequence: Sequence
    key_tiles: KeyTileMap
    num_key_tiles: Int32
    num_hidden: Int32 | int = 0
    lead: Int32 | int = 0
    first_tile: Int32 | int = 0
    split: Int32 | int = 0
    num_parts: Int32 | int = 1

    @property
    def counts(self) -> tuple[Int32, Int32 | int, Int32 | int]:
        """What the counts of a persistent CTA continue with (``Progress.after``)."""
        return self.num_key_tiles, self.num_hidden, self.lead

    @property
    def num_loaded(self) -> Int32:
        """How many key tiles the CTA visits."""
        return counted(self.num_key_tiles, self.lead)

    def key_tile(self, n: Int32) -> Int32:
        """Return the index of the key tile that the CTA visits as its ``n``-th."""
        return self.key_tiles.tile(n if is_zero(self.first_tile) else n + self.first_tile)


def decode_work(spec: AttentionSpec, args: Arguments, index: Int32 | None = None) -> WorkTile:
    """Return the tile of this CTA, or that of number ``index`` in the order of the schedule.

    With causal masks the longest tiles come first.
    """
    if spec.variant.by_rows:
        return work_by_rows(spec, args, index)
    if index is None:
        if spec.heads_first:
            block, head, batch, num_blocks = place_in_section(spec, args.num_q_heads)
        else:
            block, head, batch = ids.block_index()
            num_blocks = ids.grid_size_x()
    else:
        block, head, batch, num_blocks = place_of_work(spec, args, index)
    tile, split = query_tile(spec, args, block, num_blocks)
    return work_at(spec, args, (tile * spec.config.PairBM_eff(), head, batch), split)


def work_by_rows(spec: AttentionSpec, args: Arguments, index: Int32 | None) -> WorkTile:
    """Return that tile where query tiles are counted by rows: a sequence after the other.

    In a sequence dynamic CTAs take all heads of one query tile before the next one, so that works
    are alike; of others a head's keys and values stay in the L2 while its query tiles are taken.
    """
    if index is None:
        index = ids.block_index()[0]
        if spec.config.cta_group() > 1:
            index = index // spec.config.cta_group()
    split: Int32 | int = 0
    if spec.variant.splits_keys:
        num_splits = num_splits_of(spec, args)
        index, split = index // num_splits, index % num_splits
    heads = scheduled_heads(spec, args.num_q_heads)
    found = find_sequence(spec, args, Uint32(index) // Uint32(heads))
    tile, head = found.tile_and_head(spec, index, heads)
    position = tile * spec.config.PairBM_eff()
    return work_at(spec, args, (position, head, found.number), split, found.sequence)


def place_of_work(
    spec: AttentionSpec, args: Arguments, index: Int32
) -> tuple[Int32, Int32, Int32, Int32]:
    """Return query tile, head and sequence of work ``index``, and the number of query tiles.

    All heads and sequences of one query tile follow one another: they take equally long, so that
    CTAs that start together end together. Or all query tiles of a head do, and CTAs take turns; or
    those of a sequence.
    """
    if spec.in_sections:
        return place_in_turns(spec, args, index)
    if spec.sequence_by_sequence:
        return place_in_sequences(spec, args, index)
    if spec.decodes_briefly:
        return place_in_few(spec, args, index)
    num_heads = args.extras.num_heads
    per_tile = num_heads * args.extras.num_sequences
    if spec.head_by_head:
        num_blocks = args.extras.num_work // per_tile
        head, block = index // num_blocks, index % num_blocks
        return block, head % num_heads, head // num_heads, num_blocks
    block, rest = index // per_tile, index % per_tile
    num_blocks = args.extras.num_work // per_tile
    return block, rest % num_heads, rest // num_heads, num_blocks


def place_in_few(
    spec: AttentionSpec, args: Arguments, index: Int32
) -> tuple[Int32, Int32, Int32, Int32]:
    """Return the same, head by head, of dense queries: two divisions of numbers without a sign."""
    num_blocks = num_query_tiles(spec, args)
    heads, index = Uint32(args.extras.num_heads), Uint32(index)
    head = index // num_blocks
    batch = head // heads
    block, head = index - head * num_blocks, head - batch * heads
    return Int32(block), Int32(head), Int32(batch), Int32(num_blocks)


def place_in_sequences(
    spec: AttentionSpec, args: Arguments, index: Int32
) -> tuple[Int32, Int32, Int32, Int32]:
    """Return the same of packed queries, a sequence after the other, with as many divisions."""
    num_blocks = num_query_tiles(spec, args)
    order = SequenceOrder(Uint32(args.extras.num_heads), num_blocks)
    block, head, batch = order.place(Uint32(index))
    return Int32(block), Int32(head), Int32(batch), Int32(num_blocks)


def num_query_tiles(spec: AttentionSpec, args: Arguments) -> Uint32:
    """Return how many query tiles a head has, of the longest sequence."""
    positions = spec.config.PairBM_eff()
    return Uint32(args.seqlen_q + (positions - 1)) // Uint32(positions)


def place_in_turns(
    spec: AttentionSpec, args: Arguments, index: Int32
) -> tuple[Int32, Int32, Int32, Int32]:
    """Return the same where persistent CTAs go through sections of heads: the launch counts these.

    All heads of one query tile of a section follow one another. A section of one head is that head.
    """
    if spec.variant.keeps_short:
        return place_as_kept(spec, args, index)
    if spec.variant.starts_by_row:
        return place_in_sections(spec, args, index)
    heads, num_sections = args.extras.num_heads, args.extras.num_sequences
    num_blocks = args.extras.num_work // (heads * num_sections)
    all_heads = scheduled_heads(spec, args.num_q_heads)
    section, rest = index // (heads * num_blocks), index % (heads * num_blocks)
    head = section * heads + rest % heads
    return rest // heads, head % all_heads, head // all_heads, num_blocks


def place_as_kept(
    spec: AttentionSpec, args: Arguments, index: Int32
) -> tuple[Int32, Int32, Int32, Int32]:
    """Return the same where the shortest query tiles are kept for the end: three divisions of
    numbers without a sign. Between two query tiles some roles do nothing else."""
    extras, num_blocks = args.extras, num_query_tiles(spec, args)
    counts = Uint32(extras.num_heads), Uint32(extras.num_sequences), num_blocks
    order = KeptOrder(*counts, Uint32(extras.num_kept))
    block, head = order.place(Uint32(index), UNSIGNED)
    return Int32(block), *of_sequence(spec, args, head), Int32(num_blocks)


def place_in_sections(
    spec: AttentionSpec, args: Arguments, index: Int32
) -> tuple[Int32, Int32, Int32, Int32]:
    """Return the same, a section after the other, by as many divisions."""
    num_blocks, heads = num_query_tiles(spec, args), Uint32(args.extras.num_heads)
    block, column, section = SequenceOrder(heads, num_blocks).place(Uint32(index))
    return Int32(block), *of_sequence(spec, args, section * heads + column), Int32(num_blocks)


def of_sequence(spec: AttentionSpec, args: Arguments, head: Uint32) -> tuple[Int32, Int32]:
    """Return which head of its sequence one of those of all is, and which sequence."""
    all_heads = Uint32(scheduled_heads(spec, args.num_q_heads))
    batch = head // all_heads
    return Int32(head - batch * all_heads), Int32(batch)


def in_clusters(spec: AttentionSpec, ctas: Int32) -> Int32:
    """Return a number or count of CTAs along x as one of the clusters that they make up."""
    size = spec.cluster_size
    return ctas if size == 1 else ctas // size


def scheduled_heads(spec: AttentionSpec, num_q_heads: Int32) -> Int32:
    """Return how many heads have query tiles of their own: K/V heads, if rows hold a group."""
    return num_q_heads // (spec.config.group if spec.config.fuse_gqa else 1)


@cute.jit
def place_in_section(
    spec: cutlass.Constexpr, num_q_heads: Int32
) -> tuple[Int32, Int32, Int32, Int32]:
    """Return query tile, head and sequence of this CTA or pair, and the number of query tiles.

    Heads whose keys and values fit the L2 together are a section. In a section all heads of one
    query tile follow one another, so that a launch ends with short works alone.
    """
    head, block, batch = ids.block_index()
    heads = ids.grid_size_x()
    if cutlass.const_expr(spec.cluster_size > 1):
        head, heads = head // spec.cluster_size, heads // spec.cluster_size
    all_heads = scheduled_heads(spec, num_q_heads)
    # Divisions take longer than a branch, and short sequences have one section.
    if heads != all_heads:
        sections = all_heads // heads
        head = batch % sections * heads + head
        batch = batch // sections
    return block, head, batch, ids.grid_size_y()


def query_tile(
    spec: AttentionSpec, args: Arguments, block: Int32, num_blocks: Int32
) -> tuple[Int32, Int32 | int]:
    """Return query tile and split of block ``block`` of ``num_blocks`` along x."""
    split: Int32 | int = 0
    if spec.variant.splits_keys:
        num_splits = num_splits_of(spec, args)
        block, split, num_blocks = block // num_splits, block % num_splits, num_blocks // num_splits
    if spec.variant.longest_first:
        block = num_blocks - 1 - block
    return block, split


def num_splits_of(spec: AttentionSpec, args: Arguments) -> Int32 | int:
    """Return into how many splits the key tiles fall: the CTAs of a cluster, or as many as asked.

    The splits of a query tile are neighbours along x, and so ranks of one cluster.
    """
    if spec.variant.in_cluster:
        return spec.variant.num_partitions
    return args.extras.num_splits


def work_at(
    spec: AttentionSpec,
    args: Arguments,
    where: Place,
    split: Int32 | int,
    sequence: Sequence | None = None,
) -> WorkTile:
    """Return the work tile whose first query, head and batch are ``where``.

    ``sequence`` is that batch entry's, where it has been decoded.
    """
    position, head, batch = where
    config = spec.config
    kv_head = head if config.fuse_gqa else head // config.group
    sequence = sequence or decode_sequence(spec, args, batch)
    before = spec.positions_before(sequence.seqlen_q)
    position = position if is_zero(before) else position - before
    key_tiles = visited_tiles(spec, sequence, position, spec.config.PairBM_eff())
    count = num_visited(spec, sequence, position, key_tiles)
    work = WorkTile(position, head, kv_head, batch, sequence, key_tiles, count)
    if not spec.variant.splits_keys:
        return with_hidden(spec, work)
    # As even as possible; splits after the last tile are empty.
    num_splits = num_splits_of(spec, args)
    each, rest = count // num_splits, count % num_splits
    first = split * each + DEVICE.minimum(split, rest)
    count = each + DEVICE.select(split < rest, 1, 0)
    work = replace(work, num_key_tiles=count, first_tile=first, split=split)
    return with_hidden(spec, work)


def with_hidden(spec: AttentionSpec, work: WorkTile) -> WorkTile:
    """Return ``work`` with whether its last key tile is hidden from the first Q tile.

    A lone one is taken, so that both chains have an output or none. Of several hidden ones all but
    the last are taken: the tensor cores are busy with those of the other chain anyway.
    """
    if not spec.first_ends_early:
        return work
    own = visited_tiles(spec, work.sequence, work.position, spec.tile_positions)
    last = work.num_key_tiles - 1
    reached = DEVICE.select(work.key_tile(last) < own.end, 1, 0)
    work = replace(work, num_hidden=DEVICE.select(last > 0, 1 - reached, 0))
    return with_lead(spec, work) if spec.second_starts_late else work


def with_lead(spec: AttentionSpec, work: WorkTile) -> WorkTile:
    """Return ``work`` with whether its first key tile is hidden from the second Q tile.

    It is left out only where the last one is hidden from the first: then both chains take as many.
    """
    position = work.position + spec.tile_positions
    own = visited_tiles(spec, work.sequence, position, spec.tile_positions)
    lead = DEVICE.select(work.key_tile(Int32(0)) < own.start, work.num_hidden, 0)
    count, hidden = work.num_key_tiles - lead, work.num_hidden - lead
    return replace(work, num_key_tiles=count, num_hidden=hidden, lead=lead)


def visited_tiles(
    spec: AttentionSpec, sequence: Sequence, position: Int32, positions: int
) -> KeyTileMap:
    """Return the key tiles that some of ``positions`` queries from ``position`` on see."""
    first = position + sequence.offset
    last = position + (positions - 1) + sequence.offset
    rows = Rows(first, last, sequence.seqlen_k, sequence.lengths)
    return KeyTileMap.of(spec.variant.terms, rows, spec.config.BN, DEVICE)


def num_visited(
    spec: AttentionSpec, sequence: Sequence, position: Int32, key_tiles: KeyTileMap
) -> Int32:
    """Return the number of visited key tiles: none when the query tile lies past its sequence."""
    count = key_tiles.count
    if spec.variant.ragged_q:
        count = DEVICE.select(position < sequence.seqlen_q, count, 0)
    return count
