"""Per-token scales of fp8 queries and keys: scores are multiplied by both before anything else.

The scale of a query is one float per thread, read once and kept in shared memory. The scales of a
key tile come by bulk copies, one for a tile or one for each of its pages:

* With two Q tiles or one, they travel with the first qk stage of K: their bytes count on its
  "arrived" barrier, and the softmax threads, who read them long after the MMAs have read K, arrive
  on its "read" barrier too. So a slot of K is not filled again while its scales are needed.
* In the Hopper kernel they travel with K, too; who multiplies reads them, and frees K after that.
  A thread has two rows, and a place for the scale of each.
* In a pair of CTAs, of either kernel, each CTA needs the scales of all keys of the tile but loads
  half of them, and "K arrived" is a barrier of the leader, which softmax threads of the peer cannot
  wait on. The scales have two buffers there, with barriers of each CTA's own.

Scales of keys that do not count may be NaN: their scores are masked afterwards.

Negative scales and zeros need no care: the scores carry them, and the softmax scale keeps its sign.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, Int64, cute

from ..device.math.arith import mul, mul2
from ..device.memory import gmem, shared
from ..device.memory.bulk import load_bytes
from ..device.registers import DEVICE
from ..device.sync import barriers
from ..pipelines import RingPlace
from ..plan.config.token_rows import packed_start
from ..plan.facts.dtypes import DType
from ..plan.facts.hardware import VECTOR_COLUMNS
from ..plan.facts.wgmma import PAIR, Columns, LaneColumns
from ..plan.spec.tensor_maps import key_box
from ..work.context import AttentionContext
from ..work.row import ThreadRow
from .paging import for_each_box, page_of_key

PAIRED_COLUMNS = 8
"""Columns of a row whose scales a thread of the Hopper kernel loads together."""


@dataclass(frozen=True)
class TileScales:
    """Scales that one thread needs for a key tile.

    Attributes:
        keys: shared address of the tile's key scales.
        row: shared address of the row's query scale.
    """

    keys: Int32
    row: Int32


def extra_bytes(ctx: AttentionContext) -> int:
    """Return the bytes that arrive with the first qk stage of K besides its own."""
    return 0 if ctx.spec.config.num_own_scale_bufs else ctx.smem.layout.k_scale_stride_bytes


def load_key_scales(ctx: AttentionContext, slot: Int32, tile: Int32, mbarrier: Int32) -> None:
    """Start loading the scales of the ``tile``-th visited key tile; ``mbarrier`` is armed."""
    if not ctx.spec.variant.token_scales:
        return
    config, buffer = ctx.spec.config, scale_buffer(ctx, slot)
    size = key_box(ctx.spec, config.BN)[1] * DType.FP32.size

    def load(row: Int32 | int, key: Int32) -> None:
        load_bytes(buffer + row * DType.FP32.size, key_scale_source(ctx, key), size, mbarrier)

    for_each_box(ctx, ctx.work.key_tile(tile) * config.BN, config.BN, load)


def key_scale_source(ctx: AttentionContext, key: Int32) -> Int64:
    """Return the global address of the scale of ``key``, any where it is masked."""
    extras, sequence = ctx.args.extras, ctx.work.sequence
    heads = ctx.args.num_q_heads // ctx.spec.config.group
    entry, position = sequence.key_batch, key
    if ctx.spec.variant.page_size:
        # After the last key the table may name anything: the page of that key stands in.
        entry = page_of_key(ctx, DEVICE.minimum(key, sequence.seqlen_k - 1))
        position = key % ctx.spec.variant.page_size
    elif ctx.spec.variant.ragged_k:
        position = packed_start(sequence.first_key, extras.k_scale_row) + key
    row = Int64(entry) * heads + ctx.work.kv_head
    return gmem.word_address(extras.k_scale, row * extras.k_scale_row + position)


def fill_scale_buffer(ctx: AttentionContext, tile: Int32) -> None:
    """Load the scales of key tile ``tile`` into a buffer with barriers of its own, once free.

    After K, whose MMAs need no scales: the buffer is free later than the slots of K are.
    """
    if not ctx.spec.config.num_own_scale_bufs:
        return
    ring, state = ctx.mbars.scale_ring(), buffer_of(ctx, tile, producer=True)
    ring.producer_acquire(state)
    arrived = ring.producer_mbar(state)
    ctx.barriers.expect(arrived, ctx.smem.layout.k_scale_stride_bytes)
    load_key_scales(ctx, state.index, tile, ctx.barriers.address_of(arrived))


def scale_buffer(ctx: AttentionContext, slot: Int32) -> Int32:
    """Return the shared address of buffer ``slot``: of a K slot, or one of the pair's two."""
    return ctx.smem.k_scale_smem() + slot * ctx.smem.layout.k_scale_stride_bytes


@cute.jit
def keep_query_scale(ctx: AttentionContext, row: ThreadRow) -> None:
    """Put the row's query scale where this thread finds it for every tile."""
    if cutlass.const_expr(ctx.spec.variant.token_scales):
        # Without a key tile there may be no query either, and no scale to read.
        if ctx.work.num_key_tiles > 0:
            scale = gmem.load_f32(query_scale_source(ctx, row))
            shared.store_f32(query_scale_address(ctx, row), scale)


def query_scale_source(ctx: AttentionContext, row: ThreadRow) -> Int64:
    """Return the global address of the query scale of the thread's row."""
    sequence, args = ctx.work.sequence, ctx.args
    query = Int64(sequence.first_query + row.query)
    if not ctx.spec.variant.ragged_q:
        query = Int64(ctx.work.batch) * args.seqlen_q + row.query
    index = query * args.num_q_heads + row.head
    return gmem.word_address(args.extras.q_scale, index)


def query_scale_address(ctx: AttentionContext, row: ThreadRow) -> Int32:
    """Return the shared address of the thread's query scale."""
    return ctx.smem.q_scale_smem() + row.scale_slot * DType.FP32.size


def buffer_of(ctx: AttentionContext, tile: Int32, *, producer: bool) -> RingPlace:
    """Return the buffer of key tile ``tile``, as the side that fills it or reads it sees it."""
    stages = ctx.mbars.layout.scale_ring.num_kv_stages
    return RingPlace(stages, ctx.loaded_before(tile), producer=producer)


def wait_for_scales(
    ctx: AttentionContext, row: ThreadRow, tile: Int32, first: Int32 | int = 0
) -> TileScales | None:
    """Wait for the scales of key tile ``tile``; None when there are none.

    ``first`` is the key in the thread's first column. The scores of the tile say that K has
    arrived, but to the MMA warp: who reads the bytes of a TMA must have seen their barrier.
    """
    if not ctx.spec.variant.token_scales:
        return None
    state = buffer_of(ctx, tile, producer=False)
    ctx.mbars.scale_ring().consumer_wait(state, 0)
    keys = scale_buffer(ctx, state.index) + first * DType.FP32.size
    return TileScales(keys, query_scale_address(ctx, row))


def release_scales(ctx: AttentionContext, tile: Int32) -> None:
    """Give the scales of key tile ``tile`` back."""
    if ctx.spec.variant.token_scales:
        ctx.mbars.scale_ring().consumer_arrive(buffer_of(ctx, tile, producer=False), 0)


def scaled(
    values: list[Float32], columns: Columns | tuple[int, ...], scales: TileScales
) -> list[Float32]:
    """Return the scores of ``columns`` times the scales of their keys and of the row.

    All loads are under way before the first product, which waits for them. Pairs of columns are
    those of Hopper, which has no packed multiplication.
    """
    row = shared.load_f32(scales.row)
    if not isinstance(columns, range):
        return scaled_pairs(values, columns, scales.keys, row)
    keys: list[Float32] = []
    for column in columns[::VECTOR_COLUMNS]:
        keys += shared.load_vector(scales.keys + column * DType.FP32.size, VECTOR_COLUMNS)
    result: list[Float32] = []
    for i in range(0, len(values), 2):
        pair = mul2((values[i], values[i + 1]), (keys[i], keys[i + 1]))
        result += mul2(pair, (row, row))
    return result


def scaled_pairs(
    values: list[Float32], columns: LaneColumns | tuple[int, ...], keys: Int32, row: Float32
) -> list[Float32]:
    """Return the scores of pairs of columns times the scales from shared address ``keys`` on.

    A warp's loads of so many columns are kept apart from the next: registers for all there are not.
    """
    result: list[Float32] = []
    for first in range(0, len(values), PAIRED_COLUMNS):
        if first:
            barriers.warp_barrier()
        for i in range(first, min(first + PAIRED_COLUMNS, len(values)), PAIR):
            of_keys = shared.load_vector(keys + columns[i] * DType.FP32.size, PAIR)
            pair = zip(values[i : i + PAIR], of_keys, strict=True)
            result += [mul(mul(v, k), row) for v, k in pair]
    return result
