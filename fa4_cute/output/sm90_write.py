"""Output of the Hopper kernel: O from a consumer's registers, staged over its Q for TMA."""

import cutlass
from cutlass import Int32, cute

from ..device.ids import warp_index
from ..device.math import epilogue, fragment
from ..device.memory.tma import finish_stores
from ..device.sync import barriers
from ..plan.barriers.named import CONSUMER
from ..plan.facts.hardware import OUTPUT_SWIZZLE, UNIT_BYTES, WARP_GROUP_THREADS, WARPS_PER_GROUP
from ..plan.facts.wgmma import NUM_ROWS
from ..tma import store_query_chunk
from ..work.sm90 import RunningRows, SM90Context, SM90Row
from .row_result import RowResult, write_log_sum_exp
from .write import output_factor

_UNITS = OUTPUT_SWIZZLE.bytes // UNIT_BYTES
"""Units of a row of a chunk: each is one block of columns of the accumulator."""


def stage(ctx: SM90Context, rows: list[SM90Row], words: list[Int32]) -> None:
    """Stage O, ``words`` of two columns each in the accumulator's order, over the Q tile."""
    lane = fragment.first_column() // 2
    for block in range(len(words) // NUM_ROWS):
        chunk = ctx.output_chunk(rows[0].consumer, block // _UNITS)
        for half, row in enumerate(rows):
            word = words[block * NUM_ROWS + half]
            epilogue.store_row_word(chunk, row.index, (block % _UNITS, lane), word)


def store_chunks(ctx: SM90Context, consumer: Int32) -> None:
    """Store the staged chunks with TMA; it drops rows past the sequence and padding columns."""
    sequence = ctx.work.sequence
    first = sequence.first_query + ctx.work.position + consumer * ctx.spec.tile_positions
    where = (first, ctx.work.head, sequence.query_batch)
    for column in range(0, ctx.spec.output_depth, ctx.spec.output_elems):
        smem = ctx.output_chunk(consumer, column // ctx.spec.output_elems)
        store_query_chunk(ctx.spec, ctx.maps.o, where, column, smem)


@cute.jit
def write_output(
    ctx: SM90Context, rows: cutlass.Constexpr, running: RunningRows
) -> None:
    """Write the log-sum-exp and O of the calling warp group's rows."""
    consumer = rows[0].consumer
    results = [
        RowResult.of(ctx, row, top, fragment.row_sum(part))
        for row, top, part in zip(rows, running.row_max, running.row_sum, strict=True)
    ]
    if fragment.is_first_of_row() == 0:
        for half in cutlass.range_constexpr(NUM_ROWS):
            write_log_sum_exp(ctx, rows[half], results[half])
    factors = [output_factor(ctx, result) for result in results]
    words = fragment.packed(fragment.scaled_rows(running.o, factors), ctx.spec.output_dtype)
    # Every warp's last product with Q is over.
    barriers.named_barrier(CONSUMER.number + consumer, WARP_GROUP_THREADS)
    stage(ctx, rows, words)
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(CONSUMER.number + consumer, WARP_GROUP_THREADS)
    if warp_index() % WARPS_PER_GROUP == 0:
        store_chunks(ctx, consumer)
        finish_stores()
