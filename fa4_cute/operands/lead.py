"""Slots of the chains where the second leads: it reads the key tile after that of the first.

Loads come in the same order, and both chains' cursors are found from that of chain 0, which moves
as it does where no chain leads::

    fused ring   K0  K1  V0  K2  V1  K3  V2  V3        step 0: S0 reads K0, S1 K1
    step 1               .   .                         O0 V0, O1 V1; S0 K1, S1 K2

Nothing lies between the first two K and the last two V. Where the kernel has no such chains the
functions return what they are given.
"""

import cutlass
from cutlass import Int32, cute

from ..pipelines import TMAConsumerPipeline
from ..plan.barriers.chains import NUM_CHAINS
from ..sync.cursor import RingState, one_tile_on
from ..work.context import KernelContext


def tile_of_second(ctx: KernelContext, tile: Int32) -> Int32:
    """Return the number of chain 1's key tile while chain 0 has number ``tile``."""
    return tile + ctx.work.lead if ctx.order.starts_apart else tile


def keys_of_second(ctx: KernelContext, k: RingState, *, first: bool) -> RingState:
    """Return the slot of K that chain 1 reads beside chain 0's ``k``."""
    return _on(ctx, k, one_tile_on(ctx.spec.config, k, adjacent=first))


def values_of_second(ctx: KernelContext, v: RingState, *, last: bool = False) -> RingState:
    """Return the slot of V that chain 1 reads beside chain 0's ``v``."""
    return _on(ctx, v, one_tile_on(ctx.spec.config, v, adjacent=last))


def last_values(ctx: KernelContext, v: RingState) -> RingState:
    """Return the slot of chain 0's last V, given the cursor after the last S."""
    return _on(ctx, v, v.step()) if ctx.spec.config.use_fused_kv else v


def free(
    ctx: KernelContext, ring: TMAConsumerPipeline, slot: RingState, chain: int, stage: int = 0
) -> None:
    """Free a stage that ``chain`` has read if it is the last to do so.

    That is chain 1, or chain 0 where chain 1 leads.
    """
    if ctx.order.starts_apart:
        _free_if_led(ctx, ring, slot, stage, NUM_CHAINS - 1 - chain)
    elif chain == NUM_CHAINS - 1:
        ring.release(slot, stage)


def free_last_keys(ctx: KernelContext, ring: TMAConsumerPipeline, k: RingState) -> None:
    """Free the last K if chain 1 alone has read it, where the load role waits for every slot."""
    if ctx.order.starts_apart and ctx.spec.drains_rings:
        for stage in range(ring.plan.num_qk_stages_effective):
            _free_if_led(ctx, ring, k, stage, 1)


@cute.jit
def _free_if_led(
    ctx: KernelContext,
    ring: TMAConsumerPipeline,
    slot: RingState,
    stage: cutlass.Constexpr[int],
    lead: cutlass.Constexpr[int],
) -> None:
    if ctx.work.lead == lead:
        ring.release(slot, stage)


def _on(ctx: KernelContext, slot: RingState, other: RingState) -> RingState:
    return other.or_else(ctx.work.lead > 0, slot) if ctx.order.starts_apart else slot
