"""Softmax role of the CTA pair (warps 0-3 of both CTAs): S in registers, P in shared memory.

Per key tile: load S and give its buffer back, find the row maximum, publish the correction factor,
write P as the swizzled A operand of P V, add up the row sum. Head dim 512 splits a row between two
threads; they exchange maxima in every tile and, because partial sums are rescaled alike, the sum
only once at the end. Then: divide O by the row sum and store it, write the log-sum-exp.

Edges: waits on ``S produced``, ``C`` consumed and ``O_mma``; arrives on ``C`` produced, and on
``S consumed`` and ``PO_lo`` of the leader. With scales per token it also waits for those of the
tile and gives their buffer back.
Source: ``modular-sm100-attention.md`` section 6.6.
"""

from dataclasses import replace

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import epilogue
from ..device.math import softmax as rows
from ..device.math.arith import fma, max2
from ..device.memory import shared, tmem
from ..device.sync import barriers
from ..operands.scores import TileView, scores_and_max
from ..operands.token_scales import keep_query_scale, release_scales, wait_for_scales
from ..output.depth512 import write_output
from ..output.row_result import RowResult, write_log_sum_exp
from ..plan.barriers.pipeline_plan import BarrierArrive, BarrierWait
from ..plan.compute.depth512_lanes import first_key
from ..plan.facts.hardware import WARP_THREADS
from ..work.depth512 import ONLY_CHAIN, PairContext, PairRow, odd_tile, round_phase, row_slot
from ..work.persistent import for_each_work, say_stored

EXCHANGE_BARRIER = 1
"""Named barriers 1 and 2: the two warps that hold the same 32 rows."""
_SUM_LANES = 4


@cute.jit
def exchange(ctx: PairContext, line: PairRow, value: Float32, combine: cutlass.Constexpr):
    """Return ``combine`` of both threads' values of a row; the row's slot is free before.

    Two barriers, because one slot carries both directions.
    """
    slot = row_slot(ctx, line.row)
    warps = ctx.spec.config.BM // WARP_THREADS
    barrier = EXCHANGE_BARRIER + warp_index() % warps
    threads = 2 * WARP_THREADS
    if line.part == 0:
        shared.store_f32(slot, value)
    barriers.named_barrier(barrier, threads)
    if line.part != 0:
        value = combine(value, shared.load_f32(slot))
        shared.store_f32(slot, value)
    barriers.named_barrier(barrier, threads)
    if line.part == 0:
        value = shared.load_f32(slot)
    return value


@cute.jit
def wait_for_factor_read(ctx: PairContext, tile: Int32):
    """Wait until the correction role has read the factor of ``tile``; tile 0 has none."""
    if tile > 0:
        phase = ctx.factor_parity(ONLY_CHAIN, tile)
        ctx.barriers.wait(BarrierWait(ctx.mbars.C_consumer_offset, phase))


@cute.jit
def wait_for_p(ctx: PairContext, tile: Int32):
    """Wait until the MMAs have read P of the tile before.

    Without look-ahead the arrival of S says so already: its commit follows that P V. Before the
    first tile, this thread has waited for all P V of the query tile before. Where O of that was
    staged over P, its store has read it: K of these scores was loaded only then.
    """
    if cutlass.const_expr(ctx.spec.look_ahead):
        if tile > 0:
            last = ctx.mbars.O_mma_lo_offset + ctx.spec.config.num_o_parts - 1
            ctx.barriers.wait(BarrierWait(last, ctx.step_parity(ONLY_CHAIN, tile - 1)))


@cute.jit
def publish_factor(ctx: PairContext, line: PairRow, factor: Float32, tile: Int32):
    """Hand the factor to the correction role; the first tile overwrites O and has none."""
    if tile > 0:
        if line.part == 0:
            shared.store_f32(row_slot(ctx, line.row), factor)
        ctx.barriers.arrive(BarrierArrive(ctx.mbars.C_producer_offset))


def store_probabilities(ctx: PairContext, line: PairRow, columns: range, words: list) -> None:
    """Store packed ``words`` of the thread's ``columns`` of P where P V reads its A operand.

    P is K-major: chunks of one swizzle span of keys, each with all rows of the CTA.
    """
    config = ctx.spec.config
    width, size = config.swizzle_elems, config.qkv_dtype_size
    chunk = columns.start // width + first_key(config, line.part) // width
    address = ctx.smem + ctx.layout.p_chunk_smem(chunk)
    unit = columns.start % width * size // epilogue.UNIT_BYTES
    epilogue.store_row_units(address, line.row, unit, words, config.swizzle_mode)


def exponentiate_and_store(
    ctx: PairContext, line: PairRow, scores: list, row_max: Float32, tile: Int32
) -> list:
    """Turn S into P, hand P over, and return the row's partial sums.

    All of P is ready in registers before the wait for its memory: what follows that wait lies
    between two P V and is kept to the stores.
    """
    plan, batches = ctx.spec.exp2_plan, ctx.spec.column_plan.batches
    probability = ctx.spec.probability
    offset = rows.exponent_offset(row_max, line.scale, probability)
    sums = [(Float32(0.0), Float32(0.0)) for _ in range(_SUM_LANES)]
    words = []
    for span in batches:
        values = scores[span.start : span.stop]
        pairs = rows.exponentials(values, plan, span.start // 2, line.scale, offset)
        words.append(rows.pack_probabilities(pairs, probability))
        sums = rows.add_pairs(sums, pairs)
    wait_for_p(ctx, tile)
    for span, packed in zip(batches, words, strict=True):
        store_probabilities(ctx, line, span, packed)
    # P is read by the MMAs of the leader, so it is released to both CTAs, and to the async proxy.
    barriers.fence_proxy_async_shared()
    ctx.barriers.arrive_at_leader(ctx.mbars.po_lo_mbar(), release=True)
    return sums


@cute.jit
def softmax_tile(
    ctx: PairContext, line: PairRow, tile: Int32, row_max: Float32, row_sum: Float32
):
    """Process one key tile; returns the row's new maximum and the thread's new partial sum."""
    config, turn = ctx.spec.config, ctx.loaded_before(tile)
    odd = odd_tile(turn)
    arrived = BarrierWait(ctx.mbars.S_even_producer_offset + odd, round_phase(turn))
    ctx.barriers.wait(arrived)
    tmem.fence_after_thread_sync()
    first = ctx.work.key_tile(tile) * config.BN + first_key(config, line.part)
    line = replace(line, scores=line.scores + odd * config.s_columns)
    scales = wait_for_scales(ctx, line, tile, first_key(config, line.part))
    key_tile = TileView(ctx, line, first, scales)
    scores, new_max = scores_and_max(line, ctx.spec.column_plan, row_max, key_tile)
    release_scales(ctx, tile)
    tmem.fence_before_thread_sync()
    ctx.barriers.arrive_at_leader(ctx.mbars.S_even_consumer_offset + odd)
    wait_for_factor_read(ctx, tile - 1)
    if cutlass.const_expr(config.split_o):
        new_max = exchange(ctx, line, new_max, max2)
    probability = ctx.spec.probability
    used_max, factor = rows.rescale_decision(row_max, new_max, line.scale, probability)
    publish_factor(ctx, line, factor, tile)
    sums = exponentiate_and_store(ctx, line, scores, used_max, tile)
    return used_max, fma(row_sum, factor, rows.total(sums))


@cute.jit
def write_row_sum(ctx: PairContext, line: PairRow, result: RowResult):
    """Write the log-sum-exp, once per row."""
    if line.part == 0:
        write_log_sum_exp(ctx, line, result)


@cute.jit
def softmax_work(ctx: PairContext):
    """Process one query tile and write the CTA's rows of the output."""
    line = PairRow.of(ctx)
    num_tiles = ctx.work.num_key_tiles
    keep_query_scale(ctx, line)
    row_max = rows.initial_max(line.scale)
    row_sum = Float32(0.0)
    for tile in cutlass.range(0, num_tiles, unroll=1):
        row_max, row_sum = softmax_tile(ctx, line, tile, row_max, row_sum)
    if cutlass.const_expr(ctx.spec.config.split_o or ctx.spec.variant.is_persistent):
        # The slot of the last factor is written again, here or in the next query tile.
        wait_for_factor_read(ctx, num_tiles - 1)
    if cutlass.const_expr(ctx.spec.config.split_o):
        row_sum = exchange(ctx, line, row_sum, lambda mine, other: mine + other)
    ctx = ctx.decode_again()
    line = PairRow.of(ctx)
    result = RowResult.of(ctx, line, row_max, row_sum)
    write_row_sum(ctx, line, result)
    write_output(ctx, line, result)
    say_stored(ctx, ONLY_CHAIN)


def softmax(ctx: PairContext) -> None:
    """Run the softmax role."""
    for_each_work(ctx, softmax_work)
