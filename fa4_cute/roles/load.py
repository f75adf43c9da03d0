"""Load roles (warp 13, and one behind it): Q once, then K and V tile by tile, all through TMA.

Edges: expects and fills ``K full``, ``V full`` and ``Q1Sync``; waits on ``K empty``, ``V empty``.
Slots are filled in the order in which the MMA role consumes (``plan.spec.issue_order``): with two Q
tiles K, then V of every key tile; with one, or where P crosses, K of a tile before V of the tile
before. The first Q
tile shares the barrier of the first K tile, because no MMA can start without either.

Over small pages a tile has many boxes, and V a warp of its own: both run through the same slots in
the same order, and each fills what it loads.
"""

from dataclasses import replace
from functools import partial

import cutlass
from cutlass import Boolean, Int32, cute

from ..operands.lane_rows import KEYS, VALUES, copy_rows
from ..operands.loads import (
    Share,
    key_slice,
    load_slice,
    place_of_query,
    value_slice,
    wait_for_ring_memory,
)
from ..operands.paging import first_pages
from ..operands.token_scales import extra_bytes, fill_scale_buffer, load_key_scales
from ..pipelines import (
    LoadPlace,
    RingState,
    TMAProducerPipeline,
    after_key,
    after_value,
    first_slots,
    next_slots,
)
from ..plan.barriers.chains import NUM_CHAINS
from ..plan.compute.mma_plans import query_stage_bytes
from ..plan.masks.masks import is_zero
from ..plan.memory.chunks import depth_chunks, rope_chunks
from ..plan.memory.rings import Ring, slots_since_scores
from ..tma import load_query_chunks
from ..work.context import KernelContext
from ..work.dynamic import let_ask_ahead
from ..work.persistent import for_each_work, wait_until_stored
from ..work.progress import LeadProgress, Progress


def producer_rings(ctx: KernelContext) -> tuple[TMAProducerPipeline, TMAProducerPipeline]:
    """Return the load side of the K ring and of the V ring (the same slots when fused)."""
    return (
        TMAProducerPipeline(ctx.barriers, Ring.of_keys(ctx.spec.config)),
        TMAProducerPipeline(ctx.barriers, Ring.of_values(ctx.spec.config)),
    )


def load_query_stage(ctx: KernelContext, tile: int, qk_stage: int, mbar: Int32 | int) -> None:
    """Issue qk stage ``qk_stage`` of Q tile ``tile``, with its rope columns.

    ``mbar`` is the number of the barrier that counts the bytes, which expects them already.
    """
    config, where = ctx.spec.config, place_of_query(ctx, tile)
    address = ctx.barriers.in_leader(mbar)
    smem, chunks = ctx.smem.q_tile_smem(tile, qk_stage), depth_chunks(config, qk_stage)
    load_query_chunks(ctx.spec, ctx.maps.q, where, chunks, smem, address)
    if config.rope_depth():
        smem, chunks = ctx.smem.q_rope_tile_smem(tile), rope_chunks(config)
        load_query_chunks(ctx.spec, ctx.maps.q_rope, where, chunks, smem, address)


def load_second_query(ctx: KernelContext) -> None:
    """Load Q tile 1, if there is one; the MMAs of chain 1 wait for it on barriers of its own."""
    mbars = ctx.spec.config.misc_mbars
    for qk_stage in range(mbars.num_q1_sync):
        mbar = mbars.q1_wait_mbar(qk_stage)
        ctx.barriers.announce(mbar, query_stage_bytes(ctx.spec.config))
        load_query_stage(ctx, 1, qk_stage, mbar)


def expect_keys(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState, qk_stage: int, more: int = 0
) -> LoadPlace:
    """Expect one qk stage of K and ``more``; the first brings the scales of its keys along."""
    scales = extra_bytes(ctx) if qk_stage == 0 else 0
    return ring.expect(state, qk_stage, more=scales + more)


def load_key_stage(
    ctx: KernelContext, place: LoadPlace, slot: Int32, qk_stage: int, tile: Int32
) -> None:
    """Issue qk stage ``qk_stage`` of the ``tile``-th K to its ``place`` in slot ``slot``.

    Scales of keys come with the first stage, or after all of them where they have buffers of their
    own; rope columns come with the only one: their buffer needs no wait of its own
    (``AttentionSMemLayout.k_rope_byte_offset``).
    """
    config = ctx.spec.config
    if config.copies_by_lanes:
        copy_rows(ctx, KEYS, tile, place)
        return
    if qk_stage == 0 and not config.num_own_scale_bufs:
        load_key_scales(ctx, slot, tile, ctx.barriers.in_leader(place.mbar))
    piece = key_slice(ctx, qk_stage)
    load_slice(ctx, piece, tile, place)
    if config.rope_depth():
        rope = replace(piece, tensor_map=ctx.maps.k_rope, chunks=rope_chunks(config))
        rope = replace(rope, has_one_head=config.shared_rope)
        offset = ctx.smem.layout.k_rope_byte_offset(slot, ctx.loaded_before(tile))
        load_slice(ctx, rope, tile, replace(place, byte_offset=offset))


def load_key_tile(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState, tile: Int32
) -> None:
    """Fill one K slot, stage by stage; waits for each stage to be free."""
    for qk_stage in range(ctx.spec.config.num_qk_stages):
        ring.acquire(state, qk_stage)
        place = expect_keys(ctx, ring, state, qk_stage)
        load_key_stage(ctx, place, state.index, qk_stage, tile)
    fill_scale_buffer(ctx, tile)


def load_value_tile(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState, tile: Int32
) -> None:
    """Fill one V slot; waits for it to be free."""
    ring.acquire(state)
    fill_value_slot(ctx, ring, state, tile)


def fill_value_slot(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState, tile: Int32
) -> None:
    """Fill one V slot, which is free."""
    place = ring.expect(state)
    if ctx.spec.config.copies_by_lanes:
        copy_rows(ctx, VALUES, tile, place)
    else:
        load_slice(ctx, value_slice(ctx), tile, place)


def load_first_tiles(ctx: KernelContext, ring: TMAProducerPipeline, state: RingState) -> None:
    """Fill K slot 0 together with Q tile 0, then Q tile 1 if there is one.

    No wait, here or for the first V: nothing has been in these slots, and Q is loaded once.
    """
    for qk_stage in range(ctx.spec.config.num_qk_stages):
        place = expect_keys(ctx, ring, state, qk_stage, query_stage_bytes(ctx.spec.config))
        load_query_stage(ctx, 0, qk_stage, place.mbar)
        load_key_stage(ctx, place, state.index, qk_stage, Int32(0))
    fill_scale_buffer(ctx, Int32(0))
    load_second_query(ctx)


def wait_for_query_memory(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState, tile: int
) -> None:
    """Wait until Q tile ``tile`` of a persistent CTA may be overwritten; K comes to slot ``state``.

    O is staged there, unless it is written row by row: then all scores of the query tile before are
    enough, and its last softmax and P V are still to come. A slot is waited for that is free after
    them, and not the barriers of S, of which the load role may be several phases ahead.
    """
    if not ctx.spec.writes_rows:
        wait_until_stored(ctx, ctx.order.chains_of(tile))
    elif tile == 0:
        slot = slot_after_scores(ctx, ring, state, 0)
        far = has_far_slot(ctx.progress)
        if far is not None:
            # After one without key tiles the later slot is waited for: a wait too long, if any.
            slot = slot_after_scores(ctx, ring, state, 1).or_else(far, slot)
        for qk_stage in range(ring.ring.num_qk_stages):
            ring.acquire(slot, qk_stage)


def has_far_slot(progress: Progress) -> Boolean | None:
    """Return whether the slot of the last K of the query tile before says so; None: it never does.

    It does where chain 1 led, and where query tiles run on and it had more than one key tile.
    """
    led = progress.last_lead if isinstance(progress, LeadProgress) else 0
    if progress.latest is None:
        return None if is_zero(led) else led > 0
    return progress.latest + led > 1


def slot_after_scores(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState, lead: int
) -> RingState:
    """Return the slot that was free after all scores of a query tile, in the round of ``state``.

    ``state`` is the slot of the first K after that query tile, ``lead`` that of its chain 1.
    """
    for _ in range(ring.ring.num_slots - slots_since_scores(ctx.spec.config, lead)):
        state = state.step()
    return state


def load_first_tiles_again(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState
) -> None:
    """Fill K slot 0 and load Q in a persistent CTA, which has used their memory before.

    Keys come first: they need not wait for the output of the query tile before, which is staged
    over Q.
    """
    qk_stages = range(ctx.spec.config.num_qk_stages)
    wait_for_ring_memory(ctx, range(NUM_CHAINS))
    for qk_stage in qk_stages:
        ring.acquire(state, qk_stage)
        place = expect_keys(ctx, ring, state, qk_stage, query_stage_bytes(ctx.spec.config))
        load_key_stage(ctx, place, state.index, qk_stage, Int32(0))
    fill_scale_buffer(ctx, Int32(0))
    wait_for_query_memory(ctx, ring, state, 0)
    for qk_stage in qk_stages:
        load_query_stage(ctx, 0, qk_stage, ring.get_tile(state, qk_stage).mbar)
    wait_for_query_memory(ctx, ring, state, 1)
    load_second_query(ctx)


def drain(ctx: KernelContext, progress: Progress) -> None:
    """Wait until every slot has been read, so that no commit reaches a CTA that has ended.

    ``progress`` is what the CTA has loaded. That all commits precede the last ``O_prod``, for which
    the softmax waits, holds only where signals keep their order.
    """
    keys, values = producer_rings(ctx)
    state = replace(ctx, progress=progress).ring_start(producer=True)
    for _ in range(keys.ring.num_slots):
        for qk_stage in range(keys.ring.num_qk_stages):
            keys.acquire(state, qk_stage)
        if not ctx.spec.config.use_fused_kv:
            values.acquire(state)
        state = state.step()


def load_start(
    ctx: KernelContext, ring: TMAProducerPipeline, state: RingState, share: Share
) -> None:
    """Load what a query tile begins with: K slot 0 and Q, where they are of this warp's ``share``.
    """
    if not share.keys:
        wait_for_ring_memory(ctx, range(NUM_CHAINS))
    elif ctx.spec.variant.is_persistent:
        load_first_tiles_again(ctx, ring, state)
    else:
        load_first_tiles(ctx, ring, state)


@cute.jit
def load_for_two_queries(ctx: KernelContext, share: cutlass.Constexpr[Share]) -> None:
    """Load for two Q tiles per CTA."""
    k_ring, v_ring = producer_rings(ctx)
    k, v = first_slots(ctx.spec.config, ctx.ring_start(producer=True))
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        first = first_pages(ctx)
        here, pages = first.known_to(ctx, Int32(0)), first.after(ctx, Int32(0))
        load_start(here, k_ring, k, share)
        if cutlass.const_expr(not share.values):
            pass
        elif cutlass.const_expr(ctx.spec.variant.is_persistent):
            load_value_tile(here, v_ring, v, Int32(0))
        else:
            fill_value_slot(here, v_ring, v, Int32(0))
        for tile in cutlass.range(1, num_tiles, unroll=1):
            k, v = next_slots(ctx.spec.config, k, v)
            if cutlass.const_expr(share.keys):
                let_ask_ahead(ctx, tile)
            ahead, this = pages.after(ctx, tile), pages.known_to(ctx, tile)
            if cutlass.const_expr(share.keys):
                load_key_tile(this, k_ring, k, tile)
            if cutlass.const_expr(share.values):
                load_value_tile(this, v_ring, v, tile)
            pages = ahead


@cute.jit
def load_keys_ahead(ctx: KernelContext, share: cutlass.Constexpr[Share]) -> None:
    """Load for a single Q tile, or where P crosses: V follows K one key tile later."""
    config = ctx.spec.config
    k_ring, v_ring = producer_rings(ctx)
    k = v = ctx.ring_start(producer=True)
    num_tiles = ctx.work.num_loaded
    if num_tiles > 0:
        before = first_pages(ctx)
        pages = before.after(ctx, Int32(0))
        load_start(before.known_to(ctx, Int32(0)), k_ring, k, share)
        k, v = after_key(config, k, v)
        for tile in cutlass.range(1, num_tiles, unroll=1):
            if cutlass.const_expr(share.keys):
                let_ask_ahead(ctx, tile)
            ahead = pages.after(ctx, tile)
            if cutlass.const_expr(share.keys):
                load_key_tile(pages.known_to(ctx, tile), k_ring, k, tile)
            k, v = after_key(config, k, v)
            if cutlass.const_expr(share.values):
                load_value_tile(before.known_to(ctx, tile - 1), v_ring, v, tile - 1)
            k, v = after_value(config, k, v)
            before, pages = pages, ahead
        if cutlass.const_expr(share.values):
            last = num_tiles - 1
            load_value_tile(before.known_to(ctx, last), v_ring, v, last)


def load_share(ctx: KernelContext, share: Share) -> None:
    """Load the operands of one query tile, as far as they are of this warp's ``share``."""
    if share.keys:
        let_ask_ahead(ctx, Int32(0))
    if ctx.spec.issue_order.keys_ahead:
        load_keys_ahead(ctx, share)
    else:
        load_for_two_queries(ctx, share)


def load(ctx: KernelContext) -> None:
    """Run the load role: one warp, one elected lane issues."""
    share = Share(values=not ctx.spec.loads_values_apart)
    progress = for_each_work(ctx, partial(load_share, share=share), loads=True)
    if share.values and ctx.spec.drains_rings:
        drain(ctx, progress)


def load_values_apart(ctx: KernelContext) -> None:
    """Run the role that loads V where the load role does not.

    The last slots are V's, so it is this role that waits for all of them.
    """
    progress = for_each_work(ctx, partial(load_share, share=Share(keys=False)))
    if ctx.spec.drains_rings:
        drain(ctx, progress)
