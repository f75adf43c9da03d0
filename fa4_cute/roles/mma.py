"""MMA role (warp 12): all four accumulations, issued by one elected lane in one fixed order.

Two Q tiles, per key tile n: S0 <- Q0 Kn', O1 += P1 Vn-1, S1 <- Q1 Kn', O0 += P0 Vn. Two MMAs
always lie between "S ready" and "P needed", so the softmax of one chain hides behind the MMAs of
the other. Where P of a chain lies in the columns of the other chain's S, these are three: S0 <- Q0
Kn', O0 += P0 Vn-1, S1 <- Q1 Kn', O1 += P1 Vn-1. Where the last key tile is hidden from Q0, its
step is S1 <- Q1 Kn', O0 += P0 Vn-1, O1 += P1 Vn-1. Where the first one is hidden from Q1 as well,
chain 1 leads by a key tile: S0 <- Q0 Kn', O0 += P0 Vn-1, S1 <- Q1 Kn+1', O1 += P1 Vn. Where query
tiles run on, the next one's first S0 comes in front of the last O1 += P1 V of this one. A single
Q tile alternates the chains from key tile to key tile: S_i <- Q Kn', O_j += P_j Vn-1 with i = n mod
2 and j the other chain (``plan.spec.issue_order``).

Edges: waits on ``K full``, ``Q1Sync``, ``V full`` and ``S_cons`` (P stored and O rescaled);
commits ``S_prod``, ``O_prod``, ``K empty`` and ``V empty``.

Why no wait before S_i is overwritten: P_i V was issued earlier by this thread, MMAs of one thread
execute in order, and P_i was complete only after the softmax had read all of S_i. Where P crosses,
that holds of P_j of the other chain, from the second tile on.
"""

from dataclasses import replace

import cutlass
from cutlass import Int32, cute

from ..device.sync import pair
from ..operands import lead
from ..operands.products import MmaIssuer
from ..pipelines import RingState, after_key, after_value, first_slots, next_slots
from ..plan.barriers.chains import NUM_CHAINS
from ..work.context import KernelContext
from ..work.pair import PairCtaContext
from ..work.persistent import for_each_work


@cute.jit
def issue_ahead(ctx: KernelContext) -> None:
    """Issue for two Q tiles whose P cross: S of a key tile before P V of the one before."""
    config, issuer, order = ctx.spec.config, MmaIssuer.of(ctx), ctx.order
    k = v = ctx.ring_start(producer=False)
    num_tiles = ctx.work.num_key_tiles
    if cutlass.const_expr(order.runs_on):
        if num_tiles > 0:
            issuer.first_chain(k, Int32(0), first=True)
        # Without key tiles, too: other roles may need it before they ask for the next query tile.
        issue_last_before(ctx)
    if num_tiles > 0:
        if cutlass.const_expr(not order.runs_on):
            issuer.first_chain(k, Int32(0))
        issuer.second_chain(k, Int32(0), wait_for_query=True)
        k, v = after_key(config, k, v)
        for tile in cutlass.range(1, num_tiles, unroll=1):
            if cutlass.const_expr(order.ends_early(0)):
                if tile < ctx.num_tiles(0):
                    issuer.first_chain(k, tile)
                else:
                    issuer.second_chain_alone(k, tile)
            else:
                issuer.first_chain(k, tile)
            key = k
            k, v = after_key(config, k, v)
            issuer.wait_values(v, tile - 1)
            issuer.outputs(0, v, Int32(tile > 1), tile - 1)
            lead.free(ctx, issuer.v_ring, v, 0)
            if cutlass.const_expr(order.ends_early(0)):
                if tile < ctx.num_tiles(0):
                    issuer.second_chain(key, tile)
            else:
                issuer.second_chain(key, tile)
            own = lead.values_of_second(ctx, v)
            if cutlass.const_expr(order.starts_apart):
                issuer.wait_values(own, tile)
            issuer.outputs(1, own, Int32(tile > 1), tile - 1)
            lead.free(ctx, issuer.v_ring, own, 1)
            k, v = after_value(config, k, v)
        lead.free_last_keys(ctx, issuer.k_ring, k)
        v = lead.last_values(ctx, v)
        issuer.wait_values(v, num_tiles - 1, last=True)
        for chain in cutlass.range_constexpr(NUM_CHAINS):
            if cutlass.const_expr(order.ends_early(chain)):
                if num_tiles == ctx.num_tiles(chain):
                    issue_last(issuer, chain, v, num_tiles)
            else:
                if cutlass.const_expr(order.starts_apart):
                    own = lead.values_of_second(ctx, v, last=True)
                    if ctx.work.lead > 0:
                        issuer.release_last_values(v)
                        issuer.wait_values(own, num_tiles, last=True)
                    v = own
                if cutlass.const_expr(not order.issues_later(chain)):
                    issue_last(issuer, chain, v, num_tiles)
        if cutlass.const_expr(not order.runs_on):
            if cutlass.const_expr(order.ends_apart and ctx.spec.variant.is_persistent):
                # Over at once: the last P of chain 1 came after it. No other role waits for its
                # end, and the next query tile goes on with the phase after it.
                ctx.mbars.scores_read(1).wait(ctx.step(1, num_tiles - 1))
            issuer.release_last_values(v)


def issue_last(issuer: MmaIssuer, chain: int, v: RingState, num_tiles: Int32) -> None:
    """Issue the last of ``num_tiles`` P V of ``chain``."""
    more, kept = Int32(num_tiles > 1), issuer.ctx.order.runs_on
    issuer.outputs(chain, v, more, num_tiles - 1, last=kept)


@cute.jit
def issue_last_before(ctx: KernelContext) -> None:
    """Issue the last P V of chain 1 of the query tile before, if that had key tiles.

    Its V lies in the slot before the first K of this one, and all its counts are one less.
    """
    num_tiles = ctx.progress.tiles_before
    if num_tiles > 0:
        issuer, slot = MmaIssuer.of(ctx), ctx.ring_start(producer=False).back()
        issuer.outputs(1, slot, Int32(num_tiles > 1), Int32(-1), last=True)
        issuer.release_last_values(slot)


@cute.jit
def issue_for_two_queries(ctx: KernelContext) -> None:
    """Issue for two Q tiles, each with ``num_key_tiles`` key tiles."""
    issuer = MmaIssuer.of(ctx)
    k, v = first_slots(ctx.spec.config, ctx.ring_start(producer=False))
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        issuer.first_chain(k, Int32(0))
        issuer.second_chain(k, Int32(0), wait_for_query=True)
        issuer.wait_values(v, Int32(0), last=True)
        issuer.outputs(0, v, 0, Int32(0))
        for tile in cutlass.range(1, num_tiles, unroll=1):
            next_k, next_v = next_slots(ctx.spec.config, k, v)
            issuer.first_chain(next_k, tile)
            issuer.outputs(1, v, Int32(tile > 1), tile - 1)
            issuer.v_ring.release_v(v)
            issuer.second_chain(next_k, tile)
            issuer.wait_values(next_v, tile, last=True)
            issuer.outputs(0, next_v, 1, tile)
            k, v = next_k, next_v
        issuer.outputs(1, v, Int32(num_tiles > 1), num_tiles - 1)
        issuer.release_last_values(v)


@cute.jit
def issue_for_pair(ctx: PairCtaContext) -> None:
    """Issue for both CTAs of a pair, from the leader; the peer's warp has nothing to do."""
    if ctx.rank == pair.LEADER:
        issue_for_two_queries(ctx)


@cute.jit
def issue_for_one_query(ctx: KernelContext) -> None:
    """Issue for a single Q tile, whose key tiles alternate between the chains.

    The loop takes two key tiles at a time, so that the chain of every MMA is static. The last V is
    not freed: nothing would wait for that, and the CTA could end before the commit arrives.
    """
    config, issuer = ctx.spec.config, MmaIssuer.of(ctx)
    k = v = ctx.ring_start(producer=False)
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        issuer.only_query(0, k, Int32(0), first=True)
        k, v = after_key(config, k, v)
        num_rounds = (num_tiles - 1) // NUM_CHAINS
        for n in cutlass.range(0, num_rounds, unroll=1):
            for chain in cutlass.range_constexpr(NUM_CHAINS):
                issuer.only_query(NUM_CHAINS - 1 - chain, k, NUM_CHAINS * n + chain + 1)
                k, v = after_key(config, k, v)
                issuer.only_outputs(chain, v, n)
                issuer.v_ring.release_v(v)
                k, v = after_value(config, k, v)
        if num_tiles % NUM_CHAINS == 0:
            issuer.only_query(1, k, num_tiles - 1)
            k, v = after_key(config, k, v)
            issuer.only_outputs(0, v, num_rounds)
            issuer.v_ring.release_v(v)
            k, v = after_value(config, k, v)
            issuer.only_outputs(1, v, num_rounds, last=True)
        else:
            issuer.only_outputs(0, v, num_rounds, last=True)
        issuer.release_last_values(v)


def issue_work(ctx: KernelContext) -> None:
    """Issue the MMAs of one query tile."""
    if ctx.spec.config.num_qo == 1:
        issue_for_one_query(ctx)
    elif isinstance(ctx, PairCtaContext):
        issue_for_pair(ctx)
    elif ctx.spec.config.crosses:
        issue_ahead(ctx)
    else:
        issue_for_two_queries(ctx)


def mma(ctx: KernelContext) -> None:
    """Run the MMA role."""
    progress = for_each_work(ctx, issue_work)
    if ctx.order.runs_on:
        issue_last_before(replace(ctx, progress=progress))
