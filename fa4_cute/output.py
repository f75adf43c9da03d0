"""Last step of the softmax role: O divided by the row sum, and the log-sum-exp.

O is staged in shared memory over Q, and with fp8 operands over part of the K/V ring. Both are free:
``O_prod`` follows, on the one issuing thread, every MMA that reads them
(``SM100AttentionSMem.o_chunk_smem``).
"""

import math

import cutlass
from cutlass import Float32, Int32, Int64, cute

from .device import barriers, epilogue, tmem
from .device.arith import log2_hardware, reciprocal
from .device.ids import warp_index
from .device.ptx import emit
from .device.tma import finish_stores
from .plan.dtypes import DType
from .plan.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from .plan.params import VALUE_SCALE
from .plan.pipeline_plan import BarrierWait
from .tma import store_query_chunk
from .work import KernelContext, lane_address, query_head

LN_2 = math.log(2.0)
OUTPUT_COLUMNS = 32
"""Columns of O normalised at a time."""
FIRST_NAMED_BARRIER = 1
"""Barrier 0 is the CTA's; 1 and 2 belong to the two softmax warp groups."""


def output_chunks(ctx: KernelContext) -> range:
    """Return the first columns of the chunks of O that hold real columns."""
    return range(0, ctx.spec.config.ov_depth, ctx.spec.output_elems)


def chunk_address(ctx: KernelContext, chain: int, column: int) -> Int32:
    """Return the shared address of the staged chunk of O that starts at ``column``."""
    return ctx.smem + ctx.layout.o_chunk_smem(chain, column // ctx.spec.output_elems)


def stage_columns(ctx: KernelContext, line, column: int, words: list) -> None:
    """Store packed ``words`` of the calling row from ``column`` on."""
    width = ctx.spec.output_elems
    unit = column % width * ctx.spec.output_dtype.size // epilogue.UNIT_BYTES
    chunk = chunk_address(ctx, line.chain, column - column % width)
    epilogue.store_row_units(chunk, line.row, unit, words)


def normalisation(ctx: KernelContext, row_sum: Float32) -> Float32:
    """Return what the accumulator is multiplied by: ``value_scale / row_sum``.

    A row without a visible key has sum 0 and an accumulator of zeros: 0, not 0 / 0.
    """
    no_key = row_sum == Float32(0.0)
    factor = reciprocal(row_sum)
    if VALUE_SCALE in ctx.problem.extras:
        factor = factor * ctx.problem.extras[VALUE_SCALE]
    return Float32(cutlass.select_(no_key, Float32(0.0), factor))


def stage_accumulator(ctx: KernelContext, line, factor: Float32) -> None:
    """Stage O times ``factor``, all columns of all chunks, padding included."""
    start = lane_address(ctx.tmem, ctx.columns.o(line.chain).start)
    end = output_chunks(ctx)[-1] + ctx.spec.output_elems
    for column in range(0, end, OUTPUT_COLUMNS):
        values = tmem.wait_loads(tmem.load(start + column, OUTPUT_COLUMNS))
        words = epilogue.normalise(values, factor, ctx.spec.output_dtype.ptx_name)
        stage_columns(ctx, line, column, words)


def stage_zeros(ctx: KernelContext, line) -> None:
    """Stage an output of zeros: no key is visible, and the accumulator was never written."""
    end = output_chunks(ctx)[-1] + ctx.spec.output_elems
    for column in range(0, end, OUTPUT_COLUMNS):
        stage_columns(ctx, line, column, [Int32(0)] * (OUTPUT_COLUMNS // 2))


@cute.jit
def write_output(ctx: KernelContext, line, row_sum: Float32):
    """Write the warp group's half of O. Rows past the sequence are dropped by the tensor map."""
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        done = ctx.spec.config.misc_mbars.producer_o(line.chain).producer_mbar()
        ctx.barriers.wait(BarrierWait(done, (num_tiles - 1) & 1))
        tmem.fence_after_thread_sync()
        stage_accumulator(ctx, line, normalisation(ctx, row_sum))
    else:
        stage_zeros(ctx, line)
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(FIRST_NAMED_BARRIER + line.chain, WARP_GROUP_THREADS)
    if warp_index() % WARPS_PER_GROUP == 0:
        sequence = ctx.work.sequence
        first = sequence.first_query + ctx.work.position + line.chain * ctx.spec.tile_positions
        where = (first, ctx.work.head, sequence.query_batch)
        for column in output_chunks(ctx):
            smem = chunk_address(ctx, line.chain, column)
            store_query_chunk(ctx.spec, ctx.maps.o, where, column, smem)
        finish_stores()


@cute.jit
def write_log_sum_exp(ctx: KernelContext, line, row_max: Float32, row_sum: Float32):
    """Write the row's natural log-sum-exp, minus infinity when it saw no key."""
    if cutlass.const_expr(ctx.spec.return_lse):
        problem = ctx.problem
        if line.position < ctx.work.sequence.seqlen_q:
            head = query_head(ctx, line.row)
            row = (Int64(ctx.work.batch) * problem.num_q_heads + head) * problem.seqlen_q
            address = problem.lse + (row + line.position) * DType.FP32.size
            # log2(0) is minus infinity, and the maximum of a row without keys is finite.
            log2_sum = log2_hardware(row_sum)
            if cutlass.const_expr(ctx.spec.probability.lift != 0):
                log2_sum = log2_sum - Float32(ctx.spec.probability.lift)
            value = (row_max * line.scale + log2_sum) * Float32(LN_2)
            emit("st.global.f32 [$0], $1;", (), (address, value))
