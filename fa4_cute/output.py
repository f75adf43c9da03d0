"""Last step of the softmax role: O divided by the row sum, staged and stored, or written by rows.

O is staged in shared memory over Q, and with fp8 operands over part of the K/V ring. Both are free:
``O_prod`` follows, on the one issuing thread, every MMA that reads them
(``SM100AttentionSMem.o_chunk_smem``).
"""

import cutlass
from cutlass import Float32, Int32, cute

from . import rows
from .device import barriers, epilogue, tmem
from .device.arith import reciprocal
from .device.ids import warp_index
from .device.tma import finish_stores
from .normaliser import RowResult
from .plan.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from .plan.params import VALUE_SCALE
from .plan.pipeline_plan import BarrierWait
from .tma import store_query_chunk
from .work import KernelContext, lane_address

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


def accumulator_columns(ctx: KernelContext, line) -> range:
    """Return the first columns of the pieces of O, all of all chunks, padding included."""
    end = output_chunks(ctx)[-1] + ctx.spec.output_elems
    return range(0, end, OUTPUT_COLUMNS)


def load_accumulator(ctx: KernelContext, line, column: int) -> list[Float32]:
    """Return ``OUTPUT_COLUMNS`` columns of the row's accumulator."""
    start = lane_address(ctx.tmem, ctx.columns.o(line.chain).start)
    return tmem.wait_loads(tmem.load(start + column, OUTPUT_COLUMNS))


def deliver_accumulator(ctx: KernelContext, line, factor: Float32, put) -> None:
    """Hand O times ``factor`` to ``put`` piece by piece."""
    for column in accumulator_columns(ctx, line):
        values = load_accumulator(ctx, line, column)
        put(ctx, line, column, epilogue.normalise(values, factor, ctx.spec.output_dtype.ptx_name))


def deliver_zeros(ctx: KernelContext, line, put) -> None:
    """Hand zeros to ``put``: no key is visible, and the accumulator was never written."""
    for column in accumulator_columns(ctx, line):
        put(ctx, line, column, [Int32(0)] * (OUTPUT_COLUMNS // 2))


def deliver_partial(ctx: KernelContext, line, factor: Float32) -> None:
    """Write O times ``factor`` as the CTA's float32 share."""
    for column in accumulator_columns(ctx, line):
        values = [value * factor for value in load_accumulator(ctx, line, column)]
        rows.store_partial(ctx, line, column, values)


def output_factor(ctx: KernelContext, result: RowResult) -> Float32:
    """Return what O is multiplied by; a row without a visible key has sum 0 and gives 0."""
    no_key = result.total == Float32(0.0)
    factor = reciprocal(result.total)
    if VALUE_SCALE in ctx.problem.extras:
        factor = factor * ctx.problem.extras[VALUE_SCALE]
    factor = Float32(cutlass.select_(no_key, Float32(0.0), factor))
    return factor * result.keep if ctx.spec.variant.sink else factor


def wait_for_output(ctx: KernelContext, line) -> None:
    """Wait for the last P V of the warp group."""
    done = ctx.spec.config.misc_mbars.producer_o(line.chain).producer_mbar()
    ctx.barriers.wait(BarrierWait(done, (ctx.work.num_key_tiles - 1) & 1))
    tmem.fence_after_thread_sync()


@cute.jit
def write_through_memory(ctx: KernelContext, line, result: RowResult):
    """Stage O and store it with TMA. Rows past the sequence are dropped by the tensor map."""
    if ctx.work.num_key_tiles > 0:
        wait_for_output(ctx, line)
        deliver_accumulator(ctx, line, output_factor(ctx, result), stage_columns)
    else:
        deliver_zeros(ctx, line, stage_columns)
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
def write_rows(ctx: KernelContext, line, result: RowResult):
    """Write O row by row, only the rows of the sequence."""
    if ctx.work.num_key_tiles > 0:
        wait_for_output(ctx, line)
        deliver_accumulator(ctx, line, output_factor(ctx, result), rows.store_columns)
    else:
        deliver_zeros(ctx, line, rows.store_columns)


@cute.jit
def write_partial(ctx: KernelContext, line, result: RowResult):
    """Write the CTA's share of O; a share without key tiles is told by its log-sum-exp alone."""
    if ctx.work.num_key_tiles > 0:
        wait_for_output(ctx, line)
        deliver_partial(ctx, line, output_factor(ctx, result))


@cute.jit
def write_output(ctx: KernelContext, line, result: RowResult):
    """Write the warp group's half of O."""
    if cutlass.const_expr(ctx.spec.variant.is_split):
        write_partial(ctx, line, result)
    elif cutlass.const_expr(ctx.spec.variant.ragged_q):
        first = ctx.work.position + line.chain * ctx.spec.tile_positions
        # A box that ends past the sequence would overwrite the next one.
        if first + ctx.spec.tile_positions <= ctx.work.sequence.seqlen_q:
            write_through_memory(ctx, line, result)
        else:
            write_rows(ctx, line, result)
    else:
        write_through_memory(ctx, line, result)
