"""Load roles of the CTA pair (warp 9 of both CTAs): Q once, then K and V stage by stage, by TMA.

Each CTA loads its own slice of the operands: its rows of Q and K, its columns of V. The bytes of
both count on the leader's barriers, and only the leader expects them; the peer's may land first,
which leaves the count negative but the phase open. A ring slot is free in a CTA when the MMAs have
read it in both, because their commit arrives in both.

Over small pages V has a warp of its own: both run through the same slots in the same order, and
each fills what it loads.

Edges: expects (leader) and fills ``KV full``; waits on ``KV empty``, in a persistent pair on
``stored``, or ``Q_read`` where it is plain.
"""

from dataclasses import dataclass, replace
from functools import partial

import cutlass
from cutlass import Int32, cute

from ..operands.loads import (
    Share,
    key_slice,
    load_slice,
    place_of_query,
    value_slice,
    wait_for_ring_memory,
)
from ..operands.paging import TilePages, first_pages
from ..operands.token_scales import fill_scale_buffer
from ..pipelines import LoadPlace, RingState, TMAProducerPipeline
from ..plan.memory.chunks import depth_chunks
from ..plan.memory.rings import Ring
from ..tma import load_query_chunks
from ..work.depth512 import ONLY_CHAIN, Depth512Context
from ..work.dynamic import let_ask_ahead
from ..work.persistent import for_each_work, wait_until_stored
from ..work.progress import Progress


@dataclass(frozen=True)
class Depth512Loader:
    """Fills the slots of the ring, one qk stage of K or one key block of V each.

    Cursors are passed in and returned, past slots that another warp fills, too.
    """

    ctx: Depth512Context
    ring: TMAProducerPipeline
    share: Share = Share()

    @classmethod
    def of(cls, ctx: Depth512Context, share: Share = Share()) -> "Depth512Loader":
        """Return the loader of this CTA's warp."""
        ring = TMAProducerPipeline(ctx.barriers, Ring.of_depth512(ctx.spec.config))
        return cls(ctx, ring, share)

    def with_pages(self, pages: TilePages, tile: Int32) -> "Depth512Loader":
        """Return the loader of a key tile with these pages."""
        return replace(self, ctx=pages.known_to(self.ctx, tile))

    def query_stage(self, place: LoadPlace, qk_stage: int) -> None:
        """Issue qk stage ``qk_stage`` of this CTA's rows of Q; its bytes count as K's ``place``."""
        ctx = self.ctx
        mbar = ctx.barriers.in_leader(place.mbar)
        chunks, smem = depth_chunks(ctx.spec.config, qk_stage), ctx.smem.q_smem(qk_stage)
        load_query_chunks(ctx.spec, ctx.maps.q, place_of_query(ctx), chunks, smem, mbar)

    def past(self, state: RingState, slots: int) -> RingState:
        """Leave ``slots`` slots to another warp."""
        for _ in range(slots):
            state = state.step()
        return state

    def start(self, state: RingState) -> RingState:
        """Fill what a query tile begins with: the slots of the first K, and Q."""
        spec = self.ctx.spec
        if not self.share.keys:
            wait_for_ring_memory(self.ctx, (ONLY_CHAIN,))
            return self.past(state, spec.config.num_qk_stages)
        if spec.writes_rows:
            return self.first_keys_early(state)
        if spec.variant.is_persistent:
            return self.first_keys_again(state)
        return self.first_keys(state)

    def keys(self, state: RingState, tile: Int32) -> RingState:
        """Fill the slots of K of ``tile``."""
        if not self.share.keys:
            return self.past(state, self.ctx.spec.config.num_qk_stages)
        for qk_stage in range(self.ctx.spec.config.num_qk_stages):
            self.ring.acquire(state)
            place = self.ring.expect(state)
            load_slice(self.ctx, key_slice(self.ctx, qk_stage), tile, place)
            state = state.step()
        fill_scale_buffer(self.ctx, tile)
        return state

    def first_keys(self, state: RingState) -> RingState:
        """Fill the slots of the first K together with Q.

        No wait: nothing has been in these slots, and Q is loaded once.
        """
        for qk_stage in range(self.ctx.spec.config.num_qk_stages):
            place = self.ring.expect(state, more=self.ctx.smem.layout.q_stage_bytes)
            self.query_stage(place, qk_stage)
            load_slice(self.ctx, key_slice(self.ctx, qk_stage), Int32(0), place)
            state = state.step()
        fill_scale_buffer(self.ctx, Int32(0))
        return state

    def first_keys_again(self, state: RingState) -> RingState:
        """Fill the slots of the first K and load Q in a persistent CTA, which has used them before.

        Keys come first: they need not wait for the output of the query tile before, which is staged
        over Q.
        """
        ctx, first = self.ctx, state
        qk_stages = range(ctx.spec.config.num_qk_stages)
        wait_for_ring_memory(ctx, (ONLY_CHAIN,))
        for qk_stage in qk_stages:
            self.ring.acquire(state)
            place = self.ring.expect(state, more=ctx.smem.layout.q_stage_bytes)
            load_slice(ctx, key_slice(ctx, qk_stage), Int32(0), place)
            state = state.step()
        fill_scale_buffer(ctx, Int32(0))
        if not ctx.spec.layout_o_exceeds_q:
            wait_until_stored(ctx, (ONLY_CHAIN,))
        for qk_stage in qk_stages:
            self.query_stage(self.ring.get_tile(first), qk_stage)
            first = first.step()
        return state

    def first_keys_early(self, state: RingState) -> RingState:
        """Fill the slots of the first K and load Q in a persistent CTA whose O is staged nowhere.

        All scores of the query tile before are enough; its last softmax and P V are still to come.
        """
        ctx = self.ctx
        wait_for_query_memory(ctx)
        for qk_stage in range(ctx.spec.config.num_qk_stages):
            self.ring.acquire(state)
            place = self.ring.expect(state, more=ctx.smem.layout.q_stage_bytes)
            self.query_stage(place, qk_stage)
            load_slice(ctx, key_slice(ctx, qk_stage), Int32(0), place)
            state = state.step()
        fill_scale_buffer(ctx, Int32(0))
        return state

    def values(self, state: RingState, tile: Int32) -> RingState:
        """Fill the slots of V of ``tile``: per o block, its key blocks."""
        config = self.ctx.spec.config
        if not self.share.values:
            return self.past(state, config.value_slots)
        for o_block in range(config.num_o_blocks):
            for key_block in range(config.num_pv_stages):
                self.ring.acquire(state)
                place = self.ring.expect(state)
                piece = value_slice(self.ctx, key_block, config.v_column(0, o_block))
                load_slice(self.ctx, piece, tile, place)
                state = state.step()
        return state


@cute.jit
def wait_for_query_memory(ctx: Depth512Context) -> None:
    """Wait until all scores of the query tile before have read Q, over which nothing is staged."""
    before = ctx.progress.outputs_of(ONLY_CHAIN)
    if before > 0:
        ctx.mbars.query_read().wait(before - 1)


@cute.jit
def load_share(ctx: Depth512Context, share: cutlass.Constexpr[Share]) -> None:
    """Load the operands of one query tile, as far as they are of this warp's ``share``."""
    loader = Depth512Loader.of(ctx, share)
    state = ctx.ring_start(producer=True)
    num_tiles = ctx.work.num_key_tiles
    if cutlass.const_expr(share.keys):
        let_ask_ahead(ctx, Int32(0))
    if num_tiles > 0:
        before = pages = first_pages(ctx)
        state = loader.with_pages(pages, Int32(0)).start(state)
        for step in cutlass.range(0, ctx.num_steps, unroll=1):
            ahead = pages.after(ctx, step)
            if step > 0 and step < num_tiles:
                if cutlass.const_expr(share.keys):
                    let_ask_ahead(ctx, step)
                state = loader.with_pages(pages, step).keys(state, step)
            if step >= ctx.spec.value_lag:
                of_values = before if ctx.spec.value_lag else pages
                tile = step - ctx.spec.value_lag
                state = loader.with_pages(of_values, tile).values(state, tile)
            before, pages = pages, ahead
        if cutlass.const_expr(share.values and not ctx.spec.variant.is_persistent):
            loader.ring.drain(state)


def drain(ctx: Depth512Context, progress: Progress) -> None:
    """Wait, in a persistent pair, until every slot has been read; ``progress`` is what is loaded.

    The commits that say so are not waited for otherwise, and none may reach a CTA that has ended.
    The last one follows from the last ``O_mma`` only where signals keep their order.
    """
    if ctx.spec.variant.is_persistent:
        start = replace(ctx, progress=progress).ring_start(producer=True)
        Depth512Loader.of(ctx).ring.drain(start)


def load(ctx: Depth512Context) -> None:
    """Run the load role: one warp, one elected lane issues.

    At its end it waits until every slot has been read, and Q.
    """
    share = Share(values=not ctx.spec.loads_values_apart)
    progress = for_each_work(ctx, partial(load_share, share=share), loads=True)
    if share.values:
        drain(ctx, progress)
    if ctx.spec.writes_rows:
        wait_for_query_memory(replace(ctx, progress=progress))


def load_values_apart(ctx: Depth512Context) -> None:
    """Run the role that loads V where the load role does not.

    The last slots are V's, so it is this role that waits for all of them.
    """
    drain(ctx, for_each_work(ctx, partial(load_share, share=Share(keys=False))))
