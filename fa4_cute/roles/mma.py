"""MMA role (warp 12): all four accumulations, issued by one elected lane in one fixed order.

Two Q tiles, per key tile n: S0 <- Q0 Kn', O1 += P1 Vn-1, S1 <- Q1 Kn', O0 += P0 Vn. Two MMAs
always lie between "S ready" and "P needed", so the softmax of one chain hides behind the MMAs of
the other. Where P of a chain lies in the columns of the other chain's S, these are three: S0 <- Q0
Kn', O0 += P0 Vn-1, S1 <- Q1 Kn', O1 += P1 Vn-1. Where the last key tile is hidden from Q0, its
step is S1 <- Q1 Kn', O0 += P0 Vn-1, O1 += P1 Vn-1. Where the first one is hidden from Q1 as well,
chain 1 leads by a key tile: S0 <- Q0 Kn', O0 += P0 Vn-1, S1 <- Q1 Kn+1', O1 += P1 Vn. A single
Q tile alternates the chains from key tile to key tile: S_i <- Q Kn', O_j += P_j Vn-1 with i = n mod
2 and j the other chain (``plan.spec.issue_order``).

Edges: waits on ``K full``, ``Q1Sync``, ``V full`` and ``S_cons`` (P stored and O rescaled);
commits ``S_prod``, ``O_prod``, ``K empty`` and ``V empty``.

Why no wait before S_i is overwritten: P_i V was issued earlier by this thread, MMAs of one thread
execute in order, and P_i was complete only after the softmax had read all of S_i. Where P crosses,
that holds of P_j of the other chain, from the second tile on.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32, cute

from ..device.math import mma as umma
from ..device.memory import tmem
from ..device.sync import pair
from ..operands import lead
from ..operands.stale_values import clean_values, slot_chunks
from ..pipelines import (
    RingState,
    TMAConsumerPipeline,
    after_key,
    after_value,
    first_slots,
    next_slots,
)
from ..plan.barriers.mbars import NUM_CHAINS
from ..plan.compute.mma_plans import pv_plan, qk_plan, rope_plan
from ..plan.facts.umma import MmaPlan
from ..plan.memory.rings import TMAConsumerPlan
from ..work.context import KernelContext, place_of_p
from ..work.pair import PairCtaContext
from ..work.persistent import for_each_work


def consumer_rings(ctx: KernelContext) -> tuple[TMAConsumerPipeline, TMAConsumerPipeline]:
    """Return the MMA side of the K ring and of the V ring (the same slots when fused)."""
    config, smem, in_cluster = ctx.spec.config, ctx.smem.base, ctx.spec.variant.in_cluster
    k_plan, v_plan = TMAConsumerPlan(config, True), TMAConsumerPlan(config, False)
    return (
        TMAConsumerPipeline(ctx.barriers, k_plan, qk_plan(config).b, smem, in_cluster),
        TMAConsumerPipeline(ctx.barriers, v_plan, pv_plan(config).b, smem, in_cluster),
    )


@dataclass(frozen=True)
class MmaIssuer:
    """The two accumulations with their operands; every method issues, none computes."""

    ctx: KernelContext
    k_ring: TMAConsumerPipeline
    v_ring: TMAConsumerPipeline
    qk: MmaPlan
    pv: MmaPlan
    qk_instruction: Int32
    rope: MmaPlan | None
    rope_instruction: Int32 | None

    @classmethod
    def of(cls, ctx: KernelContext) -> "MmaIssuer":
        """Return the issuer of this CTA."""
        config = ctx.spec.config
        qk, rope, scale = qk_plan(config), rope_plan(config), ctx.args.scale_log2
        return cls(
            ctx,
            *consumer_rings(ctx),
            qk,
            pv_plan(config),
            umma.signed_instruction(qk.idesc, scale),
            rope,
            None if rope is None else umma.signed_instruction(rope.idesc, scale),
        )

    def scores(self, chain: int, qk_stage: int, k: RingState, tile: Int32) -> None:
        """Issue depth stage ``qk_stage`` of S = Q K' of ``chain``.

        ``tile`` is the number of the key tile in the slot ``k``: it tells where rope columns lie.
        """
        a = descriptor_q(self.ctx, self.ctx.spec.issue_order.query_tile(chain))
        b = self.k_ring.get_k(k)
        block = umma.block_of(self.qk, qk_stage)
        accumulator = self.ctx.tmem + self.ctx.columns.s(chain).start
        umma.issue(block, accumulator, a, b, self.qk_instruction, int(qk_stage > 0))
        if self.rope is not None:
            self.rope_scores(self.rope, chain, k, tile)

    def rope_scores(self, rope: MmaPlan, chain: int, k: RingState, tile: Int32) -> None:
        """Add the product of the rope columns to S of ``chain``."""
        ctx, smem = self.ctx, self.ctx.operand_smem
        query = smem.q_rope_tile_smem(ctx.spec.issue_order.query_tile(chain))
        a = umma.lower_word(rope.smem_a, query)
        key = smem.k_rope_smem(k.index, ctx.loaded_before(tile))
        b = umma.lower_word(rope.b, key)
        accumulator = ctx.tmem + ctx.columns.s(chain).start
        umma.issue(umma.block_of(rope), accumulator, a, b, self.rope_instruction, 1)

    def outputs(self, chain: int, v: RingState, accumulate: Int32 | int, n: Int32) -> None:
        """Issue O (+)= P V of ``chain``, each pv stage once its P is there.

        ``n`` is the number of the key tile among those of the chain.
        """
        ctx, hand_over = self.ctx, self.ctx.mbars.producer_o(chain)
        b = self.v_ring.get_v(v)
        a = ctx.tmem + place_of_p(ctx, chain, n)
        accumulator = ctx.tmem + ctx.columns.o(chain).start
        step = ctx.step(chain, n)
        for stage in range(self.pv.num_stages):
            hand_over.acquire(step, stage)
            tmem.fence_after_thread_sync()
            block = umma.block_of(self.pv, stage)
            first = accumulate if stage == 0 else 1
            umma.issue(block, accumulator, a, b, Int32(self.pv.idesc), first)
        hand_over.commit_mma()

    def first_chain(self, k: RingState, tile: Int32) -> None:
        """Issue S0, each qk stage once its K is there."""
        for stage in range(self.qk.num_stages):
            self.k_ring.wait_k(k, stage)
            self.scores(0, stage, k, tile)
            lead.free(self.ctx, self.k_ring, k, 0, stage)
        self.ctx.mbars.producer_s(0).commit_mma()

    def second_chain_alone(self, k: RingState, tile: Int32) -> None:
        """Issue the last S1 where chain 0 has no S: wait for K, and until the S1 before was read.

        No P lies there: the last one of chain 0 lies elsewhere (``AttentionTmem.last_p``).
        """
        for stage in range(self.qk.num_stages):
            self.k_ring.wait_k(k, stage)
        self.ctx.mbars.scores_read(1).wait(self.ctx.step(1, tile - 1))
        tmem.fence_after_thread_sync()
        self.second_chain(k, tile)

    def second_chain(self, k: RingState, tile: Int32, *, wait_for_query: bool = False) -> None:
        """Issue S1, after which K is free. K has arrived: S0 waited for it.

        Where chain 1 leads it reads the next K, for which it waits itself.
        """
        own = lead.keys_of_second(self.ctx, k, first=wait_for_query)
        for stage in range(self.qk.num_stages):
            if self.ctx.order.starts_apart:
                self.k_ring.wait_k(own, stage)
            if wait_for_query:
                self.ctx.mbars.q1_wait_mbar(stage).wait(self.ctx.query_step)
            self.scores(1, stage, own, lead.tile_of_second(self.ctx, tile))
            lead.free(self.ctx, self.k_ring, own, 1, stage)
        if wait_for_query and self.ctx.order.crosses:
            self.wait_for_first_reading()
        self.ctx.mbars.producer_s(1).commit_mma()

    def wait_for_first_reading(self) -> None:
        """Wait until the first S0 is in registers.

        The first P1 waits for the second reading of S0, and must not take the phase before the
        first for it. The second S0 follows no P V and overwrites the first one.
        """
        self.ctx.mbars.scores_read(0).wait(self.ctx.step(0, Int32(0)))
        tmem.fence_after_thread_sync()

    def only_query(self, chain: int, k: RingState, tile: Int32, *, first: bool = False) -> None:
        """Issue S of ``chain`` from the single Q tile; each qk stage of K is free after it.

        The ``first`` S of a query tile overwrites row values that the softmax groups of the query
        tile before exchanged there (``join_groups``), if they do. They had read them when they said
        "stored", and Q came after that. So the fence follows the wait for Q, which arrives with K.
        """
        follows_join = first and self.ctx.spec.variant.is_persistent
        follows_join = follows_join and not self.ctx.spec.config.joins_in_smem
        for stage in range(self.qk.num_stages):
            self.k_ring.wait_k(k, stage)
            if follows_join and stage == 0:
                tmem.fence_after_thread_sync()
            self.scores(chain, stage, k, tile)
            self.k_ring.release_k(k, stage)
        self.ctx.mbars.producer_s(chain).commit_mma()

    def only_outputs(self, chain: int, v: RingState, n: Int32, *, last: bool = False) -> None:
        """Wait for V and issue O of the ``n``-th key tile of ``chain``; ``last`` as for V."""
        self.wait_values(v, self.ctx.spec.issue_order.key_tile(chain, n), last=last)
        self.outputs(chain, v, Int32(n > 0), n)

    def wait_values(self, v: RingState, tile: Int32, *, last: bool = False) -> None:
        """Wait for the ``tile``-th V tile; if it can be the ``last``, zero rows nobody loaded.

        Key tiles are visited in ascending order, so no other tile reaches beyond the last key.
        """
        self.v_ring.wait_v(v)
        if last:
            slot = self.ctx.smem.at(self.v_ring.plan.get(v))
            clean_values(self.ctx, tile, 0, slot_chunks(self.ctx, slot))

    def release_last_values(self, v: RingState) -> None:
        """Free the last V slot of the query tile, if somebody waits for that."""
        if self.ctx.spec.drains_rings:
            self.v_ring.release_v(v)


def descriptor_q(ctx: KernelContext, query_tile: int) -> Int32:
    """Return the lower descriptor word of a Q tile; its qk stages follow one another."""
    start = ctx.operand_smem.q_tile_smem(query_tile)
    return umma.lower_word(qk_plan(ctx.spec.config).smem_a, start)


@cute.jit
def issue_ahead(ctx: KernelContext) -> None:
    """Issue for two Q tiles whose P cross: S of a key tile before P V of the one before."""
    config, issuer, order = ctx.spec.config, MmaIssuer.of(ctx), ctx.order
    k = v = ctx.ring_start(producer=False)
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
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
                    issuer.outputs(chain, v, Int32(num_tiles > 1), num_tiles - 1)
            else:
                if cutlass.const_expr(order.starts_apart):
                    own = lead.values_of_second(ctx, v, last=True)
                    if ctx.work.lead > 0:
                        issuer.release_last_values(v)
                        issuer.wait_values(own, num_tiles, last=True)
                    v = own
                issuer.outputs(chain, v, Int32(num_tiles > 1), num_tiles - 1)
        if cutlass.const_expr(order.ends_apart and ctx.spec.variant.is_persistent):
            # Over at once: the last P of chain 1 came after it. No other role waits for its end,
            # and the next query tile goes on with the phase after it.
            ctx.mbars.scores_read(1).wait(ctx.step(1, num_tiles - 1))
        issuer.release_last_values(v)


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
    for_each_work(ctx, issue_work)
