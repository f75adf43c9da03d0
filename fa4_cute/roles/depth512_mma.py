"""MMA role of the CTA pair (warp 8 of the leader): S = Q K' and O += P V, for both CTAs.

One elected lane issues; each instruction reads the same addresses in both CTAs and writes the rows
of each. The issue order is the plan's: with look-ahead, the scores of tile n + 1 come before P V of
tile n.

Edges: waits on ``KV full``, ``S consumed`` (scores in registers), ``PO_lo`` (P stored, O_lo
rescaled) and ``PO_hi``; commits ``KV empty``, ``S produced``, ``O_mma_lo`` and ``O_mma_hi`` in both
CTAs.
Source: ``modular-sm100-attention.md`` section 6.5.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32, cute

from ..device.math import mma as umma
from ..device.memory import tmem
from ..device.sync import pair
from ..operands.stale_values import clean_values, slot_chunks
from ..pipelines import RingState
from ..plan.barriers.pipeline_plan import BarrierArrive, BarrierWait, RolePipeline, StagedPipeline
from ..plan.compute.depth512_mma import pv_half_plan, qk_part_plan
from ..work.depth512 import ONLY_CHAIN, Depth512Context, odd_tile, round_phase
from ..work.persistent import for_each_work


@dataclass(frozen=True)
class PairIssuer:
    """The two accumulations with their operands; every method issues, none computes."""

    ctx: Depth512Context
    ring: StagedPipeline
    qk_instruction: Int32

    @classmethod
    def of(cls, ctx: Depth512Context) -> "PairIssuer":
        """Return the issuer of the pair."""
        bits = qk_part_plan(ctx.spec.config, 0).idesc
        instruction = umma.signed_instruction(bits, ctx.args.scale_log2)
        return cls(ctx, ctx.mbars.kv_ring, instruction)

    def scores(self, state: RingState, tile: Int32) -> RingState:
        """Issue S = Q K' of ``tile``, part by part as K arrives; commit ``S produced``.

        The buffer held the scores of two tiles before; the first use of each passes at once.
        """
        ctx, config, mbars = self.ctx, self.ctx.spec.config, self.ctx.mbars
        turn = ctx.loaded_before(tile)
        odd = odd_tile(turn)
        loaded = BarrierWait(mbars.S_even_consumer_offset + odd, round_phase(turn) ^ 1)
        ctx.barriers.wait(loaded)
        tmem.fence_after_thread_sync()
        accumulator = ctx.tmem + ctx.columns.s(0).start + odd * config.s_columns
        for part in range(config.num_qk_stages):
            plan = qk_part_plan(config, part)
            ctx.barriers.wait(self.ring.consumer_wait(state))
            a = umma.lower_word(plan.a, ctx.smem.q_smem(part))
            b = umma.lower_word(plan.b, ctx.smem.kv_smem(state.index))
            block = umma.block_of(plan)
            umma.issue(block, accumulator, a, b, self.qk_instruction, int(part > 0))
            state = self.release(state)
        ctx.barriers.arrive(BarrierArrive(mbars.S_even_producer_offset + odd, by_mma=True))
        return state

    def outputs(self, state: RingState, tile: Int32) -> RingState:
        """Issue O (+)= P V of ``tile``: all of it, or its low and then its high half."""
        barriers, mbars = self.ctx.barriers, self.ctx.mbars
        phase = self.ctx.step_parity(ONLY_CHAIN, tile)
        # P of the peer lies in memory that its threads wrote, hence the wait for both CTAs.
        barriers.wait_for_pair(BarrierWait(mbars.po_lo_mbar(), phase))
        state = self.output_part(state, tile, mbars.producer_o_lo(), 0)
        if self.ctx.spec.config.split_o:
            barriers.wait(BarrierWait(mbars.po_hi_mbar(), phase))
            state = self.output_part(state, tile, mbars.producer_o_hi(), 1)
        return state

    def output_part(
        self, state: RingState, tile: Int32, chain: RolePipeline, part: int
    ) -> RingState:
        """Issue both key halves of output ``part``, which may accumulate; commit."""
        ctx, config = self.ctx, self.ctx.spec.config
        tmem.fence_after_thread_sync()
        plan = pv_half_plan(config)
        accumulator = ctx.tmem + part * config.o_columns
        for half in range(config.num_pv_stages):
            ctx.barriers.wait(self.ring.consumer_wait(state))
            slot = ctx.smem.kv_smem(state.index)
            clean_values(ctx, tile, half * config.BK1, slot_chunks(ctx, slot))
            a = umma.lower_word(plan.a, ctx.smem.p_smem(half))
            b = umma.lower_word(plan.b, ctx.smem.kv_smem(state.index))
            accumulate = Int32(tile > 0) if half == 0 else 1
            umma.issue(umma.block_of(plan), accumulator, a, b, Int32(plan.idesc), accumulate)
            state = self.release(state)
        ctx.barriers.arrive(chain.commit_mma(chain.initial_state()))
        return state

    def release(self, state: RingState) -> RingState:
        """Free the slot once the MMAs issued so far have read it; return the next."""
        self.ctx.barriers.arrive(BarrierArrive(self.ring.consumer_mbar(state.index), by_mma=True))
        return state.step()


@cute.jit
def issue_work(ctx: Depth512Context):
    """Issue the MMAs of one query tile; the peer's warp has nothing to do."""
    issuer = PairIssuer.of(ctx)
    state = ctx.ring_start(producer=False)
    num_tiles = ctx.work.num_key_tiles
    if ctx.rank == pair.LEADER:
        for step in cutlass.range(0, ctx.num_steps, unroll=1):
            if step < num_tiles:
                state = issuer.scores(state, step)
            if step >= ctx.spec.value_lag:
                state = issuer.outputs(state, step - ctx.spec.value_lag)


def mma(ctx: Depth512Context) -> None:
    """Run the MMA role."""
    for_each_work(ctx, issue_work)
