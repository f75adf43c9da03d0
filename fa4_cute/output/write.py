"""O divided by the row sum and written: staged and stored with TMA, row by row, or as partial O.

O is staged in shared memory over the Q tile of its rows, and with fp8 operands over P or part of
the K/V ring as well. They are free: "P V done" follows, on the one issuing thread, every MMA that
reads them (``o_chunk_smem`` of both layouts). Where O has two blocks, the first is stored while the
MMAs of the second still run.

A plain persistent CTA, or pair of wide heads, writes row by row instead: the next Q is loaded once
the last scores have read this one, rather than once O has been stored.
"""

from collections.abc import Callable

import cutlass
from cutlass import Boolean, Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import epilogue
from ..device.math.arith import reciprocal
from ..device.memory import tmem
from ..device.memory.tma import finish_sources
from ..device.sync import barriers
from ..pipelines import RolePipeline
from ..plan.config.reduce_scatter import PIECE_COLUMNS
from ..plan.facts.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from ..tma import store_query_chunk
from ..work.context import AttentionContext, TmemContext
from ..work.row import LaneRow
from . import row_store
from .columns import OutputColumns
from .row_result import RowResult


def output_factor(ctx: AttentionContext, result: RowResult) -> Float32:
    """Return what O is multiplied by; a row without a visible key has sum 0 and gives 0."""
    no_key = result.total == Float32(0.0)
    factor = reciprocal(result.total)
    if ctx.spec.scales_values:
        factor = factor * ctx.args.extras.value_scale
    factor = Float32(cutlass.select_(no_key, Float32(0.0), factor))
    return factor * result.keep if ctx.spec.variant.sink else factor


def wait_for_output(ctx: TmemContext, columns: OutputColumns) -> None:
    """Wait for the last P V of the accumulators that are pending."""
    for accumulator in columns.pending:
        done = RolePipeline(ctx.barriers, accumulator.done)
        done.wait(ctx.step(accumulator.chain, ctx.num_tiles(accumulator.chain) - 1))
        tmem.fence_after_thread_sync()


def accumulated_words(
    ctx: TmemContext, columns: OutputColumns, result: RowResult
) -> Callable[[int], list[Int32]]:
    """Return the function that gives the packed words of a piece."""
    return scaled_words(ctx, columns, output_factor(ctx, result))


def scaled_words(
    ctx: TmemContext, columns: OutputColumns, factor: Float32
) -> Callable[[Int32 | int], list[Int32]]:
    """Return the function that gives the packed words of a piece of O times ``factor``."""
    factors = columns.factors(factor)

    def words_of(piece: Int32 | int) -> list[Int32]:
        parts = columns.load_parts(ctx, factors, piece)
        return epilogue.normalise_sum(parts, ctx.spec.output_dtype.ptx_name)

    return words_of


def zero_words(_piece: int) -> list[Int32]:
    """Return packed zeros: no key is visible, and the accumulators were never written."""
    return [Int32(0)] * (PIECE_COLUMNS // 2)


# Through shared memory --------------------------------------------------------------------------


def stage(
    ctx: TmemContext,
    row: LaneRow,
    columns: OutputColumns,
    words_of: Callable[[int], list[Int32]],
) -> None:
    """Stage all pieces of the calling row."""
    for piece in columns.pieces:
        words = words_of(piece)
        chunk, unit = columns.staged_at(ctx, row, piece)
        epilogue.store_row_units(chunk, row.index, unit, words)


def store_chunks(ctx: TmemContext, columns: OutputColumns) -> None:
    """Store the staged chunks with TMA; it drops rows past the sequence and padding columns."""
    sequence = ctx.work.sequence
    first = sequence.first_query + first_position(ctx, columns.tile)
    where = (first, ctx.work.head, sequence.query_batch)
    for column in columns.chunks:
        smem = ctx.output_chunk(columns.tile, column // ctx.spec.output_elems)
        store_query_chunk(ctx.maps.o, where, column, smem)


@cute.jit
def write_through_memory(
    ctx: TmemContext, row: LaneRow, blocks: cutlass.Constexpr, result: RowResult
) -> None:
    """Stage O and store it with TMA, block by block; a row without keys is zeros."""
    for i in cutlass.range_constexpr(len(blocks)):
        if ctx.work.num_key_tiles > 0:
            wait_for_output(ctx, blocks[i])
            stage(ctx, row, blocks[i], accumulated_words(ctx, blocks[i], result))
        else:
            stage(ctx, row, blocks[i], zero_words)
        barriers.fence_proxy_async_shared()
        barriers.named_barrier(blocks[i].barrier, WARP_GROUP_THREADS)
        if warp_index() % WARPS_PER_GROUP == 0:
            store_chunks(ctx, blocks[i])
            if cutlass.const_expr(i == len(blocks) - 1):
                # The next Q, or the end of the CTA, needs the staging; nothing here reads O again.
                finish_sources()


# Straight to global memory -----------------------------------------------------------------------


@cute.jit
def for_each_piece(
    row: LaneRow, columns: cutlass.Constexpr[OutputColumns], put: cutlass.Constexpr
) -> None:
    """Call ``put(column of O, piece)`` for the pieces that the thread holds.

    Columns are static in the code that writes them, so the halves of the lanes take two ways where
    they hold different columns; a warp lies in one of them.
    """
    if cutlass.const_expr(len(columns.starts) == 1):
        put_pieces(columns, columns.starts[0], put)
    else:
        for half in cutlass.range_constexpr(len(columns.starts)):
            if row.lane_half == half:
                put_pieces(columns, columns.starts[half], put)


def put_pieces(columns: OutputColumns, start: int, put: Callable[[int, int], None]) -> None:
    """Call ``put(column of O, piece)`` for all pieces; piece 0 is column ``start``."""
    for piece in columns.pieces:
        put(start + piece, piece)


def put_rows(
    ctx: TmemContext,
    row: LaneRow,
    columns: OutputColumns,
    words_of: Callable[[int], list[Int32]],
) -> None:
    """Write the calling row's columns to O."""

    def put(column: int, piece: int) -> None:
        row_store.store_columns(ctx, row, column, words_of(piece))

    for_each_piece(row, columns, put)


def put_partial(
    ctx: TmemContext, row: LaneRow, columns: OutputColumns, result: RowResult
) -> None:
    """Write the calling row's columns, float32, to the CTA's partial O."""
    factors = columns.factors(output_factor(ctx, result))

    def put(column: int, piece: int) -> None:
        parts = columns.load_parts(ctx, factors, piece)
        row_store.store_partial(ctx, row, column, epilogue.weighted_sum(parts))

    for_each_piece(row, columns, put)


def put_partial_zeros(ctx: TmemContext, row: LaneRow, columns: OutputColumns) -> None:
    """Write zeros to the calling row's columns of the CTA's partial O."""
    zeros = [Float32(0.0)] * PIECE_COLUMNS

    def put(column: int, piece: int) -> None:
        row_store.store_partial(ctx, row, column, zeros)

    for_each_piece(row, columns, put)


@cute.jit
def write_rows(
    ctx: TmemContext, row: LaneRow, blocks: cutlass.Constexpr, result: RowResult
) -> None:
    """Write O row by row, only the rows of the sequence."""
    if ctx.work.num_key_tiles > 0:
        for i in cutlass.range_constexpr(len(blocks)):
            wait_for_output(ctx, blocks[i])
            put_rows(ctx, row, blocks[i], accumulated_words(ctx, blocks[i], result))
    else:
        for i in cutlass.range_constexpr(len(blocks)):
            put_rows(ctx, row, blocks[i], zero_words)


@cute.jit
def write_partial(
    ctx: TmemContext, row: LaneRow, blocks: cutlass.Constexpr, result: RowResult
) -> None:
    """Write the split's partial O; without key tiles a log-sum-exp of -inf marks it as empty.

    With a sink it need not be empty then: the split that carries the sink counts, with an O of 0.
    """
    if ctx.work.num_key_tiles > 0:
        for i in cutlass.range_constexpr(len(blocks)):
            wait_for_output(ctx, blocks[i])
            put_partial(ctx, row, blocks[i], result)
    elif cutlass.const_expr(ctx.spec.variant.sink):
        for i in cutlass.range_constexpr(len(blocks)):
            put_partial_zeros(ctx, row, blocks[i])


# Which way ---------------------------------------------------------------------------------------


def first_position(ctx: AttentionContext, tile: Int32 | int) -> Int32:
    """Return the sequence position of the first row of Q tile ``tile``."""
    return ctx.work.position + tile * ctx.spec.tile_positions


def may_store_boxes(ctx: AttentionContext, tile: Int32 | int) -> Boolean:
    """Return whether the rows of Q tile ``tile`` may leave through shared memory.

    A box that ends past a packed sequence would overwrite the next one. A persistent CTA stages no
    zeros: Q of the next query tile may be loaded at any time.
    """
    if not ctx.spec.variant.ragged_q:
        return ctx.work.num_key_tiles > 0
    last = first_position(ctx, tile) + ctx.spec.tile_positions
    whole = last <= ctx.work.sequence.seqlen_q
    if not ctx.spec.variant.is_persistent:
        return whole
    return cutlass.select_(ctx.work.num_key_tiles > 0, whole, Boolean(False))


@cute.jit
def write_columns(
    ctx: TmemContext, row: LaneRow, blocks: cutlass.Constexpr, result: RowResult
) -> None:
    """Write the columns of ``blocks``, which are of one Q tile, where the kernel wants them."""
    variant = ctx.spec.variant
    if cutlass.const_expr(variant.streams_keys):
        # A query tile that one CTA has for itself needs no other.
        if ctx.work.num_parts > 1:
            write_partial(ctx, row, blocks, result)
        else:
            write_rows(ctx, row, blocks, result)
    elif cutlass.const_expr(variant.is_split):
        write_partial(ctx, row, blocks, result)
    elif cutlass.const_expr(ctx.spec.writes_rows):
        write_rows(ctx, row, blocks, result)
    elif cutlass.const_expr(variant.ragged_q or variant.is_persistent):
        if may_store_boxes(ctx, blocks[0].tile):
            write_through_memory(ctx, row, blocks, result)
        else:
            write_rows(ctx, row, blocks, result)
    else:
        write_through_memory(ctx, row, blocks, result)
