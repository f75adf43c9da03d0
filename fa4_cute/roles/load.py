"""Load role (warp 13): Q once, then K and V tile by tile, all through TMA.

Edges: arms and fills ``K full``, ``V full`` and ``Q1Sync``; waits on ``K empty`` and ``V empty``.
Slots are filled in the order in which the MMA role consumes (``plan.spec.issue_order``): with two Q
tiles K, then V of every key tile; with one, K of a tile before V of the tile before. The first Q
tile shares the barrier of the first K tile, because no MMA can start without either.
Source: ``modular-sm100-attention.md`` section 5.4.
"""

from dataclasses import replace

import cutlass
from cutlass import Int32, cute

from ..operands.paging import load_boxes
from ..operands.token_scales import extra_bytes, fill_scale_buffer, load_key_scales
from ..pipelines import after_key, after_value, first_slots, next_slots
from ..plan.barriers.mbars import NUM_CHAINS
from ..plan.compute.mma_plans import query_part_bytes
from ..plan.memory.chunks import depth_chunks, rope_chunks, value_chunks
from ..plan.memory.rings import TMAProducerPipeline
from ..tma import KeySide, load_key_chunks, load_query_chunks
from ..work.context import KernelContext
from ..work.persistent import for_each_work, wait_until_stored
from ..work.progress import Progress


def producer_rings(ctx: KernelContext) -> tuple[TMAProducerPipeline, TMAProducerPipeline]:
    """Return the load side of the K ring and of the V ring (the same slots when fused)."""
    config, mbars = ctx.spec.config, ctx.spec.config.misc_mbars
    return (
        TMAProducerPipeline(config, True, mbars.K_offset, ctx.layout.k_smem_base()),
        TMAProducerPipeline(config, False, mbars.V_offset, ctx.layout.v_smem_base()),
    )


def load_query_part(ctx: KernelContext, half: int, part: int, mbar: Int32 | int) -> None:
    """Issue depth part ``part`` of Q tile ``half``, with its rope columns; the barrier is armed."""
    work, spec = ctx.work, ctx.spec
    position = work.sequence.first_query + work.position + half * spec.tile_positions
    where = (position, work.head, work.sequence.query_batch)
    address = ctx.barriers.in_leader(mbar)
    smem = ctx.smem + ctx.layout.q_tile_smem(half, part)
    chunks = depth_chunks(spec.config, part)
    load_query_chunks(spec, ctx.maps.q, where, chunks, smem, address)
    if spec.config.rope_depth():
        smem = ctx.smem + ctx.layout.q_rope_tile_smem(half)
        load_query_chunks(spec, ctx.maps.q_rope, where, rope_chunks(spec.config), smem, address)


def load_rows(ctx: KernelContext, side: KeySide, n: Int32, smem: Int32, mbar: Int32 | int) -> None:
    """Issue ``side`` of the ``n``-th visited key tile of K or V; the barrier is armed."""
    config, address = ctx.spec.config, ctx.barriers.in_leader(mbar)

    def load(row: Int32 | int, where: tuple) -> None:
        at = ctx.smem + smem + row * side.chunks.row_bytes
        load_key_chunks(ctx.spec, side, where, at, address)

    first = ctx.work.key_tile(n) * config.BN + side.first_row
    load_boxes(ctx, first, side.rows, load)


def load_key_part(ctx: KernelContext, place: tuple, state, part: int, tile: Int32) -> None:
    """Issue depth part ``part`` of the ``tile``-th K; its barrier is armed.

    Scales of keys come with the first part, or behind all of them where they have buffers of their
    own; rope columns come with the only one: their buffer needs no wait of its own
    (``SM100AttentionSMem.k_rope_smem``). ``place`` is the part's barrier and shared-memory offset
    in the ring's slot ``state``.
    """
    config, maps = ctx.spec.config, ctx.maps
    rows = config.k_rows_per_cta()
    first = ctx.slice_start(rows)
    mbar, smem = place
    if part == 0 and not config.num_own_scale_bufs:
        load_key_scales(ctx, state.index, tile, ctx.barriers.in_leader(mbar))
    load_rows(ctx, KeySide(maps.k, depth_chunks(config, part), rows, first), tile, smem, mbar)
    if config.rope_depth():
        smem = ctx.layout.k_rope_smem(state.index, ctx.loaded_before(tile))
        side = KeySide(maps.k_rope, rope_chunks(config), rows, first)
        side = replace(side, has_one_head=config.shared_rope)
        load_rows(ctx, side, tile, smem, mbar)


def key_part_bytes(ctx: KernelContext, ring: TMAProducerPipeline, part: int) -> int:
    """Return the bytes of one depth part of K; the first brings the scales of its keys along."""
    return ring.tile_bytes + (extra_bytes(ctx) if part == 0 else 0)


def load_key_tile(ctx: KernelContext, ring: TMAProducerPipeline, state, tile: Int32) -> None:
    """Fill one K slot, part by part; waits for each part to be free."""
    for part in range(ctx.spec.config.num_qk_stages):
        ctx.barriers.wait(ring.acquire(state, part))
        place = ring.get_tile(state, part)
        ctx.barriers.announce(place[0], key_part_bytes(ctx, ring, part))
        load_key_part(ctx, place, state, part, tile)
    fill_scale_buffer(ctx, tile)


def fill_value_slot(ctx: KernelContext, ring: TMAProducerPipeline, state, tile: Int32) -> None:
    """Issue the boxes of one V slot, which is free."""
    mbar, smem = ring.get_tile(state)
    ctx.barriers.announce(mbar, ring.tile_bytes)
    config = ctx.spec.config
    column = ctx.slice_start(config.v_cols_per_cta())
    side = KeySide(ctx.maps.v, value_chunks(config), config.BN, first_column=column)
    load_rows(ctx, side, tile, smem, mbar)


def load_value_tile(ctx: KernelContext, ring: TMAProducerPipeline, state, tile: Int32) -> None:
    """Fill one V slot; waits for it to be free."""
    ctx.barriers.wait(ring.acquire(state, 0))
    fill_value_slot(ctx, ring, state, tile)


def load_first_tiles(ctx: KernelContext, ring: TMAProducerPipeline, state) -> None:
    """Fill K slot 0 together with Q tile 0, then Q tile 1 if there is one.

    No wait, here or for the first V: nothing has been in these slots, and Q is loaded once. Only a
    persistent CTA has used all of them before.
    """
    again = ctx.spec.variant.is_persistent
    parts = range(ctx.spec.config.num_qk_stages)
    if ctx.spec.layout_o_exceeds_q:
        # O is staged over slots of the ring too, so not even keys may come early.
        wait_until_stored(ctx, range(NUM_CHAINS))
    for part in parts:
        if again:
            ctx.barriers.wait(ring.acquire(state, part))
        place = ring.get_tile(state, part)
        num_bytes = query_part_bytes(ctx.spec.config) + key_part_bytes(ctx, ring, part)
        ctx.barriers.announce(place[0], num_bytes)
        if not again:
            load_query_part(ctx, 0, part, place[0])
        load_key_part(ctx, place, state, part, Int32(0))
    fill_scale_buffer(ctx, Int32(0))
    if again:
        # Keys first: they need not wait for the output of the query tile before.
        wait_until_stored(ctx, ctx.order.chains_of(0))
        for part in parts:
            load_query_part(ctx, 0, part, ring.get_tile(state, part)[0])
        wait_until_stored(ctx, ctx.order.chains_of(1))
    for part in range(ctx.spec.config.misc_mbars.num_q1_sync):
        mbar = ctx.spec.config.misc_mbars.Q1Sync_offset + part
        ctx.barriers.announce(mbar, query_part_bytes(ctx.spec.config))
        load_query_part(ctx, 1, part, mbar)


def load_first_values(ctx: KernelContext, ring: TMAProducerPipeline, state) -> None:
    """Fill the first V slot, which only a persistent CTA has used before."""
    if ctx.spec.variant.is_persistent:
        load_value_tile(ctx, ring, state, Int32(0))
    else:
        fill_value_slot(ctx, ring, state, Int32(0))


def drain(ctx: KernelContext, progress: Progress) -> None:
    """Wait until every slot has been read, so that no commit reaches a CTA that has ended.

    ``progress`` is what the CTA has loaded. That all commits precede the last ``O_prod``, for which
    the softmax waits, holds only where signals keep their order.
    """
    k_ring, v_ring = producer_rings(ctx)
    state = replace(ctx, progress=progress).ring_start(producer=True)
    for _ in range(ctx.spec.config.num_kv_stages):
        for part in range(ctx.spec.config.num_qk_stages):
            ctx.barriers.wait(k_ring.acquire(state, part))
        if not ctx.spec.config.use_fused_kv:
            ctx.barriers.wait(v_ring.acquire(state, 0))
        state = state.step()


@cute.jit
def load_for_two_queries(ctx: KernelContext):
    """Load for two Q tiles per CTA."""
    k_ring, v_ring = producer_rings(ctx)
    k, v = first_slots(ctx.spec.config, ctx.ring_start(producer=True))
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        load_first_tiles(ctx, k_ring, k)
        load_first_values(ctx, v_ring, v)
        for tile in cutlass.range(1, num_tiles, unroll=1):
            k, v = next_slots(ctx.spec.config, k, v)
            load_key_tile(ctx, k_ring, k, tile)
            load_value_tile(ctx, v_ring, v, tile)


@cute.jit
def load_for_one_query(ctx: KernelContext):
    """Load for a single Q tile: V follows one key tile behind K."""
    config = ctx.spec.config
    k_ring, v_ring = producer_rings(ctx)
    k = v = ctx.ring_start(producer=True)
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        load_first_tiles(ctx, k_ring, k)
        k, v = after_key(config, k, v)
        for tile in cutlass.range(1, num_tiles, unroll=1):
            load_key_tile(ctx, k_ring, k, tile)
            k, v = after_key(config, k, v)
            load_value_tile(ctx, v_ring, v, tile - 1)
            k, v = after_value(config, k, v)
        load_value_tile(ctx, v_ring, v, num_tiles - 1)


def load_work(ctx: KernelContext) -> None:
    """Load the operands of one query tile."""
    if ctx.spec.config.num_qo == 1:
        load_for_one_query(ctx)
    else:
        load_for_two_queries(ctx)


def load(ctx: KernelContext) -> None:
    """Run the load role: one warp, one elected lane issues."""
    progress = for_each_work(ctx, load_work)
    if ctx.spec.drains_rings:
        drain(ctx, progress)
