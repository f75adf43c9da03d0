"""Per-token scales of fp8 queries and keys: scores are multiplied by both before anything else.

The scale of a query is one float per thread, read once and kept in shared memory. The scales of a
key tile come by bulk copies, one for a tile or one for each of its pages:

* With two Q tiles or one, they travel with the first depth part of K: their bytes count on its
  "arrived" barrier, and the softmax threads, who read them long after the MMAs have read K, arrive
  on its "read" barrier too. So a slot of K is not filled again while its scales are needed.
* In a pair of CTAs, of either kernel, each CTA needs the scales of all keys of the tile but loads
  half of them, and "K arrived" is a barrier of the leader, which softmax threads of the peer cannot
  wait on. The scales have two buffers there, with barriers of each CTA's own.

Scales of keys that do not count may be NaN: their scores are masked behind them.

Negative scales and zeros need no care: the scores carry them, and the softmax scale keeps its sign.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, Int64, cute

from ..device.math.arith import mul2
from ..device.memory import gmem, shared
from ..device.memory.bulk import load_bytes
from ..device.registers import DEVICE
from ..plan.barriers.pipeline_plan import BarrierArrive, BarrierWait
from ..plan.config.token_rows import packed_start
from ..plan.facts.dtypes import DType
from ..plan.spec.tensor_maps import key_box
from ..work.context import KernelContext
from .paging import for_each_box, page_of_key

VECTOR = 4
"""Columns whose scales one load brings; it starts at a multiple of them."""


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
    return 0 if ctx.spec.config.num_own_scale_bufs else ctx.layout.k_scale_stride_bytes


def load_key_scales(ctx: KernelContext, slot: Int32, tile: Int32, mbarrier: Int32) -> None:
    """Start loading the scales of the ``tile``-th visited key tile; ``mbarrier`` is armed."""
    if not ctx.spec.variant.token_scales:
        return
    config, buffer = ctx.spec.config, scale_buffer(ctx, slot)
    size = key_box(ctx.spec, config.BN)[1] * DType.FP32.size

    def load(row: Int32 | int, key: Int32) -> None:
        load_bytes(buffer + row * DType.FP32.size, key_scale_source(ctx, key), size, mbarrier)

    for_each_box(ctx, ctx.work.key_tile(tile) * config.BN, config.BN, load)


def key_scale_source(ctx: KernelContext, key: Int32) -> Int64:
    """Return the global address of the scale of ``key``, or of one that is masked all the same."""
    extras, sequence = ctx.problem.extras, ctx.work.sequence
    heads = ctx.problem.num_q_heads // ctx.spec.config.group
    entry, position = sequence.key_batch, key
    if ctx.spec.variant.page_size:
        # Behind the last key the table may name anything: the page of that key stands in.
        entry = page_of_key(ctx, DEVICE.minimum(key, sequence.seqlen_k - 1))
        position = key % ctx.spec.variant.page_size
    elif ctx.spec.variant.ragged_k:
        position = packed_start(sequence.first_key, ctx.work.batch) + key
    row = Int64(entry) * heads + ctx.work.kv_head
    return gmem.word_address(extras["k_scale"], row * extras["k_scale_row"] + position)


def fill_scale_buffer(ctx: KernelContext, tile: Int32) -> None:
    """Load the scales of key tile ``tile`` into a buffer with barriers of its own, once free.

    Behind K, whose MMAs need no scales: the buffer is free later than the slots of K are.
    """
    if not ctx.spec.config.num_own_scale_bufs:
        return
    ring = ctx.spec.config.misc_mbars.scale_ring
    slot, round_ = ring_place(ctx, tile)
    ctx.barriers.wait(BarrierWait(ring.consumer_mbar(slot), (round_ & 1) ^ 1))
    arrived = ring.producer_mbar(slot)
    ctx.barriers.expect(arrived, ctx.layout.k_scale_stride_bytes)
    load_key_scales(ctx, slot, tile, ctx.barriers.address_of(arrived))


def scale_buffer(ctx: KernelContext, slot: Int32) -> Int32:
    """Return the shared address of buffer ``slot``: of a K slot, or one of the pair's two."""
    return ctx.smem + ctx.layout.k_scale_smem() + slot * ctx.layout.k_scale_stride_bytes


@cute.jit
def keep_query_scale(ctx: KernelContext, line):
    """Put the row's query scale where this thread finds it for every tile."""
    if cutlass.const_expr(ctx.spec.variant.token_scales):
        # Without a key tile there may be no query either, and no scale to read.
        has_tiles = ctx.work.num_key_tiles > 0
        if has_tiles:
            scale = gmem.load_f32(query_scale_source(ctx, line))
            shared.store_f32(query_scale_address(ctx, line), scale)


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
    return ctx.smem + ctx.layout.q_scale_smem() + line.scale_slot * DType.FP32.size


def ring_place(ctx: KernelContext, tile: Int32) -> tuple[Int32, Int32]:
    """Return the buffer of key tile ``tile`` and how often it was used before."""
    used = ctx.loaded_before(tile)
    stages = ctx.spec.config.misc_mbars.scale_ring.num_kv_stages
    return used % stages, used // stages


def wait_for_scales(ctx: KernelContext, line, tile: Int32, first: Int32 | int = 0):
    """Wait for the scales of key tile ``tile``; None when there are none.

    ``first`` is the key in the thread's first column. The scores of the tile say that K has
    arrived, but to the MMA warp: who reads the bytes of a TMA must have seen their barrier.
    """
    if not ctx.spec.variant.token_scales:
        return None
    slot, round_ = ring_place(ctx, tile)
    arrived = ctx.spec.config.misc_mbars.scale_ring.producer_mbar(slot, 0)
    ctx.barriers.wait(BarrierWait(arrived, round_ & 1))
    keys = scale_buffer(ctx, slot) + first * DType.FP32.size
    return TileScales(keys, query_scale_address(ctx, line))


def release_scales(ctx: KernelContext, tile: Int32) -> None:
    """Give the scales of key tile ``tile`` back."""
    if ctx.spec.variant.token_scales:
        slot, _ = ring_place(ctx, tile)
        ring = ctx.spec.config.misc_mbars.scale_ring
        ctx.barriers.arrive(BarrierArrive(ring.consumer_mbar(slot, 0)))


def scaled(values: list[Float32], columns: range, scales: TileScales) -> list[Float32]:
    """Return the scores of ``columns`` times the scales of their keys and of the row.

    All loads are under way before the first product, which waits for them.
    """
    row = shared.load_f32(scales.row)
    keys: list[Float32] = []
    for column in columns[::VECTOR]:
        keys += shared.load_f32x4(scales.keys + column * DType.FP32.size)
    result: list[Float32] = []
    for i in range(0, len(values), 2):
        pair = mul2((values[i], values[i + 1]), (keys[i], keys[i + 1]))
        result += mul2(pair, (row, row))
    return result
