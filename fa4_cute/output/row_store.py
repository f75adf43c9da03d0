"""Rows of the result written straight to global memory, one thread a row, or four on Hopper.

Serves what a tensor map cannot: the last tile of a packed sequence, whose box would reach into the
next sequence, and the float32 partial results of a split.
"""

from typing import Protocol

import cutlass
from cutlass import Float32, Int32, Int64

from ..device.memory import gmem
from ..plan.facts.dtypes import DType
from ..plan.masks.masks import is_zero
from ..work.context import AttentionContext
from ..work.row import ThreadRow
from ..work.stream_k import first_part_of_line, stretch_number, tile_in_line
from ..work.tile import scheduled_heads


class Place(Protocol):
    """Where a row is: its sequence position and its query head."""

    @property
    def position(self) -> Int32:
        """Sequence position."""

    @property
    def head(self) -> Int32:
        """Query head."""


def query_row(ctx: AttentionContext, row: Place) -> Int64:
    """Return the index of a row among all (query, head) rows of the call."""
    work, args = ctx.work, ctx.args
    if ctx.spec.variant.ragged_q:
        query = Int64(work.sequence.first_query + row.position)
    else:
        query = Int64(work.batch) * args.seqlen_q + row.position
    return query * args.num_q_heads + row.head


def is_query(ctx: AttentionContext, row: ThreadRow) -> Int32:
    """Return 1 when the thread's row belongs to the sequence, else 0."""
    inside = row.position < ctx.work.sequence.seqlen_q
    return Int32(cutlass.select_(inside, Int32(1), Int32(0)))


def partial_log_sum_exp_address(ctx: AttentionContext, row: ThreadRow) -> Int64:
    """Return where the log-sum-exp of the thread's row goes in the CTA's partial results."""
    return ctx.args.extras.partial_lse + partial_row(ctx, row) * DType.FP32.size


def log_sum_exp_address(ctx: AttentionContext, row: Place) -> Int64:
    """Return where the log-sum-exp of a row goes."""
    work, args = ctx.work, ctx.args
    if ctx.spec.variant.ragged_q:
        first = Int64(row.head) * args.extras.total_q + work.sequence.first_query
    else:
        first = (Int64(work.batch) * args.num_q_heads + row.head) * args.seqlen_q
    return args.lse + (first + row.position) * DType.FP32.size


def store_columns(ctx: AttentionContext, row: ThreadRow, column: int, words: list[Int32]) -> None:
    """Store packed ``words`` of the thread's row of O from ``column`` on; padding is left out."""
    size, depth = ctx.spec.output_dtype.size, ctx.spec.output_depth
    real = max(0, (depth - column) * size // gmem.WORD_BYTES)
    if real:
        start = ctx.args.extras.o + query_row(ctx, row) * (depth * size)
        gmem.store_words(start + column * size, words[:real], is_query(ctx, row))


def store_units(ctx: AttentionContext, row: ThreadRow, column: Int32, words: list[Int32]) -> None:
    """Store packed ``words`` of the thread's row of O from ``column`` on, a column of O.

    The columns of O are whole units of 16 bytes, and so are the words, which are all of O.
    """
    size, depth = ctx.spec.output_dtype.size, ctx.spec.output_depth
    start = ctx.args.extras.o + query_row(ctx, row) * (depth * size)
    gmem.store_words(start + Int64(column) * size, words, is_query(ctx, row))


def store_word(ctx: AttentionContext, row: ThreadRow, column: Int32, word: Int32) -> None:
    """Store two packed columns of the thread's row of O, from ``column`` on, a column of O."""
    size, depth = ctx.spec.output_dtype.size, ctx.spec.output_depth
    start = ctx.args.extras.o + query_row(ctx, row) * (depth * size)
    gmem.store_word(start + Int64(column) * size, word, is_query(ctx, row))


def store_words_pair(
    ctx: AttentionContext, row: ThreadRow, column: Int32, words: list[Int32]
) -> None:
    """Store two words of the thread's row of O, four packed columns from ``column`` on."""
    size, depth = ctx.spec.output_dtype.size, ctx.spec.output_depth
    start = ctx.args.extras.o + query_row(ctx, row) * (depth * size)
    gmem.store_pair(start + Int64(column) * size, words, is_query(ctx, row))


def store_partial_pair(
    ctx: AttentionContext, row: ThreadRow, column: Int32, pair: list[Float32]
) -> None:
    """Store a ``pair`` of columns of the thread's row of the CTA's partial O from ``column`` on."""
    gmem.store_pair(partial_address(ctx, row, column), pair, is_query(ctx, row))


def store_partial(
    ctx: AttentionContext, row: ThreadRow, column: int, values: list[Float32]
) -> None:
    """Store float32 ``values`` of the thread's row of the CTA's partial O from ``column`` on."""
    real = max(0, ctx.spec.output_depth - column)
    if real:
        start = partial_address(ctx, row, column)
        gmem.store_words(start, values[:real], is_query(ctx, row))


def store_partial_unit(
    ctx: AttentionContext, row: ThreadRow, column: Int32, values: list[Float32]
) -> None:
    """Store float32 ``values`` of the thread's row of the CTA's partial O from ``column`` on.

    All of them are columns of O.
    """
    gmem.store_words(partial_address(ctx, row, column), values, is_query(ctx, row))


def partial_address(ctx: AttentionContext, row: ThreadRow, column: Int32 | int) -> Int64:
    """Return where ``column`` of the thread's row lies in the CTA's partial O."""
    first = partial_row(ctx, row) * (ctx.spec.output_depth * gmem.WORD_BYTES)
    offset = column if isinstance(column, int) else Int64(column)
    return ctx.args.extras.partial_o + first + offset * gmem.WORD_BYTES


def partial_row(ctx: AttentionContext, row: ThreadRow) -> Int64:
    """Return the index of the thread's row in the partial results: splits are outermost.

    With stream-K they are those of a part, and its rows follow.
    """
    if ctx.spec.variant.streams_keys:
        return first_row_of_part(ctx, ctx.work.split) + row_of_part(ctx, row.index)
    return ctx.work.split * ctx.args.extras.partial_rows + query_row(ctx, row)


def query_tile_number(ctx: AttentionContext) -> Int32:
    """Return the number of the query tile where each head of a sequence has one."""
    heads = scheduled_heads(ctx.spec, ctx.args.num_q_heads)
    return ctx.work.batch * heads + ctx.work.head


def first_row_of_part(ctx: AttentionContext, split: Int32 | int) -> Int64:
    """Return the index of the first row of part ``split`` of the query tile in partial results.

    Parts are numbered by stretch and query tile together, line after line
    (``plan.launch.stream_k``).
    """
    first = first_part_of_line(ctx.spec, ctx.args) + stretch_number(ctx.spec) - ctx.work.split
    number = first + tile_in_line(ctx.spec, ctx.args, ctx.work) + split
    return Int64(number) * rows_of_part(ctx)


def row_of_part(ctx: AttentionContext, index: Int32) -> Int32:
    """Return the number in a part of the CTA's row ``index``: a pair's have those of both CTAs."""
    before = ctx.slice_start(ctx.spec.tile_positions * ctx.spec.rows_per_position)
    return index if is_zero(before) else before + index


def rows_of_part(ctx: AttentionContext) -> Int64:
    """Return the rows of a part in the partial results: those of the longest sequence's queries."""
    return Int64(ctx.args.seqlen_q) * ctx.spec.rows_per_position
