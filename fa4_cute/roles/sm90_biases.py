"""Role of the Hopper kernel that copies biases to shared memory, to a slot beside each of K.

It runs in the warps of the load role's group that do nothing else. Lanes ask for 16 bytes each and
wait for nothing: the slot's barrier counts every lane, which arrives when its copies have.

Edges: waits on ``bias_empty``; arrives on ``bias_full``.
"""

import cutlass
from cutlass import cute

from ..operands.staged_biases import copy_biases
from ..work.persistent import for_each_work
from ..work.sm90 import SM90Context


@cute.jit
def copy_of_work(ctx: SM90Context) -> None:
    """Copy the biases of one query tile."""
    ring, state = ctx.mbars.bias_ring(), ctx.ring_start(producer=True)
    for tile in cutlass.range(0, ctx.work.num_key_tiles, unroll=1):
        ring.producer_acquire(state)
        copy_biases(ctx, state.index, tile)
        ring.producer_arrive_after_copies(state)
        state = state.step()


def copy(ctx: SM90Context) -> None:
    """Run the role."""
    for_each_work(ctx, copy_of_work)
