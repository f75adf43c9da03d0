"""Load roles of the Hopper kernel: the Q tile of every consumer, then K and V through TMA.

Edges: expects and fills ``Q_full``, ``K_full`` and ``V_full``; waits on ``K_empty`` and
``V_empty``. Where V is transposed these of V are ``raw_full`` and ``raw_empty``. A tile's K is
filled before the V of the tile before: so the consumers multiply. Over pages V has a warp of its
own, for one is kept by the boxes of both.
"""

import cutlass
from cutlass import Int32, cute

from ..operands.loads import key_slice, load_slice, value_slice
from ..operands.token_scales import extra_bytes, load_key_scales
from ..pipelines import RingState, TMAProducerPipeline
from ..plan.memory.chunks import depth_chunks
from ..plan.memory.rings import Ring
from ..tma import load_query_chunks
from ..work.persistent import for_each_work, wait_until_stored
from ..work.sm90 import SM90Context, place_of_rows


def load_queries(ctx: SM90Context) -> None:
    """Load the Q tile of every consumer; a persistent CTA once the O before has left its memory."""
    config, chunks = ctx.spec.config, depth_chunks(ctx.spec.config, 0)
    for consumer in range(config.num_consumers):
        wait_until_stored(ctx, (consumer,))
        mbar = config.misc_mbars.query(consumer)
        ctx.barriers.expect(mbar, config.q_load_bytes)
        where, smem = place_of_rows(ctx, consumer), ctx.smem.q_tile_smem(consumer)
        load_query_chunks(
            ctx.spec, ctx.maps.q, where, chunks, smem, ctx.barriers.address_of(mbar)
        )


def load_keys(ctx: SM90Context, state: RingState, tile: Int32) -> None:
    """Fill a slot with the ``tile``-th visited K; waits for it to be free."""
    ring = TMAProducerPipeline(ctx.barriers, Ring.of_sm90_keys(ctx.spec.config))
    ring.acquire(state)
    place = ring.expect(state, more=extra_bytes(ctx))
    load_slice(ctx, key_slice(ctx, 0), tile, place)
    load_key_scales(ctx, state.index, tile, ctx.barriers.address_of(place.mbar))


def load_values(ctx: SM90Context, state: RingState, tile: Int32) -> None:
    """Fill a slot with the ``tile``-th visited V; waits for it to be free."""
    ring = TMAProducerPipeline(ctx.barriers, Ring.of_sm90_loads(ctx.spec.config))
    ring.acquire(state)
    load_slice(ctx, value_slice(ctx), tile, ring.expect(state))


@cute.jit
def load_work(ctx: SM90Context) -> None:
    """Load the operands of one query tile; V only where no other warp does."""
    apart = ctx.spec.loads_values_apart
    k = v = ctx.ring_start(producer=True)
    if cutlass.const_expr(ctx.spec.config.transposes_values):
        v = ctx.ring_start(producer=True, slots=ctx.spec.config.num_raw_stages)
    num_tiles = ctx.work.num_key_tiles
    if num_tiles > 0:
        load_keys(ctx, k, Int32(0))
        load_queries(ctx)
        for tile in cutlass.range(1, num_tiles, unroll=1):
            k = k.step()
            load_keys(ctx, k, tile)
            if cutlass.const_expr(not apart):
                load_values(ctx, v, tile - 1)
                v = v.step()
        if cutlass.const_expr(not apart):
            load_values(ctx, v, num_tiles - 1)


@cute.jit
def load_values_of_work(ctx: SM90Context) -> None:
    """Load V of one query tile."""
    v = ctx.ring_start(producer=True)
    for tile in cutlass.range(0, ctx.work.num_key_tiles, unroll=1):
        load_values(ctx, v, tile)
        v = v.step()


def load(ctx: SM90Context) -> None:
    """Run the load role: one warp, one elected lane issues."""
    for_each_work(ctx, load_work)


def load_values_apart(ctx: SM90Context) -> None:
    """Run the role that loads V where the load role does not."""
    for_each_work(ctx, load_values_of_work)
