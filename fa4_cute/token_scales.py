"""Per-token scales of fp8 queries and keys: scores are multiplied by both before anything else.

The scale of a query is one float per thread, read once and kept in shared memory. The scales of a
key tile travel with the first depth part of K: their bytes count on its "arrived" barrier, and the
softmax threads, who read them long after the MMAs have read K, arrive on its "read" barrier too.
So a slot of K is not filled again while its scales are needed.

Negative scales and zeros need no care: the scores carry them, and the softmax scale keeps its sign.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, Int64, cute

from .device import barriers, gmem
from .device.arith import mul2
from .device.bulk import load_bytes
from .plan.dtypes import DType
from .plan.hardware import WARP_GROUP_THREADS
from .plan.pipeline_plan import BarrierArrive, BarrierWait
from .work import KernelContext

_VECTOR = 4


@dataclass(frozen=True)
class TileScales:
    """Scales that one thread needs for a key tile.

    Attributes:
        keys: shared address of the tile's key scales.
        row: shared address of the row's query scale.
    """

    keys: Int32
    row: Int32


def extra_bytes(ctx: KernelContext) -> int:
    """Return the bytes that arrive with the first depth part of K beside it."""
    return ctx.layout.k_scale_stride_bytes


def load_key_scales(ctx: KernelContext, slot: Int32, tile: Int32, mbarrier: Int32) -> None:
    """Start loading the scales of the ``tile``-th visited key tile; ``mbarrier`` is armed."""
    if not ctx.spec.config.scale_dtype.is_valid:
        return
    extras, config = ctx.problem.extras, ctx.spec.config
    heads = ctx.problem.num_q_heads // config.group
    row = Int64(ctx.work.batch) * heads + ctx.work.kv_head
    first = row * extras["k_scale_row"] + ctx.work.key_tile(tile) * config.BN
    source = gmem.word_address(extras["k_scale"], first)
    load_bytes(scale_buffer(ctx, slot), source, ctx.layout.k_scale_stride_bytes, mbarrier)


def scale_buffer(ctx: KernelContext, slot: Int32) -> Int32:
    """Return the shared address of the key scales that belong to K slot ``slot``."""
    return ctx.smem + ctx.layout.k_scale_smem() + slot * ctx.layout.k_scale_stride_bytes


@cute.jit
def keep_query_scale(ctx: KernelContext, line):
    """Put the row's query scale where this thread finds it for every tile."""
    if cutlass.const_expr(ctx.spec.config.scale_dtype.is_valid):
        # Without a key tile there may be no query either, and no scale to read.
        has_tiles = ctx.work.num_key_tiles > 0
        if has_tiles:
            scale = gmem.load_f32(query_scale_source(ctx, line))
            barriers.store_shared_f32(query_scale_address(ctx, line), scale)


def query_scale_source(ctx: KernelContext, line) -> Int64:
    """Return the global address of the query scale of the thread's row."""
    sequence, problem = ctx.work.sequence, ctx.problem
    query = Int64(sequence.first_query + line.query)
    if not ctx.spec.variant.ragged_q:
        query = Int64(ctx.work.batch) * problem.seqlen_q + line.query
    index = query * problem.num_q_heads + line.head
    return gmem.word_address(problem.extras["q_scale"], index)


def query_scale_address(ctx: KernelContext, line) -> Int32:
    """Return the shared address of the thread's query scale."""
    row = line.row + line.chain * WARP_GROUP_THREADS
    return ctx.smem + ctx.layout.q_scale_smem() + row * DType.FP32.size


def ring_place(ctx: KernelContext, tile: Int32) -> tuple[Int32, Int32]:
    """Return the K slot of key tile ``tile`` and how often the slot was used before."""
    before = ctx.progress.tiles
    used = tile if isinstance(before, int) else tile + before
    stages = ctx.spec.config.num_kv_stages
    return used % stages, used // stages


def wait_for_scales(ctx: KernelContext, line, tile: Int32) -> TileScales | None:
    """Wait for the scales of key tile ``tile``; None when there are none.

    The scores of the tile say that K has arrived, but to the MMA warp: who reads the bytes of a
    TMA must have seen their barrier.
    """
    config = ctx.spec.config
    if not config.scale_dtype.is_valid:
        return None
    slot, round_ = ring_place(ctx, tile)
    ctx.barriers.wait(BarrierWait(config.misc_mbars.k_ring.producer_mbar(slot, 0), round_ & 1))
    return TileScales(scale_buffer(ctx, slot), query_scale_address(ctx, line))


def release_scales(ctx: KernelContext, tile: Int32) -> None:
    """Give the scales of key tile ``tile`` back."""
    config = ctx.spec.config
    if config.scale_dtype.is_valid:
        slot, _ = ring_place(ctx, tile)
        ctx.barriers.arrive(BarrierArrive(config.misc_mbars.k_ring.consumer_mbar(slot, 0)))


def scaled(values: list[Float32], columns: range, scales: TileScales) -> list[Float32]:
    """Return the scores of ``columns`` times the scales of their keys and of the row.

    All loads are under way before the first product, which waits for them.
    """
    row = barriers.load_shared_f32(scales.row)
    keys: list[Float32] = []
    for column in columns[::_VECTOR]:
        keys += barriers.load_shared_f32x4(scales.keys + column * DType.FP32.size)
    result: list[Float32] = []
    for i in range(0, len(values), 2):
        pair = mul2((values[i], values[i + 1]), (keys[i], keys[i + 1]))
        result += mul2(pair, (row, row))
    return result
