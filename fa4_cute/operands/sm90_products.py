"""The products of a consumer of the Hopper kernel: S of a key tile, and P V of the tile before.

P V is part of O where wgmma adds it. Of fp8 operands it is a sum of its own, which joins O with the
factor that O is due; of a wide V in blocks of columns, one after the other
(``plan.config.sm90_tiles``)::

    S beside P V    start S(n)   start P V(n-1)   wait S(n)   ..   wait P V(n-1)   other blocks
    S after it      all blocks of P V(n-1)   start S(n)   wait S(n)   ..
"""

from cutlass import Float32, Int32

from ..device.math import fragment, wgmma
from ..pipelines import RingState
from ..plan.compute.sm90_mma import ColumnBlock, column_blocks, qk_plan
from ..plan.memory.rings import Ring
from ..work.sm90 import RunningRows, SM90Context

Registers = list[Float32]


def start_scores(
    ctx: SM90Context, query: Int32, state: RingState, spent: wgmma.Spent | None = None
) -> Registers:
    """Start S = Q K' with Q at shared address ``query`` and K in the slot of ``state``.

    S takes the registers that are ``spent``, if any.
    """
    config = ctx.spec.config
    plan, ring = qk_plan(config), Ring.of_sm90_keys(config)
    assert plan.a is not None
    a = wgmma.lower_word(plan.a, query)
    b = wgmma.lower_word(plan.b, ctx.smem.at(ring.get_smem(state)))
    return wgmma.start_shared(plan, a, b, spent)


def start_output(ctx: SM90Context, running: RunningRows, state: RingState) -> Registers:
    """Wait for V in the slot of ``state`` and start O += P V, or the first sum of its own."""
    config = ctx.spec.config
    before = None if config.transposes_values else running.o
    ctx.mbars.v_ring().consumer_wait(state)
    return _start_block(ctx, running, state, column_blocks(config)[0], before)


def finish_output(
    ctx: SM90Context, running: RunningRows, state: RingState, product: Registers
) -> Registers:
    """Wait for the started ``product`` with V in the slot of ``state``; take it into O.

    Sums of their own are added here, where all blocks but the first are multiplied, too. Then the
    slot is free.

    Returns:
        The registers of the last sum, which are spent.
    """
    product = wgmma.wait(product, 0)
    if ctx.spec.config.transposes_values:
        found = Registers()
        for block in column_blocks(ctx.spec.config):
            if block.first:
                spent = wgmma.Spent(product, ctx.never)
                product = wgmma.wait(_start_block(ctx, running, state, block, spent), 0)
            more = product[block.added]
            found += fragment.added_rows(running.o[block.registers], running.factors, more)
        running.o = found
    else:
        running.o = product
    ctx.mbars.v_ring().consumer_arrive_as_warp(state)
    return product


def start_products(
    ctx: SM90Context, query: Int32, running: RunningRows, k: RingState, v: RingState
) -> tuple[Registers, Registers]:
    """Start S of the tile whose K is in the slot of ``k``, after or beside P V of the one before.

    Returns:
        S, and the part of P V that is still under way: none where S comes after it.
    """
    if ctx.spec.config.tile.scores_ahead:
        scores = start_scores(ctx, query, k)
        return scores, start_output(ctx, running, v)
    last = finish_output(ctx, running, v, start_output(ctx, running, v))
    return start_scores(ctx, query, k, wgmma.Spent(last, ctx.never)), []


def _start_block(
    ctx: SM90Context,
    running: RunningRows,
    state: RingState,
    block: ColumnBlock,
    before: Registers | wgmma.Spent | None,
) -> Registers:
    """Start the product of a block of columns with V in the slot of ``state``."""
    slot = ctx.smem.at(Ring.of_sm90_values(ctx.spec.config).get_smem(state))
    b = wgmma.lower_word(block.plan.b, slot + block.first_byte)
    return wgmma.start_registers(block.plan, before, running.p, b)
