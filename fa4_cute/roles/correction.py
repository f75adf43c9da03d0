"""Correction role (warps 8-11): keep O consistent while row maxima move.

Between two key tiles it multiplies O_i by the factor that the softmax of chain i published. Both
"P_i stored" (softmax) and "O_i rescaled" (here) arrive on the barrier the MMA role waits on before
P_i V, so this role arrives for every tile, also when no row needs a rescale.

In a persistent CTA whose P cross it writes O, too: what that is multiplied by comes as one
factor more. The softmax is at the next query tile meanwhile, and the first P V of that waits for
"O_i rescaled", which this role says when it has read O_i.

Edges: waits on ``C_i`` (factor published) and ``O_prod[i]`` (previous P V done); arrives on
``S_cons[0]_i`` and releases ``C_i``.
"""

from functools import partial

import cutlass
from cutlass import Float32, Int32, cute

from ..device.lanes import lane_address
from ..device.math.rescale import rescale_columns
from ..device.memory import shared, tmem
from ..device.sync import barriers
from ..output.two_q import write_scaled, write_zeros
from ..plan.barriers.chains import NUM_CHAINS
from ..work.context import KernelContext, factor_address
from ..work.persistent import for_each_work, wait_until_stored
from ..work.row import SoftmaxRow


def rescale_output(ctx: KernelContext, chain: int, factor: Float32) -> None:
    """Multiply the calling row of O by ``factor``; the padding is never stored, so never scaled."""
    start = lane_address(ctx.tmem, ctx.columns.o(chain).start)
    rescale_columns(start, ctx.spec.config.ov_depth, factor)


@cute.jit
def release_first_tiles(ctx: KernelContext) -> None:
    """Say that the outputs may be overwritten: what they held has been stored."""
    order = ctx.spec.issue_order
    for chain in cutlass.range_constexpr(NUM_CHAINS):
        if cutlass.const_expr(chain > 0 and order.deals_out):
            # Half of a phase would be left over for the next query tile.
            if ctx.work.num_key_tiles > chain:
                ctx.mbars.consumer_o(chain).release()
        else:
            ctx.mbars.consumer_o(chain).release()


@cute.jit
def correct_chain(ctx: KernelContext, chain: cutlass.Constexpr[int], tile: Int32) -> None:
    """Bring O of ``chain`` to the maxima of its ``tile``-th key tile, which is not the first."""
    ctx.mbars.consumer_c(chain).wait(ctx.factor_step(chain, tile))
    factor = shared.load_f32(factor_address(ctx, chain))
    must_rescale = barriers.any_in_warp(factor < Float32(1.0))
    # Where P crosses, this tile's S was issued before the previous P V, so that this waits for it.
    # Else the factor follows this S, whose commit covers the previous P V too: the wait is over at
    # once, and stays because it is the event that a rescale depends on.
    ctx.mbars.consumer_o(chain).wait(ctx.step(chain, tile - 1))
    tmem.fence_after_thread_sync()
    if must_rescale:
        rescale_output(ctx, chain, factor)
    tmem.fence_before_thread_sync()
    ctx.mbars.consumer_o(chain).release()
    ctx.mbars.consumer_c(chain).release()


@cute.jit
def correct_work(ctx: KernelContext) -> None:
    """Correct the outputs of one query tile: per chain, one step fewer than it has key tiles."""
    num_tiles, order = ctx.work.num_key_tiles, ctx.spec.issue_order
    if num_tiles > 0:
        if cutlass.const_expr(not ctx.spec.correction_writes):
            wait_until_stored(ctx, range(NUM_CHAINS))
            release_first_tiles(ctx)
        held = ctx.at_row()
        for tile in cutlass.range(1, ctx.num_tiles(order.longest), unroll=1):
            for chain in cutlass.range_constexpr(NUM_CHAINS):
                if cutlass.const_expr(order.may_lack_one(chain)):
                    if tile < ctx.num_tiles(chain):
                        correct_chain(held, chain, tile)
                else:
                    correct_chain(held, chain, tile)
    if cutlass.const_expr(ctx.spec.correction_writes):
        for chain in cutlass.range_constexpr(NUM_CHAINS):
            write_chain(ctx, chain)


@cute.jit
def write_chain(ctx: KernelContext, chain: cutlass.Constexpr[int]) -> None:
    """Write O of ``chain``, and say that it may be overwritten as soon as it is in registers."""
    row, num_tiles = SoftmaxRow(ctx, chain), ctx.num_tiles(chain)
    if num_tiles > 0:
        ctx.mbars.consumer_c(chain).wait(ctx.factor_step(chain, num_tiles))
        factor = shared.load_f32(factor_address(ctx, chain))
        ctx.mbars.consumer_c(chain).release()
        write_scaled(ctx, row, factor, partial(say_free, ctx, chain))
    else:
        write_zeros(ctx, row)


def say_free(ctx: KernelContext, chain: int) -> None:
    """Say that O of ``chain`` is in registers: the next query tile may overwrite it."""
    tmem.fence_before_thread_sync()
    ctx.mbars.consumer_o(chain).release()


def correction(ctx: KernelContext) -> None:
    """Run the correction role."""
    if ctx.spec.correction_writes:
        release_first_tiles(ctx)
    for_each_work(ctx, correct_work)
