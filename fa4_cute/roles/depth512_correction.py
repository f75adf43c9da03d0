"""Correction role of the CTA pair (warps 4-7 of both CTAs): keep O consistent as maxima move.

Between two key tiles it multiplies O, or first its low and then its high half, by the factor that
the softmax published. "O rescaled" arrives on the leader's barriers that the MMA role waits on
before P V, from all threads of both CTAs and for every tile, also when no row needs a rescale.

Edges: waits on ``C`` produced (factor published), ``O_mma_lo`` and ``O_mma_hi`` (P V of the tile
before done); arrives on ``C`` consumed and on ``PO_lo`` and ``PO_hi`` of the leader.

In a plain persistent pair it writes O, too: the row sum comes as one factor more. The softmax is at
the next query tile meanwhile, and P V of that waits for ``O rescaled``, which this role says only
when it has read O.
"""

import cutlass
from cutlass import Boolean, Float32, Int32, cute

from ..device.lanes import lane_address
from ..device.math.rescale import rescale_columns
from ..device.memory import shared, tmem
from ..device.sync import barriers
from ..output.depth512 import write_output
from ..output.row_result import RowResult
from ..work.depth512 import ONLY_CHAIN, Depth512Context, Depth512Row, lane_slot
from ..work.persistent import for_each_work, wait_until_stored


def release_first_tile(ctx: Depth512Context) -> None:
    """Say that the outputs may be overwritten: what they held has been stored."""
    for o_block in range(ctx.spec.config.num_o_blocks):
        ctx.mbars.consumer_o(o_block).release()


@cute.jit
def rescale_block(
    ctx: Depth512Context,
    o_block: cutlass.Constexpr[int],
    factor: Float32,
    must_rescale: Boolean,
    step: Int32,
) -> None:
    """Bring an O block to the maxima of the next tile once P V of ``step`` is done."""
    columns = ctx.spec.config.o_columns
    ctx.mbars.consumer_o(o_block).wait(step)
    tmem.fence_after_thread_sync()
    if must_rescale:
        start = lane_address(ctx.tmem, ctx.columns.o_lo().start + o_block * columns)
        rescale_columns(start, columns, factor)
    tmem.fence_before_thread_sync()
    ctx.mbars.consumer_o(o_block).release()


def taken_factor(ctx: Depth512Context, tile: Int32) -> Float32:
    """Return the factor of key tile ``tile``, or the row sum that follows the last one."""
    ctx.mbars.consumer_c().wait(ctx.factor_step(ONLY_CHAIN, tile))
    factor = shared.load_f32(lane_slot(ctx))
    # It is in a register: its slot may be written again while O is rescaled.
    ctx.mbars.consumer_c().release()
    return factor


@cute.jit
def correct_tile(ctx: Depth512Context, tile: Int32) -> None:
    """Bring O to the maxima of key tile ``tile``, which is not the first."""
    factor = taken_factor(ctx, tile)
    must_rescale = barriers.any_in_warp(factor < Float32(1.0))
    accumulated = ctx.step(ONLY_CHAIN, tile - 1)
    for o_block in cutlass.range_constexpr(ctx.spec.config.num_o_blocks):
        rescale_block(ctx, o_block, factor, must_rescale, accumulated)


@cute.jit
def correct_work(ctx: Depth512Context) -> None:
    """Correct the output of one query tile: one step fewer than there are key tiles."""
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        if cutlass.const_expr(not ctx.spec.correction_writes):
            wait_until_stored(ctx, (ONLY_CHAIN,))
        release_first_tile(ctx)
        for tile in cutlass.range(1, num_tiles, unroll=1):
            correct_tile(ctx, tile)
    if cutlass.const_expr(ctx.spec.correction_writes):
        write_work(ctx)


@cute.jit
def write_work(ctx: Depth512Context) -> None:
    """Write the output of one query tile, whose row sum follows its last factor."""
    row, total = Depth512Row(ctx), Float32(0.0)
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        total = taken_factor(ctx, num_tiles)
    write_output(ctx, row, RowResult(Float32(0.0), total, Float32(1.0)))
    # What is read here is overwritten after the arrival with which this thread begins the next one.
    tmem.fence_before_thread_sync()


def correction(ctx: Depth512Context) -> None:
    """Run the correction role."""
    for_each_work(ctx, correct_work)
