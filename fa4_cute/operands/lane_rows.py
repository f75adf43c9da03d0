"""K and V by lanes, 16 bytes each: where pages are short boxes, TMA is slower than memory.

Each lane arrives on the slot's barrier once its copies have landed. They are writes of the generic
proxy: the MMA role has a fence behind its wait (``TMAConsumerPipeline.wait``). PTX ISA, "cp.async",
"Async proxy".
"""

from cutlass import Int32, Int64

from ..device.ids import lane_index
from ..device.memory import lane_copies
from ..pipelines import LoadPlace
from ..plan.facts.hardware import UNIT_BYTES
from ..work.context import KernelContext
from .paging import page_of_lane

KEYS, VALUES = 0, 1
"""Slots of the operands among the parameters (``CachedRows``)."""


def copy_rows(ctx: KernelContext, operand: int, tile: Int32, place: LoadPlace) -> None:
    """Start to copy the ``tile``-th visited key tile of ``operand``, K or V, to ``place``.

    All lanes of a warp. Rows of a page after the last are zeros, as TMA leaves them, and so are
    columns that pad a row.
    """
    pieces, lane, rows = ctx.spec.lane_pieces, lane_index(), ctx.args.extras.cache[operand]
    page_bytes, head_bytes, key_bytes = rows.strides
    config = ctx.spec.config
    row_bytes = (config.qk_depth, config.ov_depth)[operand] * config.qkv_dtype_size
    first = ctx.work.key_tile(tile) * pieces.rows
    page, is_used = page_of_lane(ctx, first + pieces.page(lane) * pieces.page_rows)
    if row_bytes < config.swizzle_mode.bytes:
        is_used = is_used & (pieces.unit(lane) < row_bytes // UNIT_BYTES)
    source = rows.address + Int64(ctx.work.kv_head) * head_bytes + pieces.unit(lane) * UNIT_BYTES
    source = source + Int64(page) * page_bytes
    smem = ctx.smem.at(place.byte_offset)
    turns = pieces.rows_in_turn
    sources = [source + Int64(pieces.row(lane, step)) * key_bytes for step in range(turns)]
    for step in pieces.steps:
        target = smem + pieces.offset(lane, step)
        lane_copies.copy(target, sources[step % turns], Int32(is_used))
        sources[step % turns] = sources[step % turns] + turns * key_bytes
    lane_copies.arrive_after(ctx.barriers.address_of(place.mbar))
