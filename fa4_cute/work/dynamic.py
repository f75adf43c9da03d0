"""The next work of a CTA that takes over those of others: every warp reads the same answer.

One warp, of the scheduler role, asks; ``plan.barriers.answers`` says when.
"""

import cutlass
from cutlass import Int32, cute

from ..device.sync import barriers, launch_control
from .context import AttentionContext, TmemContext


@cute.jit
def next_work(ctx: TmemContext, taken: Int32) -> Int32:
    """Return the work that the ``taken``-th answer names, -1 where none is left. Whole warps."""
    answers = ctx.mbars.reads_next()
    answers.wait(taken)
    block, is_left = launch_control.first_block(ctx.smem.answer_smem())
    # The asynchronous proxy writes the next answer over the one that was read here.
    barriers.fence_proxy_async_shared()
    barriers.warp_barrier()
    with cute.arch.elect_one():
        ctx.barriers.arrive_at_leader(answers.plan.release(), release=True)
    return Int32(cutlass.select_(is_left, in_clusters(ctx, block), Int32(-1)))


def in_clusters(ctx: AttentionContext, ctas: Int32) -> Int32:
    """Return a number or count of CTAs along x as one of the clusters that they make up."""
    size = ctx.spec.cluster_size
    return ctas if size == 1 else ctas // size
