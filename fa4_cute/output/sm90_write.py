"""Output of the Hopper kernel: O from a consumer's registers, by TMA over its Q, or row by row."""

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import epilogue, fragment
from ..device.memory.tma import close_stores, finish_sources, wait_for_sources
from ..device.sync import barriers
from ..plan.barriers.named import CONSUMER
from ..plan.facts.hardware import OUTPUT_SWIZZLE, UNIT_BYTES, WARP_GROUP_THREADS, WARPS_PER_GROUP
from ..plan.facts.wgmma import BLOCK_COLUMNS, NUM_ROWS, PAIR
from ..tma import store_query_chunk
from ..work.sm90 import RunningRows, SM90Context, SM90Row, place_of_rows
from . import row_store
from .last import join_if_last
from .row_result import RowResult, write_log_sum_exp
from .write import may_store_boxes, output_factor

_UNITS = OUTPUT_SWIZZLE.bytes // UNIT_BYTES
"""Units of a row of a chunk: each is one block of columns of the accumulator."""


def stage(ctx: SM90Context, rows: list[SM90Row], words: list[Int32]) -> None:
    """Stage O, ``words`` of two columns each in the accumulator's order.

    Padding columns of the last chunk are zeros: TMA reads them all the same, and where no key is
    seen they are not those of Q either.
    """
    lane = fragment.first_column() // 2
    padding = ctx.spec.config.o_columns - ctx.spec.output_depth
    words = [*words, *[Int32(0)] * (padding // BLOCK_COLUMNS * NUM_ROWS)]
    for block in range(len(words) // NUM_ROWS):
        chunk = ctx.output_chunk(rows[0].consumer, block // _UNITS)
        for half, row in enumerate(rows):
            word = words[block * NUM_ROWS + half]
            epilogue.store_row_word(chunk, row.index, (block % _UNITS, lane), word)


def store_chunks(ctx: SM90Context, consumer: Int32) -> None:
    """Store the staged chunks with TMA; it drops rows past the sequence and padding columns."""
    where = place_of_rows(ctx, consumer)
    for column in range(0, ctx.spec.output_depth, ctx.spec.output_elems):
        smem = ctx.output_chunk(consumer, column // ctx.spec.output_elems)
        store_query_chunk(ctx.maps.o, where, column, smem)


@cute.jit
def wait_for_stores(ctx: SM90Context) -> None:
    """Wait until the O staged last has been read, where that was put off until now."""
    if cutlass.const_expr(ctx.spec.config.o_apart):
        if warp_index() % WARPS_PER_GROUP == 0:
            wait_for_sources()


@cute.jit
def write_through_memory(
    ctx: SM90Context, rows: cutlass.Constexpr, words: cutlass.Constexpr
) -> None:
    """Stage O and store it with TMA."""
    barrier = CONSUMER.number + rows[0].consumer
    wait_for_stores(ctx)
    # Every warp's last product with Q is over, or what was staged last has been read.
    barriers.named_barrier(barrier, WARP_GROUP_THREADS)
    stage(ctx, rows, words)
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(barrier, WARP_GROUP_THREADS)
    if warp_index() % WARPS_PER_GROUP == 0:
        store_chunks(ctx, rows[0].consumer)
        if cutlass.const_expr(ctx.spec.config.o_apart):
            close_stores()
        else:
            finish_sources()


def write_rows(ctx: SM90Context, rows: list[SM90Row], words: list[Int32]) -> None:
    """Write O row by row, only the rows of the sequence. Whole warps.

    Two neighbouring lanes change a word of two blocks, so that the four of a row write 32 bytes
    together: memory is read and written by as many (CUDA programming guide, "Device Memory
    Accesses"). The last of an odd number of blocks is left as it is.
    """
    num_blocks = len(words) // NUM_ROWS
    for block in range(0, num_blocks - 1, 2):
        for half, row in enumerate(rows):
            pair = [words[(block + i) * NUM_ROWS + half] for i in range(2)]
            column, both = fragment.joined_with_neighbour(pair)
            row_store.store_words_pair(ctx, row, column + block * BLOCK_COLUMNS, both)
    if num_blocks % 2:
        column = fragment.first_column() + (num_blocks - 1) * BLOCK_COLUMNS
        for half, row in enumerate(rows):
            row_store.store_word(ctx, row, column, words[half - NUM_ROWS])


def put_partial(ctx: SM90Context, rows: list[SM90Row], o: list[Float32]) -> None:
    """Write the rows' columns, float32, to the CTA's partial O."""
    for i in range(0, len(o), PAIR):
        block, half = divmod(i // PAIR, NUM_ROWS)
        column = fragment.first_column() + block * BLOCK_COLUMNS
        row_store.store_partial_pair(ctx, rows[half], column, o[i : i + PAIR])


@cute.jit
def write_partial(ctx: SM90Context, rows: cutlass.Constexpr, o: cutlass.Constexpr) -> None:
    """Write the split's partial O; without key tiles a log-sum-exp of -inf marks it as empty.

    With a sink it need not be empty then: the split that carries the sink counts, with an O of 0.
    """
    if cutlass.const_expr(ctx.spec.variant.sink):
        put_partial(ctx, rows, o)
    else:
        if ctx.work.num_key_tiles > 0:
            put_partial(ctx, rows, o)


@cute.jit
def write_columns(ctx: SM90Context, rows: cutlass.Constexpr, o: cutlass.Constexpr) -> None:
    """Write O, the accumulator divided by the sums, where the kernel wants it."""
    variant = ctx.spec.variant
    if cutlass.const_expr(variant.streams_keys):
        # A query tile that one CTA has for itself needs no other.
        if ctx.work.num_parts > 1:
            write_partial(ctx, rows, o)
            join_if_last(ctx, CONSUMER)
        else:
            write_rows(ctx, rows, fragment.packed(o, ctx.spec.output_dtype))
    elif cutlass.const_expr(variant.is_split):
        write_partial(ctx, rows, o)
    else:
        words = fragment.packed(o, ctx.spec.output_dtype)
        if cutlass.const_expr(ctx.spec.config.o_by_rows):
            write_rows(ctx, rows, words)
        elif cutlass.const_expr(variant.ragged_q or variant.is_persistent):
            if may_store_boxes(ctx, rows[0].consumer):
                write_through_memory(ctx, rows, words)
            else:
                write_rows(ctx, rows, words)
        else:
            write_through_memory(ctx, rows, words)


@cute.jit
def write_output(ctx: SM90Context, rows: cutlass.Constexpr, running: RunningRows) -> None:
    """Write the log-sum-exp and O of the calling warp group's rows."""
    results = [
        RowResult.of(ctx, row, top, fragment.row_sum(part))
        for row, top, part in zip(rows, running.row_max, running.row_sum, strict=True)
    ]
    if fragment.is_first_of_row() == 0:
        for half in cutlass.range_constexpr(NUM_ROWS):
            write_log_sum_exp(ctx, rows[half], results[half])
    factors = [output_factor(ctx, result) for result in results]
    write_columns(ctx, rows, fragment.scaled_rows(running.o, factors))
