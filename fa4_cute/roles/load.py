"""Load role (warp 13): Q once, then K and V tile by tile, all through TMA.

Edges: arms and fills ``K full``, ``V full`` and ``Q1Sync``; waits on ``K empty`` and ``V empty``.
Slots are filled in the order in which the MMA role consumes (``plan.issue_order``): with two Q
tiles K, then V of every key tile; with one, K of a tile before V of the tile before. The first Q
tile shares the barrier of the first K tile, because no MMA can start without either.
Source: ``modular-sm100-attention.md`` section 5.4.
"""

from dataclasses import replace

import cutlass
from cutlass import Int32, Int64, cute

from ..paging import load_boxes
from ..persistent import chains_of_query_tile, for_each_work, wait_until_stored
from ..pipelines import after_key, after_value, first_slots, next_slots
from ..plan.mbars import NUM_CHAINS
from ..plan.mma_plans import q_operand
from ..plan.tma_pipeline_plan import TMAProducerPipeline
from ..progress import Progress
from ..tma import load_key_chunks, load_query_chunks
from ..token_scales import extra_bytes, load_key_scales
from ..work import KernelContext


def producer_rings(ctx: KernelContext) -> tuple[TMAProducerPipeline, TMAProducerPipeline]:
    """Return the load side of the K ring and of the V ring (the same slots when fused)."""
    config, mbars = ctx.spec.config, ctx.spec.config.misc_mbars
    return (
        TMAProducerPipeline(config, True, mbars.K_offset, ctx.layout.k_smem_base()),
        TMAProducerPipeline(config, False, mbars.V_offset, ctx.layout.v_smem_base()),
    )


def depth_part(ctx: KernelContext, part: int) -> range:
    """Return the columns of depth part ``part`` of Q and K."""
    width = ctx.spec.config.BK0
    return range(part * width, (part + 1) * width)


def query_part_bytes(ctx: KernelContext) -> int:
    """Return the bytes of one depth part of one Q tile."""
    return q_operand(ctx.spec.config).bytes // ctx.spec.config.num_qk_stages


def load_query_part(ctx: KernelContext, half: int, part: int, mbar: Int32 | int) -> None:
    """Issue the boxes of depth part ``part`` of Q tile ``half``; the barrier is armed already."""
    work = ctx.work
    position = work.sequence.first_query + work.position + half * ctx.spec.tile_positions
    where = (position, work.head, work.sequence.query_batch)
    smem = ctx.smem + ctx.layout.q_tile_smem(half, part)
    address = ctx.barriers.address_of(mbar)
    load_query_chunks(ctx.spec, ctx.maps.q, where, depth_part(ctx, part), smem, address)


def load_rows(
    ctx: KernelContext, tensor_map: Int64, n: Int32, columns: range, smem: Int32, mbar: Int32 | int
) -> None:
    """Issue ``columns`` of the ``n``-th visited key tile of K or V; the barrier is armed."""
    config, address = ctx.spec.config, ctx.barriers.address_of(mbar)

    def load(row: Int32 | int, where: tuple) -> None:
        at = ctx.smem + smem + row * config.swizzle_mode.bytes
        load_key_chunks(ctx.spec, tensor_map, where, columns, at, address)

    load_boxes(ctx, ctx.work.key_tile(n) * config.BN, config.BN, load)


def key_part_bytes(ctx: KernelContext, ring: TMAProducerPipeline, part: int) -> int:
    """Return the bytes of one depth part of K; the first brings the scales of its keys along."""
    return ring.tile_bytes + (extra_bytes(ctx) if part == 0 else 0)


def load_key_tile(ctx: KernelContext, ring: TMAProducerPipeline, state, tile: Int32) -> None:
    """Fill one K slot, part by part; waits for each part to be free."""
    for part in range(ctx.spec.config.num_qk_stages):
        ctx.barriers.wait(ring.acquire(state, part))
        mbar, smem = ring.get_tile(state, part)
        ctx.barriers.expect(mbar, key_part_bytes(ctx, ring, part))
        if part == 0:
            load_key_scales(ctx, state.index, tile, ctx.barriers.address_of(mbar))
        load_rows(ctx, ctx.maps.k, tile, depth_part(ctx, part), smem, mbar)


def fill_value_slot(ctx: KernelContext, ring: TMAProducerPipeline, state, tile: Int32) -> None:
    """Issue the boxes of one V slot, which is free."""
    mbar, smem = ring.get_tile(state)
    ctx.barriers.expect(mbar, ring.tile_bytes)
    columns = range(ctx.spec.config.v_cols_per_cta())
    load_rows(ctx, ctx.maps.v, tile, columns, smem, mbar)


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
        mbar, smem = ring.get_tile(state, part)
        ctx.barriers.expect(mbar, query_part_bytes(ctx) + key_part_bytes(ctx, ring, part))
        if not again:
            load_query_part(ctx, 0, part, mbar)
        if part == 0:
            load_key_scales(ctx, state.index, Int32(0), ctx.barriers.address_of(mbar))
        load_rows(ctx, ctx.maps.k, Int32(0), depth_part(ctx, part), smem, mbar)
    if again:
        # Keys first: they need not wait for the output of the query tile before.
        wait_until_stored(ctx, chains_of_query_tile(ctx, 0))
        for part in parts:
            load_query_part(ctx, 0, part, ring.get_tile(state, part)[0])
        wait_until_stored(ctx, chains_of_query_tile(ctx, 1))
    for part in range(ctx.spec.config.misc_mbars.num_q1_sync):
        mbar = ctx.spec.config.misc_mbars.Q1Sync_offset + part
        ctx.barriers.expect(mbar, query_part_bytes(ctx))
        load_query_part(ctx, 1, part, mbar)


def load_first_values(ctx: KernelContext, ring: TMAProducerPipeline, state) -> None:
    """Fill the first V slot, which only a persistent CTA has used before."""
    if ctx.spec.variant.is_persistent:
        load_value_tile(ctx, ring, state, Int32(0))
    else:
        fill_value_slot(ctx, ring, state, Int32(0))


def drain(ctx: KernelContext, progress: Progress) -> None:
    """Wait until every slot has been read, so that no commit reaches a CTA that has ended."""
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
    if ctx.spec.variant.is_persistent:
        drain(ctx, progress)
