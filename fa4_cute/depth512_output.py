"""Last step of the pair's softmax role: O divided by the row sum, through shared memory and TMA.

O is staged over Q, and with fp8 operands over P and part of the ring too. They are free: the wait
for the last ``O_mma`` follows every MMA of the pair that reads them
(``Depth512AttentionSMem.o_chunk_smem``). The low half of the head dim is stored while the MMAs of the high half still run.
"""

import cutlass
from cutlass import Float32, Int32, cute

from .depth512_work import PairContext, PairRow
from .device import barriers, epilogue, tmem
from .device.ids import warp_index
from .device.tma import finish_stores
from .output import normalisation
from .plan.depth512_lanes import first_output
from .plan.hardware import WARP_GROUP_THREADS
from .plan.pipeline_plan import BarrierWait
from .tma import store_query_chunk
from .work import lane_address

OUTPUT_BARRIER = 3
"""Named barrier of the softmax warps: a part of O is staged (1 and 2 exchange row values)."""
OUTPUT_COLUMNS = 32
"""Columns of O normalised at a time."""


def part_columns(ctx: PairContext, part: int) -> range:
    """Return the real columns of output ``part``, in whole chunks."""
    config = ctx.spec.config
    width = config.padded_depth // config.num_o_parts
    return range(part * width, min((part + 1) * width, config.depth), ctx.spec.output_elems)


def stage_part(ctx: PairContext, line: PairRow, part: int, words_of) -> None:
    """Stage the columns of output ``part`` that the thread holds, padding included.

    ``words_of`` returns the packed words of the ``OUTPUT_COLUMNS`` columns from a TMEM column on.
    """
    config = ctx.spec.config
    width = ctx.spec.output_elems
    first_chunk = first_output(config, part, line.part) // width
    for column in range(0, config.o_columns, OUTPUT_COLUMNS):
        words = words_of(part * config.o_columns + column)
        unit = column % width * ctx.spec.output_dtype.size // epilogue.UNIT_BYTES
        chunk = ctx.smem + ctx.layout.o_chunk_smem(first_chunk + column // width)
        epilogue.store_row_units(chunk, line.row, unit, words)


@cute.jit
def store_part(ctx: PairContext, part: cutlass.Constexpr[int]):
    """Store a staged part with TMA; rows past the sequence and padding columns are dropped."""
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(OUTPUT_BARRIER, WARP_GROUP_THREADS)
    if warp_index() == 0:
        sequence = ctx.work.sequence
        first = sequence.first_query + ctx.work.position
        where = (first, ctx.work.head, sequence.query_batch)
        for column in part_columns(ctx, part):
            chunk = column // ctx.spec.output_elems
            smem = ctx.smem + ctx.layout.o_chunk_smem(chunk)
            store_query_chunk(ctx.spec, ctx.maps.o, where, column, smem)


def write_accumulators(ctx: PairContext, line: PairRow, row_sum: Float32) -> None:
    """Wait for each part of O, normalise and store it."""
    factor = normalisation(ctx, row_sum)
    start = lane_address(ctx.tmem, ctx.columns.o_lo().start)

    def normalised(column: int) -> list:
        values = tmem.wait_loads(tmem.load(start + column, OUTPUT_COLUMNS))
        return epilogue.normalise(values, factor, ctx.spec.output_dtype.ptx_name)

    phase = (ctx.work.num_key_tiles - 1) & 1
    for part in range(ctx.spec.config.num_o_parts):
        ctx.barriers.wait(BarrierWait(ctx.mbars.O_mma_lo_offset + part, phase))
        tmem.fence_after_thread_sync()
        stage_part(ctx, line, part, normalised)
        store_part(ctx, part)


def write_zeros(ctx: PairContext, line: PairRow) -> None:
    """Store zeros: no key is visible, and the accumulators were never written."""
    for part in range(ctx.spec.config.num_o_parts):
        stage_part(ctx, line, part, lambda _: [Int32(0)] * (OUTPUT_COLUMNS // 2))
        store_part(ctx, part)


@cute.jit
def write_output(ctx: PairContext, line: PairRow, row_sum: Float32):
    """Write the CTA's rows of O and wait until they are in global memory."""
    if ctx.work.num_key_tiles > 0:
        write_accumulators(ctx, line, row_sum)
    else:
        write_zeros(ctx, line)
    if warp_index() == 0:
        finish_stores()
