"""Last step of the pair's softmax role: O divided by the row sum, through shared memory and TMA.

O is staged over Q, and with fp8 operands over P and part of the ring too. They are free: the wait
for the last ``O_mma`` follows every MMA of the pair that reads them
(``Depth512AttentionSMem.o_chunk_smem``). The low half of the head dim is stored while the MMAs of
the high half still run.
"""

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.lanes import lane_address
from ..device.math import epilogue
from ..device.memory import tmem
from ..device.memory.tma import finish_stores
from ..device.sync import barriers
from ..plan.barriers.named import OUTPUT
from ..plan.compute.depth512_lanes import first_output
from ..tma import store_query_chunk
from ..work.depth512 import ONLY_CHAIN, Depth512Context, Depth512Row
from . import row_store
from .row_result import RowResult
from .two_q import output_factor

OUTPUT_COLUMNS = 32
"""Columns of O normalised at a time."""


def part_columns(ctx: Depth512Context, part: int) -> range:
    """Return the real columns of output ``part``, in whole chunks."""
    config = ctx.spec.config
    width = config.padded_depth // config.num_o_parts
    return range(part * width, min((part + 1) * width, config.depth), ctx.spec.output_elems)


def stage_part(ctx: Depth512Context, row: Depth512Row, part: int, words_of) -> None:
    """Stage the columns of output ``part`` that the thread holds, padding included.

    ``words_of`` returns the packed words of the ``OUTPUT_COLUMNS`` columns from a TMEM column on.
    """
    config = ctx.spec.config
    width = ctx.spec.output_elems
    first_chunk = first_output(config, part, row.lane_half) // width
    for column in range(0, config.o_columns, OUTPUT_COLUMNS):
        words = words_of(part * config.o_columns + column)
        unit = column % width * ctx.spec.output_dtype.size // epilogue.UNIT_BYTES
        chunk = ctx.smem.o_chunk_smem(first_chunk + column // width)
        epilogue.store_row_units(chunk, row.index, unit, words)


@cute.jit
def store_part(ctx: Depth512Context, part: cutlass.Constexpr[int]):
    """Store a staged part with TMA; rows past the sequence and padding columns are dropped."""
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(OUTPUT.number, OUTPUT.threads)
    if warp_index() == 0:
        sequence = ctx.work.sequence
        first = sequence.first_query + ctx.work.position
        where = (first, ctx.work.head, sequence.query_batch)
        for column in part_columns(ctx, part):
            chunk = column // ctx.spec.output_elems
            smem = ctx.smem.o_chunk_smem(chunk)
            store_query_chunk(ctx.spec, ctx.maps.o, where, column, smem)


def store_accumulators(ctx: Depth512Context, row: Depth512Row, factor: Float32) -> None:
    """Wait for each part of O, normalise and store it."""
    words_of = normalised_words(ctx, factor)
    for part in range(ctx.spec.config.num_o_parts):
        wait_for_part(ctx, part)
        stage_part(ctx, row, part, words_of)
        store_part(ctx, part)


def store_zeros(ctx: Depth512Context, row: Depth512Row) -> None:
    """Store zeros."""
    for part in range(ctx.spec.config.num_o_parts):
        stage_part(ctx, row, part, zero_words)
        store_part(ctx, part)


@cute.jit
def write_through_memory(ctx: Depth512Context, row: Depth512Row, result: RowResult):
    """Stage and store O part by part; the padding's and a blind row's values are zeros."""
    if ctx.work.num_key_tiles > 0:
        store_accumulators(ctx, row, output_factor(ctx, result))
    else:
        store_zeros(ctx, row)
    if warp_index() == 0:
        finish_stores()


def wait_for_part(ctx: Depth512Context, part: int) -> None:
    """Wait for the last P V of output ``part``."""
    ctx.mbars.consumer_o(part).wait(ctx.step(ONLY_CHAIN, ctx.work.num_key_tiles - 1))
    tmem.fence_after_thread_sync()


def load_accumulator(ctx: Depth512Context, column: int) -> list[Float32]:
    """Return ``OUTPUT_COLUMNS`` TMEM columns of the thread's accumulators."""
    start = lane_address(ctx.tmem, ctx.columns.o_lo().start)
    return tmem.wait_loads(tmem.load(start + column, OUTPUT_COLUMNS))


def normalised_words(ctx: Depth512Context, factor: Float32):
    """Return the function that gives packed words of O times ``factor`` from a TMEM column on."""

    def words_of(column: int) -> list:
        ptx_type = ctx.spec.output_dtype.ptx_name
        return epilogue.normalise(load_accumulator(ctx, column), factor, ptx_type)

    return words_of


def zero_words(_column: int) -> list:
    """Return packed zeros: no key is visible, and the accumulators were never written."""
    return [Int32(0)] * (OUTPUT_COLUMNS // 2)


@cute.jit
def for_each_piece(
    ctx: Depth512Context, row: Depth512Row, part: cutlass.Constexpr[int], put: cutlass.Constexpr
):
    """Call ``put(column of O, TMEM column)`` for the pieces of output ``part``.

    Which columns of O a thread holds depends on its half of the lanes, and columns are static in
    the code that writes them, so that the halves part here; a warp lies in one of them.
    """
    config = ctx.spec.config
    for half in cutlass.range_constexpr(2 if config.split_o else 1):
        if row.lane_half == half:
            first = first_output(config, part, half)
            for column in cutlass.range_constexpr(0, config.o_columns, OUTPUT_COLUMNS):
                put(first + column, part * config.o_columns + column)


def for_all_pieces(ctx: Depth512Context, row: Depth512Row, put, *, wait: bool) -> None:
    """Hand the pieces of all parts of O to ``put``, each part after its last P V if ``wait``."""
    for part in range(ctx.spec.config.num_o_parts):
        if wait:
            wait_for_part(ctx, part)
        for_each_piece(ctx, row, part, put)


def row_writer(ctx: Depth512Context, row: Depth512Row, words_of):
    """Return the function that writes one piece of the row as packed words."""
    return lambda column, source: row_store.store_columns(ctx, row, column, words_of(source))


def partial_writer(ctx: Depth512Context, row: Depth512Row, factor: Float32):
    """Return the function that writes one piece of the row in float32."""

    def put(column: int, source: int) -> None:
        values = [value * factor for value in load_accumulator(ctx, source)]
        row_store.store_partial(ctx, row, column, values)

    return put


@cute.jit
def write_rows(ctx: Depth512Context, row: Depth512Row, result: RowResult):
    """Write O row by row, only the rows of the sequence."""
    if ctx.work.num_key_tiles > 0:
        words_of = normalised_words(ctx, output_factor(ctx, result))
        for_all_pieces(ctx, row, row_writer(ctx, row, words_of), wait=True)
    else:
        for_all_pieces(ctx, row, row_writer(ctx, row, zero_words), wait=False)


@cute.jit
def write_partial(ctx: Depth512Context, row: Depth512Row, result: RowResult):
    """Write the CTA's share of O; a share without key tiles is told by its log-sum-exp alone."""
    if ctx.work.num_key_tiles > 0:
        put = partial_writer(ctx, row, output_factor(ctx, result))
        for_all_pieces(ctx, row, put, wait=True)


def may_store_boxes(ctx: Depth512Context):
    """Return whether the CTA's rows may leave through shared memory.

    A box that ends past a packed sequence would overwrite the next one. A persistent CTA stages no
    zeros: Q of the next query tile may be loaded at any time.
    """
    whole = cutlass.Boolean(True)
    if ctx.spec.variant.ragged_q:
        whole = ctx.work.position + ctx.spec.tile_positions <= ctx.work.sequence.seqlen_q
    if not ctx.spec.variant.is_persistent:
        return whole
    return cutlass.select_(ctx.work.num_key_tiles > 0, whole, cutlass.Boolean(False))


@cute.jit
def write_output(ctx: Depth512Context, row: Depth512Row, result: RowResult):
    """Write the CTA's rows of O and wait until they are in global memory."""
    if cutlass.const_expr(ctx.spec.variant.is_split):
        write_partial(ctx, row, result)
    elif cutlass.const_expr(ctx.spec.variant.ragged_q or ctx.spec.variant.is_persistent):
        if may_store_boxes(ctx):
            write_through_memory(ctx, row, result)
        else:
            write_rows(ctx, row, result)
    else:
        write_through_memory(ctx, row, result)
