"""What the consumers of a Hopper CTA owe each other: turns, slots of K and V, the memory of Q.

Where it gains time they start their products in turn, so that one multiplies while the others
exponentiate (``SM90Spec.takes_turns``). Each slot is freed by all of them. A consumer whose rows
see fewer key tiles than the CTA visits leaves its own loop earlier, and frees the slots of the rest
and passes their turns as they come::

    causal, 192 rows, key tiles of 128      tile 0   1   2   3   4   5
    consumer 0, rows 576 to 639                  x   x   x   x   x   pass
    consumer 1, rows 640 to 703                  x   x   x   x   x   x
    consumer 2, rows 704 to 767                  x   x   x   x   x   x
"""

import cutlass
from cutlass import Boolean, Int32, cute

from ..device.ids import warp_index
from ..device.registers import DEVICE
from ..device.sync import barriers
from ..plan.barriers.named import TURN
from ..plan.facts.hardware import WARPS_PER_GROUP
from ..plan.masks.key_tiles import KeyTileMap, Rows
from .sm90 import SM90Context, first_position


@cute.jit
def say_read(ctx: SM90Context, consumer: Int32, is_last: Boolean) -> None:
    """Say that the next Q may be loaded (persistent CTAs), once the last key tile has S.

    So it arrives under that tile's softmax and product, and while O is written.
    """
    if cutlass.const_expr(ctx.spec.variant.is_persistent):
        if is_last:
            ctx.mbars.stored(consumer).arrive_as_warp()


def own_key_tiles(ctx: SM90Context, consumer: Int32) -> Int32:
    """Return how many of the CTA's key tiles some row of the consumer sees: the first ones."""
    if not ctx.spec.ends_apart:
        return ctx.work.num_key_tiles
    sequence, size = ctx.work.sequence, ctx.spec.tile_positions
    position = first_position(ctx, consumer)
    first = position + sequence.offset
    rows = Rows(first, first + (size - 1), sequence.seqlen_k, sequence.lengths)
    count = KeyTileMap.of(ctx.spec.variant.terms, rows, ctx.spec.config.BN, DEVICE).count
    return DEVICE.select(position < sequence.seqlen_q, count, 0)


@cute.jit
def pass_tiles(ctx: SM90Context, consumer: Int32, num_tiles: Int32) -> None:
    """Take no part in the CTA's key tiles from number ``num_tiles`` on: free them, pass turns."""
    if cutlass.const_expr(ctx.spec.ends_apart):
        if num_tiles == 0:
            if ctx.work.num_key_tiles > 0:
                ctx.mbars.query(consumer).wait(ctx.query_step)
                say_read(ctx, consumer, Boolean(True))
        keys, values = ctx.mbars.k_ring(), ctx.mbars.v_ring()
        state = ctx.ring_start(producer=False, tile=num_tiles)
        for tile in cutlass.range(num_tiles, ctx.work.num_key_tiles, unroll=1):
            if tile > 0:
                wait_for_turn(ctx, consumer)
                give_turn(ctx, consumer)
            keys.consumer_wait(state)
            keys.consumer_arrive_as_warp(state)
            values.consumer_wait(state)
            values.consumer_arrive_as_warp(state)
            state = state.step()


@cute.jit
def wait_for_turn(ctx: SM90Context, consumer: Int32) -> None:
    """Wait until the consumer before has started its products of this key tile."""
    if cutlass.const_expr(ctx.spec.takes_turns):
        barriers.named_barrier(TURN.number + consumer, TURN.threads)


@cute.jit
def give_turn(ctx: SM90Context, consumer: Int32) -> None:
    """Let the next consumer start its products."""
    if cutlass.const_expr(ctx.spec.takes_turns):
        after = consumer + 1
        first = after == ctx.spec.config.num_consumers
        number = Int32(cutlass.select_(first, Int32(0), after)) + TURN.number
        barriers.named_barrier_arrive(number, TURN.threads)


@cute.jit
def open_turns(ctx: SM90Context) -> None:
    """Give the first turn to the first consumer: the last one says so."""
    if cutlass.const_expr(ctx.spec.takes_turns):
        if warp_index() // WARPS_PER_GROUP == ctx.spec.config.num_consumers - 1:
            barriers.named_barrier_arrive(TURN.number, TURN.threads)


@cute.jit
def close_turns(ctx: SM90Context) -> None:
    """Take the last turn, given to the first consumer: no barrier stays half open."""
    if cutlass.const_expr(ctx.spec.takes_turns):
        if warp_index() < WARPS_PER_GROUP:
            barriers.named_barrier(TURN.number, TURN.threads)
