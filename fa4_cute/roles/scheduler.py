"""Scheduler role: ask for one work tile after another (``plan.barriers.answers``). One warp.

It asks for the next one as soon as every warp, in both CTAs of a pair, has begun the one before and
the load roles have few key tiles of it left to load.
"""

from cutlass import Int32, cute

from ..device.sync import launch_control, pair
from ..plan.barriers.answers import ANSWER_BYTES
from ..work.context import TmemContext
from ..work.dynamic import let_ask, let_ask_first, next_work
from ..work.pair import InPair


@cute.jit
def tell_leader(ctx: TmemContext, asked: Int32) -> None:
    """Peer: when all warps of this CTA let ask for the ``asked``-th time, say so to the leader."""
    answers = ctx.mbars.asks_next()
    let_ask(ctx)  # in the place of the peer's, which the leader waits for
    answers.acquire_next(asked)
    with cute.arch.elect_one():
        ctx.barriers.arrive_at_leader(answers.plan.acquire_next(asked).mbar, release=True)


@cute.jit
def ask_next(ctx: TmemContext, asked: Int32) -> None:
    """Ask for the ``asked``-th time; in a pair the leader asks for both, and each expects it."""
    answers, in_pair = ctx.mbars.asks_next(), isinstance(ctx, InPair)
    arrived = answers.plan.commit()
    leads = ctx.rank == pair.LEADER if isinstance(ctx, InPair) else True
    if leads:
        answers.acquire_next(asked, of_pair=in_pair)
    else:
        tell_leader(ctx, asked)
    ctx.barriers.expect(arrived, ANSWER_BYTES)
    if leads:
        answer, barrier = ctx.smem.answer_smem(), ctx.barriers.address_of(arrived)
        launch_control.ask(answer, barrier, to_cluster=in_pair)


@cute.jit
def schedule(ctx: TmemContext) -> None:
    """Run the scheduler role: ask until no work is left. Nothing may be asked after that."""
    index, asked = Int32(0), Int32(0)
    let_ask_first(ctx)
    while index >= 0:
        ask_next(ctx, asked)
        index = next_work(ctx, asked)
        asked = asked + 1
