"""Load role of the CTA pair (warp 9 of both CTAs): Q once, then K and V part by part, through TMA.

Each CTA loads its own operands: its rows of Q and K, its columns of V. The bytes of both count on
the leader's barriers, and only the leader announces them; the peer's may land first, which leaves
the count negative but the phase open. A ring slot is free in a CTA when the MMAs have read it in
both, because their commit arrives in both.

Edges: arms (leader) and fills ``KV full``; waits on ``KV empty``.
Source: ``modular-sm100-attention.md`` sections 6.2 and 6.4.
"""

from dataclasses import dataclass, replace

import cutlass
from cutlass import Int32, Int64, cute

from ..device.sync import pair
from ..operands.paging import load_boxes
from ..operands.token_scales import fill_scale_buffer
from ..pipelines import RingState
from ..plan.barriers.pipeline_plan import StagedPipelinePlan
from ..plan.config.depth512_config import DEPTH_PART
from ..plan.facts.hardware import CTA_GROUP
from ..plan.spec.tensor_maps import query_box
from ..tma import chunk_bytes, key_chunk_bytes
from ..work.depth512 import ONLY_CHAIN, Depth512Context
from ..work.persistent import for_each_work, wait_until_stored


@dataclass(frozen=True)
class PairLoader:
    """The load side of the ring; cursors are passed in and returned."""

    ctx: Depth512Context
    ring: StagedPipelinePlan

    def chunks(self, tensor_map: Int64, column, where: tuple, smem: Int32, size: int, mbar) -> None:
        """Load 128 columns from ``column`` on, one box per chunk, ``size`` bytes apart."""
        width = self.ctx.spec.config.swizzle_elems
        for i in range(DEPTH_PART // width):
            coordinates = (column + i * width, *where)
            pair.load_box_pair(tensor_map, coordinates, smem + i * size, mbar)

    def key_chunks(self, tensor_map: Int64, column, first: Int32, smem: Int32, mbar) -> None:
        """Load 128 columns of a slot's keys; ``first`` is its first key in the sequence."""
        size, span = key_chunk_bytes(self.ctx.spec), self.ctx.spec.config.swizzle_mode.bytes

        def load(row: Int32 | int, where: tuple) -> None:
            self.chunks(tensor_map, column, where, smem + row * span, size, mbar)

        load_boxes(self.ctx, first, self.ctx.spec.key_rows, load)

    def query_part(self, part: int, mbar: Int32) -> None:
        """Issue depth part ``part`` of this CTA's rows of Q."""
        ctx = self.ctx
        sequence = ctx.work.sequence
        position = sequence.first_query + ctx.work.position
        where = (0, position, ctx.work.head, sequence.query_batch)
        smem = ctx.smem + ctx.layout.q_smem(part)
        size = chunk_bytes(ctx.spec, query_box(ctx.spec))
        self.chunks(ctx.maps.q, part * DEPTH_PART, where, smem, size, mbar)

    def slot(self, state: RingState) -> tuple[Int32, Int32]:
        """Return the shared address of the slot and the leader's "slot arrived" barrier."""
        ctx = self.ctx
        smem = ctx.smem + ctx.layout.kv_smem(state.index)
        return smem, ctx.barriers.in_leader(self.ring.producer_mbar(state.index))

    def announce(self, state: RingState, num_bytes: int) -> None:
        """Leader: expect ``num_bytes`` from each CTA."""
        announce(self.ctx, self.ring.producer_mbar(state.index), CTA_GROUP * num_bytes)

    def keys(self, state: RingState, tile: Int32, *, with_query: bool = False) -> RingState:
        """Fill the slots of K of ``tile``.

        The first ones share their barriers with Q, and need no wait: nothing has been in them.
        Only a persistent CTA has used them before, and lets Q follow (:meth:`late_query`).
        """
        ctx, layout = self.ctx, self.ctx.layout
        key = ctx.work.key_tile(tile) * ctx.spec.config.BN
        key = key + ctx.rank * ctx.spec.config.k_rows_per_cta()
        again = ctx.spec.variant.is_persistent
        for part in range(ctx.spec.config.num_qk_stages):
            if again or not with_query:
                ctx.barriers.wait(self.ring.producer_acquire(state))
            smem, mbar = self.slot(state)
            query = layout.q_stage_bytes if with_query else 0
            self.announce(state, layout.kv_stage_bytes + query)
            if with_query and not again:
                self.query_part(part, mbar)
            self.key_chunks(ctx.maps.k, part * DEPTH_PART, key, smem, mbar)
            state = state.step()
        fill_scale_buffer(ctx, tile)
        return state

    def late_query(self, state: RingState) -> None:
        """Load Q once the output staged over the one before has been stored.

        ``state`` is the slot of the first part of K, whose barrier is armed; keys need not wait.
        """
        if not self.ctx.spec.layout_o_exceeds_q:
            # Where O is staged over the ring, the keys have waited already.
            wait_until_stored(self.ctx, (ONLY_CHAIN,))
        for part in range(self.ctx.spec.config.num_qk_stages):
            self.query_part(part, self.slot(state)[1])
            state = state.step()

    def values(self, state: RingState, tile: Int32) -> RingState:
        """Fill the slots of V of ``tile``: per output part, its two key halves."""
        ctx, config = self.ctx, self.ctx.spec.config
        for part in range(config.num_o_parts):
            column = config.v_column(0, part) + ctx.rank * config.v_cols_per_cta()
            for half in range(config.num_pv_stages):
                ctx.barriers.wait(self.ring.producer_acquire(state))
                smem, mbar = self.slot(state)
                self.announce(state, ctx.layout.kv_stage_bytes)
                key = ctx.work.key_tile(tile) * config.BN + half * config.BK1
                self.key_chunks(ctx.maps.v, column, key, smem, mbar)
                state = state.step()
        return state

    def drain(self, state: RingState) -> None:
        """Wait until every slot has been read.

        The commits that say so are not waited for otherwise, and none may reach a CTA that has
        ended. The last one follows from the last ``O_mma`` only where signals keep their order.
        """
        for _ in range(self.ring.num_kv_stages):
            self.ctx.barriers.wait(self.ring.producer_acquire(state))
            state = state.step()


@cute.jit
def announce(ctx: Depth512Context, mbar: Int32, num_bytes: cutlass.Constexpr[int]):
    """Announce ``num_bytes`` on the leader's barrier, in the leader only."""
    if ctx.rank == pair.LEADER:
        ctx.barriers.expect(mbar, num_bytes)


@cute.jit
def load_work(ctx: Depth512Context):
    """Load the operands of one query tile."""
    loader = PairLoader(ctx, ctx.mbars.layout.kv_ring)
    state = ctx.ring_start(producer=True)
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        if cutlass.const_expr(ctx.spec.layout_o_exceeds_q):
            # O is staged over slots of the ring too, so not even keys may come early.
            wait_until_stored(ctx, (ONLY_CHAIN,))
        first = state
        state = loader.keys(state, Int32(0), with_query=True)
        if cutlass.const_expr(ctx.spec.variant.is_persistent):
            loader.late_query(first)
        for step in cutlass.range(0, ctx.num_steps, unroll=1):
            if step > 0 and step < num_tiles:
                state = loader.keys(state, step)
            if step >= ctx.spec.value_lag:
                state = loader.values(state, step - ctx.spec.value_lag)
        if cutlass.const_expr(not ctx.spec.variant.is_persistent):
            loader.drain(state)


def load(ctx: Depth512Context) -> None:
    """Run the load role: one warp, one elected lane issues."""
    progress = for_each_work(ctx, load_work)
    if ctx.spec.variant.is_persistent:
        state = replace(ctx, progress=progress).ring_start(producer=True)
        PairLoader(ctx, ctx.mbars.layout.kv_ring).drain(state)
