"""Where the keys of a tile lie in the maps of K and V: one box, or one per page.

Pages of a cache are the batch entries of its maps. A page past the sequence's last key is asked for
at a coordinate outside the map: TMA fills its rows with zeros and counts its bytes, so the number
of bytes of a tile is always the same.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import cutlass
from cutlass import Boolean, Int32, Int64, cute

from ..device.ids import lane_index
from ..device.memory import gmem
from ..device.registers import DEVICE
from ..plan.masks.masks import terms
from ..plan.memory.chunks import ColumnChunks, copies_in_a_row
from ..plan.spec.tensor_maps import key_box
from ..work.context import AttentionContext

OUTSIDE_PAGE = 2**31 - 1
"""A page index that no cache has."""
Context = TypeVar("Context", bound=AttentionContext)
LoadBox = Callable[[Int32 | int, tuple[Int32, Int32, Int32]], None]
"""Called with the row of a box in its tile, and (row, head, batch) in the map."""


def load_boxes(
    ctx: AttentionContext, first: Int32, num_rows: int, chunks: ColumnChunks, load: LoadBox
) -> None:
    """Call ``load(row in the tile, (row, head, batch) in the map)`` for each box of a tile.

    Args:
        ctx: the CTA.
        first: first key of the tile in its sequence.
        num_rows: keys of the tile.
        chunks: its columns.
        load: issues the copies of one box, one for each chunk.
    """
    box_rows = key_box(ctx.spec, num_rows)[1]
    boxes, variant = num_rows // box_rows, ctx.spec.variant
    is_laden = variant.token_scales or len(terms(variant.mask)) > 1
    copies = copies_in_a_row(ctx.spec.config, is_laden=is_laden)
    in_a_row = chunks.boxes_in_a_row(boxes, copies)
    if ctx.spec.reads_pages_ahead and boxes > 1:
        load_pages(ctx, first, num_rows, load, in_a_row)
        return

    def visit(row: Int32 | int, key: Int32) -> None:
        load(row, place_in_map(ctx, key))

    for_each_box(ctx, first, num_rows, visit, in_a_row)


@cute.jit
def load_pages(
    ctx: AttentionContext,
    first: Int32,
    num_rows: cutlass.Constexpr[int],
    load: cutlass.Constexpr,
    in_a_row: cutlass.Constexpr[int],
) -> None:
    """Call ``load`` for each box of a tile; the table is read two boxes ahead of the copies.

    ``in_a_row`` boxes follow one another in each turn of a loop.
    """
    size = key_box(ctx.spec, num_rows)[1]
    page, after = page_of_key(ctx, first), page_of_key(ctx, first + size)
    for turn in cutlass.range(0, num_rows, in_a_row * size, unroll=1):
        for more in cutlass.range_constexpr(0, in_a_row * size, size):
            row = turn + more
            # After the last boxes of a tile the answers are not used.
            ahead = page_of_key(ctx, first + row + 2 * size)
            key = first + row
            load(row, (key % ctx.spec.variant.page_size, ctx.work.kv_head, page))
            page, after = after, ahead


@cute.jit
def for_each_box(
    ctx: AttentionContext,
    first: Int32,
    num_rows: cutlass.Constexpr[int],
    visit: cutlass.Constexpr,
    in_a_row: cutlass.Constexpr[int] = 1,
) -> None:
    """Call ``visit(row in the tile, key in the sequence)`` for the first row of each box.

    ``in_a_row`` of them follow one another in each turn of a loop.
    """
    box_rows = key_box(ctx.spec, num_rows)[1]
    if cutlass.const_expr(box_rows == num_rows):
        visit(0, first)
    else:
        for turn in cutlass.range(0, num_rows, in_a_row * box_rows, unroll=1):
            for more in cutlass.range_constexpr(0, in_a_row * box_rows, box_rows):
                visit(turn + more, first + turn + more)


def place_in_map(ctx: AttentionContext, key: Int32) -> tuple[Int32, Int32, Int32]:
    """Return where ``key`` lies in the maps of K and V: row, head, batch entry or page."""
    if ctx.spec.variant.page_size:
        return place_in_cache(ctx, key)
    sequence = ctx.work.sequence
    return key + sequence.first_key, ctx.work.kv_head, sequence.key_batch


def place_in_cache(ctx: AttentionContext, key: Int32) -> tuple[Int32, Int32, Int32]:
    """Return where ``key`` lies in the maps of K and V: row of the page, head, page."""
    page = page_of_key(ctx, key) if ctx.pages is None else held_page(ctx, key)
    return key % ctx.spec.variant.page_size, ctx.work.kv_head, page


def held_page(ctx: AttentionContext, key: Int32) -> Int32:
    """Return the page of ``key``, which a lane of the warp holds."""
    keys, each = ctx.spec.config.BN, keys_of_lane(ctx)
    if ctx.first_lane is not None:
        entry = cute.arch.shuffle_sync(ctx.pages, ctx.first_lane + key % keys // each)
        return page_if_used(ctx, key, entry)
    if each == keys:
        return ctx.pages
    return cute.arch.shuffle_sync(ctx.pages, key % keys // each)


def page_of_lane(ctx: AttentionContext, key: Int32) -> tuple[Int32, Boolean]:
    """Return the page of ``key``, each lane of its own, and whether it is used.

    Of a page that is not the sequence's last is returned.
    """
    entry = cute.arch.shuffle_sync(
        ctx.pages, ctx.first_lane + key % ctx.spec.config.BN // keys_of_lane(ctx)
    )
    return entry, key < ctx.work.sequence.seqlen_k


def keys_of_lane(ctx: AttentionContext) -> int:
    """Return how many keys of a tile lie in the page that a lane holds."""
    return key_box(ctx.spec, ctx.spec.config.BN)[1]


def page_of_key(ctx: AttentionContext, key: Int32) -> Int32:
    """Return the page that holds ``key``, or one outside the cache when it does not count."""
    return page_if_used(ctx, key, entry_of_key(ctx, key))


def entry_of_key(ctx: AttentionContext, key: Int32) -> Int32:
    """Return the page that holds ``key``, or the sequence's last when it does not count."""
    seqlen_k, extras = ctx.work.sequence.seqlen_k, ctx.args.extras
    # Entries of the table past the last key need not exist.
    known = DEVICE.minimum(key, seqlen_k - 1) // ctx.spec.variant.page_size
    # Tables may hold more than 2**31 pages, of which all but a few are never used.
    first = Int64(ctx.work.batch) * extras.pages_per_row
    row = gmem.word_address(extras.page_table, first)
    return gmem.load_i32(gmem.word_address(row, known))


def page_if_used(ctx: AttentionContext, key: Int32, page: Int32) -> Int32:
    """Return ``page``, or one outside the cache when its ``key`` does not count."""
    return DEVICE.select(key < ctx.work.sequence.seqlen_k, page, OUTSIDE_PAGE)


class TilePages:
    """The pages of a key tile in registers of each lane, or nothing without pages.

    They are looked up a tile ahead, so that copies do not wait for the table. A warp waits where it
    first does something with what it loads. So where pages are small, and its copies many, it asks
    whether a page is used when it uses it.
    """

    def __init__(self, held: tuple[Int32, ...]) -> None:
        """Take the registers: the page, or a key and the table's entry for it."""
        self.held = held

    @classmethod
    def of(cls, ctx: AttentionContext, tile: Int32) -> "TilePages":
        """Look up the pages of the ``tile``-th visited key tile, or of one after the last.

        A lane has the page of its share of the tile's keys, and those after them that of a later
        tile's.
        """
        if not ctx.spec.variant.page_size:
            return cls(())
        config, each = ctx.spec.config, keys_of_lane(ctx)
        key = ctx.work.key_tile(tile) * config.BN
        if each < config.BN:
            key = key + lane_index() * each
        if ctx.spec.loads_values_apart:
            return cls((key, entry_of_key(ctx, key)))
        return cls((page_of_key(ctx, key),))

    def after(self, ctx: AttentionContext, tile: Int32) -> "TilePages":
        """Return those of the key tile after these, which are the ``tile``-th one's."""
        return TilePages.of(ctx, tile + 1)

    def known_to(self, ctx: Context, _tile: Int32) -> Context:
        """Return the context in which keys of the tile are loaded."""
        if not self.held:
            return ctx
        if ctx.spec.loads_values_apart:
            key, entry = self.held
            return replace(ctx, pages=page_if_used(ctx, key, entry))
        return replace(ctx, pages=self.held[0])

    def __extract_mlir_values__(self) -> list[Any]:
        """Return the registers, for loops that carry them."""
        return [page.ir_value() for page in self.held]

    def __new_from_mlir_values__(self, values: list[Any]) -> "TilePages":
        """Return the same with other registers."""
        return type(self)(tuple(map(Int32, values)))


class GroupPages(TilePages):
    """The pages of as many key tiles as the lanes of a warp hold, and of as many behind them.

    A register that a load has yet to fill cannot be moved without a wait. So what moves from tile
    to tile is waited for a tile after it was asked for, which is long enough where a tile takes
    longer than an answer of memory. Steps of few rows take less: there pages move once for a group
    of tiles (``CommonSpec.tiles_of_pages``). Whether one is used is asked when it is.
    """

    @classmethod
    def of(cls, ctx: AttentionContext, tile: Int32) -> "GroupPages":
        """Look up the pages of the group that the ``tile``-th key tile begins, and of the next."""
        return cls((entry_of_lane(ctx, tile), entry_of_lane(ctx, tile + ctx.spec.tiles_of_pages)))

    def after(self, ctx: AttentionContext, tile: Int32) -> "GroupPages":
        """Return those of the key tile after these, which are the ``tile``-th one's."""
        return at_tile(ctx, self, tile + 1)

    def known_to(self, ctx: Context, tile: Int32) -> Context:
        """Return the context in which keys of the ``tile``-th key tile are loaded."""
        lanes = ctx.spec.config.BN // keys_of_lane(ctx)
        return replace(ctx, pages=self.held[0], first_lane=tile % ctx.spec.tiles_of_pages * lanes)


@cute.jit
def at_tile(ctx: AttentionContext, pages: GroupPages, tile: Int32) -> GroupPages:
    """Return the pages of the group that has the ``tile``-th key tile, one after those given."""
    count = ctx.spec.tiles_of_pages
    if tile % count == 0:
        pages = GroupPages((pages.held[1], entry_of_lane(ctx, tile + count)))
    return pages


def entry_of_lane(ctx: AttentionContext, tile: Int32) -> Int32:
    """Return the page table's entry of the lane: the first ones have those of the ``tile``-th key
    tile, the next ones those of the tile after it."""
    keys, each = ctx.spec.config.BN, keys_of_lane(ctx)
    lanes = keys // each
    own = ctx.work.key_tile(tile + lane_index() // lanes)
    return entry_of_key(ctx, own * keys + lane_index() % lanes * each)


def first_pages(ctx: AttentionContext) -> TilePages:
    """Look up the pages of the first key tile."""
    kind = GroupPages if ctx.spec.tiles_of_pages > 1 else TilePages
    return kind.of(ctx, Int32(0))
