"""The next work of a CTA that takes over those of others: every warp reads the same answer.

One warp, of the scheduler role, asks, when all warps have said that it may: the load role some key
tiles before the end of a work, the others when they begin it (``plan.barriers.answers``).
"""

import cutlass
from cutlass import Int32, cute

from ..device import ids
from ..device.sync import barriers, launch_control
from ..plan.barriers.answers import ASKED_AHEAD
from ..plan.barriers.sm90_mbars import SM90MBarsLayout
from .context import TmemContext
from .tile import in_clusters


@cute.jit
def next_work(
    ctx: TmemContext, taken: Int32, *, lets_ask: cutlass.Constexpr[bool] = True
) -> Int32:
    """Return the work that the ``taken``-th answer names, -1 where none is left. Whole warps.

    With ``lets_ask`` the warp says at once that the next one may be asked for.
    """
    ctx.mbars.reads_next().wait(taken)
    block, is_left = launch_control.first_block(ctx.smem.answer_smem())
    # The asynchronous proxy writes the next answer over the one that was read here.
    barriers.fence_proxy_async_shared()
    barriers.warp_barrier()
    if cutlass.const_expr(lets_ask):
        let_ask(ctx)
    return Int32(cutlass.select_(is_left, in_clusters(ctx.spec, block), Int32(-1)))


@cute.jit
def let_ask(ctx: TmemContext) -> None:
    """Say that the warp has read the latest answer, so that the next one may be asked for."""
    with cute.arch.elect_one():
        ctx.barriers.arrive(ctx.mbars.reads_next().plan.release())


def first_arrivals(ctx: TmemContext) -> int:
    """Return the arrivals for the first work that are not the load role's."""
    layout = ctx.mbars.layout
    assert not isinstance(layout, SM90MBarsLayout)
    return layout.answers.first_arrivals


@cute.jit
def let_ask_first(ctx: TmemContext) -> None:
    """Scheduler role: say so of the first work, which no answer named, for all but the load role.

    Arrivals of those roles themselves changed the code of their loops.
    """
    if ids.lane_index() < first_arrivals(ctx):
        ctx.barriers.arrive(ctx.mbars.reads_next().plan.release())


@cute.jit
def let_ask_ahead(ctx: TmemContext, tile: Int32) -> None:
    """Load role, in front of key tile ``tile``, and of a work without any: say so in time."""
    if cutlass.const_expr(ctx.spec.variant.is_dynamic):
        if tile == cutlass.max(ctx.work.num_key_tiles - ASKED_AHEAD, 0):
            let_ask(ctx)
