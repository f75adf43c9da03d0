"""Rows of V past a sequence's last key: zeroed before they meet probabilities of zero.

Memory after the last key of a packed, paged or partly used operand belongs to somebody else and may
hold NaN or infinity, and 0 times NaN is NaN. Keys need no care: their scores are replaced. The
only tile that can hold such rows is cleaned after it has arrived: by the MMA warp, or in the Hopper
kernel by its consumers together, or by the warps that transpose V (``docs/sources.md`` section 8
describes the hazard).
"""

import cutlass
from cutlass import Int32, cute

from ..device.ids import warp_index
from ..device.memory import clean
from ..device.registers import DEVICE
from ..device.sync import pair
from ..work.context import AttentionContext


def slot_chunks(ctx: AttentionContext, slot: Int32) -> list[Int32]:
    """Return the addresses of the column chunks of the V slot at ``slot``, in all CTAs."""
    if not ctx.spec.variant.partial_values:
        return []
    config = ctx.spec.config
    span = config.value_swizzle.bytes
    num_chunks = config.v_cols_per_cta() * config.qkv_dtype_size // span
    chunks = [slot + i * ctx.spec.key_rows * span for i in range(num_chunks)]
    if config.cta_group() == 1:
        return chunks
    return [*chunks, *(pair.peer_address(chunk) for chunk in chunks)]


def rows_with_keys(ctx: AttentionContext, tile: Int32, first_row: int = 0) -> Int32:
    """Return how many keys the sequence has from row ``first_row`` of a visited key tile on."""
    first_key = ctx.work.key_tile(tile) * ctx.spec.config.BN + first_row
    return ctx.work.sequence.seqlen_k - first_key


@cute.jit
def clean_values(
    ctx: AttentionContext, tile: Int32, first_row: cutlass.Constexpr[int], chunks: cutlass.Constexpr
) -> None:
    """Zero the rows that hold no key of the sequence, in the ``tile``-th visited key tile.

    Args:
        ctx: the CTA.
        tile: number of the visited key tile.
        first_row: row of the tile at which the slot starts.
        chunks: shared addresses of the slot's column chunks, in all CTAs that hold a part of it.
    """
    if cutlass.const_expr(ctx.spec.variant.partial_values):
        config, num_rows = ctx.spec.config, ctx.spec.key_rows
        valid = rows_with_keys(ctx, tile, first_row)
        if valid < num_rows:
            first = DEVICE.maximum(valid, 0)
            for chunk in chunks:
                clean.zero_rows(chunk, first, num_rows, config.value_swizzle.bytes)
            clean.publish_to_tensor_cores()


@cute.jit
def clean_values_together(
    ctx: AttentionContext,
    tile: Int32,
    slot: Int32,
    first_warp: cutlass.Constexpr[int],
    meet: cutlass.Constexpr,
) -> None:
    """Zero the rows that hold no key in the V slot at ``slot``; several warps call it together.

    The first of them, from ``first_warp`` on, clean a column chunk each. ``meet()`` is their
    barrier.
    """
    if cutlass.const_expr(ctx.spec.variant.partial_values):
        span, num_rows = ctx.spec.config.value_swizzle.bytes, ctx.spec.key_rows
        valid = rows_with_keys(ctx, tile)
        if valid < num_rows:
            if warp_index() - first_warp < len(slot_chunks(ctx, slot)):
                chunk = slot + (warp_index() - first_warp) * (num_rows * span)
                clean.zero_rows(chunk, DEVICE.maximum(valid, 0), num_rows, span)
                clean.publish_to_tensor_cores()
            meet()
