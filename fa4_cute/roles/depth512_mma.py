"""MMA role of the CTA pair (warp 8 of the leader): S = Q K' and O += P V, for both CTAs.

One elected lane issues; each instruction reads the same addresses in both CTAs and writes the rows
of each. The issue order is the plan's: with look-ahead, the scores of tile n + 1 come before P V of
tile n.

Edges: waits on ``KV full``, ``S consumed`` (scores in registers), ``PO_lo`` (P stored, O_lo
rescaled) and ``PO_hi``; commits ``KV empty``, ``S produced``, ``O_mma_lo`` and ``O_mma_hi`` in both
CTAs, and ``Q_read`` after the last scores of a query tile where the load role waits for it.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32, cute

from ..device.math import mma as umma
from ..device.memory import tmem
from ..device.sync import pair
from ..operands.stale_values import clean_values, slot_chunks
from ..pipelines import RingState, StagedPipeline
from ..plan.compute.depth512_mma import pv_block_plan, qk_stage_plan
from ..work.depth512 import ONLY_CHAIN, Depth512Context
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
        bits = qk_stage_plan(ctx.spec.config, 0).idesc
        instruction = umma.signed_instruction(bits, ctx.args.scale_log2)
        return cls(ctx, ctx.mbars.get_kv_mbars(), instruction)

    def scores(self, state: RingState, tile: Int32) -> RingState:
        """Issue S = Q K' of ``tile``, each qk stage once its K is there.

        The buffer held the scores of two tiles before; the first use of each passes at once.
        """
        ctx, config, hand_over = self.ctx, self.ctx.spec.config, self.ctx.mbars.producer_s()
        step = ctx.loaded_before(tile)
        hand_over.acquire(step)
        tmem.fence_after_thread_sync()
        accumulator = ctx.tmem + ctx.columns.s(0).start + hand_over.stage(step) * config.s_columns
        for stage in range(config.num_qk_stages):
            plan = qk_stage_plan(config, stage)
            self.ring.consumer_wait(state)
            a = umma.lower_word(plan.smem_a, ctx.smem.q_smem(stage))
            b = umma.lower_word(plan.b, ctx.smem.kv_smem(state.index))
            block = umma.block_of(plan)
            umma.issue(block, accumulator, a, b, self.qk_instruction, int(stage > 0))
            self.ring.consumer_release(state)
            state = state.step()
        hand_over.commit_mma(step)
        return state

    def outputs(self, state: RingState, tile: Int32) -> RingState:
        """Issue O (+)= P V of ``tile``: all of it, or its low and then its high block."""
        mbars, step = self.ctx.mbars, self.ctx.step(ONLY_CHAIN, tile)
        # P of the peer may lie in memory that its threads wrote, hence the wait for both CTAs.
        mbars.producer_o_lo().acquire(step, of_pair=not self.ctx.spec.config.p_in_tmem)
        state = self.output_block(state, tile, 0)
        if self.ctx.spec.config.split_o:
            mbars.producer_o_hi().acquire(step)
            state = self.output_block(state, tile, 1)
        return state

    def probabilities(self, tile: Int32, key_block: int) -> Int32:
        """Return where P V reads a key block of P: in the columns of S, or in shared memory."""
        ctx, config = self.ctx, self.ctx.spec.config
        if config.p_in_tmem:
            buffer = ctx.mbars.producer_s().stage(ctx.loaded_before(tile)) * config.s_columns
            return ctx.tmem + ctx.columns.s(0).start + buffer + config.p_column(key_block)
        return umma.lower_word(pv_block_plan(config).smem_a, ctx.smem.p_smem(key_block))

    def output_block(self, state: RingState, tile: Int32, o_block: int) -> RingState:
        """Issue both key blocks of ``o_block``, which may accumulate; commit."""
        ctx, config = self.ctx, self.ctx.spec.config
        tmem.fence_after_thread_sync()
        accumulator = ctx.tmem + o_block * config.o_columns
        for key_block in range(config.num_pv_stages):
            plan = pv_block_plan(config, key_block)
            self.ring.consumer_wait(state)
            slot = ctx.smem.kv_smem(state.index)
            clean_values(ctx, tile, key_block * config.BK1, slot_chunks(ctx, slot))
            a = self.probabilities(tile, key_block)
            b = umma.lower_word(plan.b, ctx.smem.kv_smem(state.index))
            first = key_block == 0 or config.row_copies > 1
            accumulate = Int32(tile > 0) if first else 1
            umma.issue(umma.block_of(plan), accumulator, a, b, Int32(plan.idesc), accumulate)
            self.ring.consumer_release(state)
            state = state.step()
        ctx.mbars.producer_o(o_block).commit_mma()
        return state


@cute.jit
def issue_work(ctx: Depth512Context) -> None:
    """Issue the MMAs of one query tile; the peer's warp has nothing to do."""
    issuer = PairIssuer.of(ctx)
    state = ctx.ring_start(producer=False)
    num_tiles = ctx.work.num_key_tiles
    if ctx.rank == pair.LEADER:
        for step in cutlass.range(0, ctx.num_steps, unroll=1):
            if step < num_tiles:
                state = issuer.scores(state, step)
                if cutlass.const_expr(ctx.spec.writes_rows):
                    if step == num_tiles - 1:
                        ctx.mbars.query_read().commit_mma()
            if step >= ctx.spec.value_lag:
                state = issuer.outputs(state, step - ctx.spec.value_lag)


def mma(ctx: Depth512Context) -> None:
    """Run the MMA role."""
    for_each_work(ctx, issue_work)
