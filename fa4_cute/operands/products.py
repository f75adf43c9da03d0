"""The products of the kernel with one or two Q tiles: S = Q K' and O += P V of either chain.

Each comes with its operands and what it waits for; the order is that of the MMA role.
"""

from dataclasses import dataclass

from cutlass import Int32, cute

from ..device.math import mma as umma
from ..device.memory import tmem
from ..pipelines import RingState, TMAConsumerPipeline
from ..plan.compute.mma_plans import pv_plan, qk_plan, rope_plan
from ..plan.facts.umma import MmaPlan
from ..plan.memory.rings import TMAConsumerPlan
from ..work.context import KernelContext, place_of_p
from . import lead
from .stale_values import clean_values, slot_chunks


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

    def outputs(
        self, chain: int, v: RingState, accumulate: Int32 | int, n: Int32, *, last: bool = False
    ) -> None:
        """Issue O (+)= P V of ``chain``, each pv stage once its P is there.

        ``n`` is the number of the key tile among those of the chain; ``last`` says that it is the
        last one and that its P lies in the chain's own S.
        """
        ctx, hand_over = self.ctx, self.ctx.mbars.producer_o(chain)
        b = self.v_ring.get_v(v)
        place = ctx.columns.last_p(chain).start if last else place_of_p(ctx, chain, n)
        a = ctx.tmem + place
        accumulator = ctx.tmem + ctx.columns.o(chain).start
        step = ctx.step(chain, n)
        for stage in range(self.pv.num_stages):
            hand_over.acquire(step, stage)
            tmem.fence_after_thread_sync()
            block = umma.block_of(self.pv, stage)
            first = accumulate if stage == 0 else 1
            umma.issue(block, accumulator, a, b, Int32(self.pv.idesc), first)
        hand_over.commit_mma()

    def first_chain(self, k: RingState, tile: Int32, *, first: bool = False) -> None:
        """Issue S0, each qk stage once its K is there; the ``first`` of a query tile may follow
        others."""
        for stage in range(self.qk.num_stages):
            self.k_ring.wait_k(k, stage)
            self.scores(0, stage, k, tile)
            lead.free(self.ctx, self.k_ring, k, 0, stage)
        if first and self.ctx.order.runs_on:
            self.wait_for_last_reading()
        self.ctx.mbars.producer_s(0).commit_mma()

    @cute.jit
    def wait_for_last_reading(self) -> None:
        """Wait until the last S1 of the query tile before is in registers.

        The first P0 waits for the reading of the next one, and must not take the phase before the
        last for it. The last P0 lies elsewhere and waits for none.
        """
        if self.ctx.progress.loaded > 0:
            self.ctx.mbars.scores_read(1).wait(self.ctx.step(1, Int32(-1)))

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
