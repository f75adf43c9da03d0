"""Softmax role (warps 0-3 and 4-7): one warp group per S/O chain, one thread per row.

Per key tile: wait for S, find the row maximum, publish the correction factor, turn S into P (in
place: P borrows the low columns of S), hand P over in two parts, add up the row sum. Then, once:
divide O by the row sum, store it through shared memory and TMA, write the log-sum-exp.

Edges: waits on ``S_prod`` (scores written), ``C`` consumed, and at the end ``O_prod``; arrives on
``C`` produced, ``S_cons[0]`` (three quarters or half of P stored) and ``S_cons[1]`` (the rest).
Source: ``modular-sm100-attention.md`` sections 5.6 and 5.8.
"""


import cutlass
from cutlass import Float32, Int32, cute

from ..device.lanes import lane_address
from ..device.math import softmax as rows
from ..device.math.arith import fma
from ..device.memory import shared, tmem
from ..operands.scores import TileView, load_columns, masked, scores_and_max
from ..operands.token_scales import keep_query_scale, release_scales, wait_for_scales
from ..output.cluster import write_output as write_output_of_cluster
from ..output.two_q import write_output
from ..plan.barriers.pipeline_plan import BarrierArrive, BarrierWait
from ..work.context import KernelContext, factor_address
from ..work.persistent import for_each_work, say_stored
from ..work.row import SoftmaxRow

_SUM_LANES = 4


def hand_over(ctx: KernelContext, line: SoftmaxRow, part: int) -> None:
    """Say that part ``part`` of P has been stored."""
    tmem.wait_stores()
    tmem.fence_before_thread_sync()
    chain = ctx.spec.config.misc_mbars.consumer_s(line.chain)
    ctx.barriers.arrive_at_leader(chain.consumer_mbar(0, part))


@cute.jit
def wait_for_factor_read(ctx: KernelContext, chain: cutlass.Constexpr[int], tile: Int32):
    """Wait until the correction role has read this tile's factor; its slot is written next tile.

    The place is chosen for its effect on the schedule: P V needs the correction's arrival anyway,
    and the branches of a wait keep the assembler from moving work of the last batch in front of
    the hand-over of the first three.
    """
    if tile > 0:
        factors = ctx.spec.config.misc_mbars.producer_c(chain)
        ctx.barriers.wait(BarrierWait(factors.consumer_mbar(), ctx.factor_parity(chain, tile)))


def exponentiate_and_store(
    ctx: KernelContext,
    line: SoftmaxRow,
    scores: list,
    row_max: Float32,
    key_tile: TileView,
    tile: Int32,
) -> list:
    """Turn S into P batch by batch, hand it over, and return the row's partial sums."""
    plan = ctx.spec.exp2_plan
    columns = ctx.spec.column_plan
    probability = ctx.spec.probability
    offset = rows.exponent_offset(row_max, line.scale, probability)
    p_address = lane_address(ctx.tmem, ctx.columns.borrow_s_as_p(line.chain).start)
    sums = [(Float32(0.0), Float32(0.0)) for _ in range(_SUM_LANES)]
    summands: list = []
    reloaded: list = []
    for i, span in enumerate(columns.batches):
        if columns.is_resident(i):
            values = scores[span.start : span.stop]
        else:
            values = masked(reloaded, span, key_tile)
        # The last part has its own barrier: the MMAs start on what lies before without it.
        if i == ctx.spec.last_part_batch:
            hand_over(ctx, line, 0)
            wait_for_factor_read(ctx, line.chain, tile)
        is_last = i == columns.num_batches - 1
        if not is_last and not columns.is_resident(i + 1):
            reloaded = load_columns(line, columns.batches[i + 1])
        pairs = rows.exponentials(values, plan, span.start // 2, line.scale, offset)
        words = rows.pack_probabilities(pairs, probability)
        tmem.store(p_address + probability.column(span.start), words)
        # Sums lag one batch behind, so that they fill the gaps of the next exponentials.
        sums = rows.add_pairs(sums, summands)
        summands = pairs
    hand_over(ctx, line, 1)
    return rows.add_pairs(sums, summands)


@cute.jit
def softmax_tile(
    ctx: KernelContext, line: SoftmaxRow, tile: Int32, row_max: Float32, row_sum: Float32
):
    """Process the chain's ``tile``-th key tile; returns the row's new maximum and sum."""
    config = ctx.spec.config
    chain, factors = config.misc_mbars.consumer_s(line.chain), config.misc_mbars.producer_c(
        line.chain
    )
    ctx.barriers.wait(BarrierWait(chain.producer_mbar(), ctx.step_parity(line.chain, tile)))
    tmem.fence_after_thread_sync()
    visited = ctx.spec.issue_order.key_tile(line.chain, tile)
    scales = wait_for_scales(ctx, line, visited)
    key_tile = TileView(ctx, line, ctx.work.key_tile(visited) * config.BN, scales)
    scores, new_max = scores_and_max(line, ctx.spec.column_plan, row_max, key_tile)
    probability = ctx.spec.probability
    used_max, factor = rows.rescale_decision(row_max, new_max, line.scale, probability)
    # The first tile overwrites O, so there is nothing to correct and nobody to tell.
    if tile > 0:
        shared.store_f32(factor_address(ctx, line.chain), factor)
        ctx.barriers.arrive(BarrierArrive(factors.producer_mbar()))
    sums = exponentiate_and_store(ctx, line, scores, used_max, key_tile, tile)
    release_scales(ctx, visited)
    return used_max, fma(row_sum, factor, rows.total(sums))


@cute.jit
def softmax_work(ctx: KernelContext, chain: cutlass.Constexpr[int]):
    """Process one query tile of warp group ``chain`` and write its half of the output."""
    line = SoftmaxRow.of(ctx, chain)
    num_tiles = ctx.spec.issue_order.num_tiles(chain, ctx.work.num_key_tiles)
    keep_query_scale(ctx, line)
    row_max = rows.initial_max(line.scale)
    row_sum = Float32(0.0)
    for tile in cutlass.range(0, num_tiles, unroll=1):
        row_max, row_sum = softmax_tile(ctx, line, tile, row_max, row_sum)
    ctx = ctx.decode_again()
    line = SoftmaxRow.of(ctx, chain)
    if cutlass.const_expr(ctx.spec.variant.in_cluster):
        write_output_of_cluster(ctx, line, row_max, row_sum)
    else:
        write_output(ctx, line, row_max, row_sum)
    say_stored(ctx, chain)


def softmax(ctx: KernelContext, chain: int) -> None:
    """Run the softmax role of warp group ``chain``."""
    for_each_work(ctx, lambda work: softmax_work(work, chain))
