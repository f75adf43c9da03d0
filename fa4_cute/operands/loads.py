"""Loads that both kernels issue: where a CTA's slice of Q, K and V lies, and the boxes it takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from cutlass import Int32

from ..pipelines import LoadPlace
from ..plan.memory.chunks import depth_chunks, value_chunks
from ..tma import CtaSlice, load_key_chunks
from ..work.context import AttentionContext
from ..work.persistent import wait_until_stored
from .paging import load_boxes


@dataclass(frozen=True)
class Share:
    """What a load warp loads: Q and K, V, or all."""

    keys: bool = True
    values: bool = True


def wait_for_ring_memory(ctx: AttentionContext, chains: Sequence[int]) -> None:
    """Wait, in a persistent CTA, until slots may be filled again: O of ``chains`` may be staged
    there."""
    if ctx.spec.layout_o_exceeds_q and not ctx.spec.writes_rows:
        wait_until_stored(ctx, chains)


def place_of_query(ctx: AttentionContext, tile: int = 0) -> tuple[Int32, Int32, Int32]:
    """Return where Q tile ``tile`` lies in the map of Q: first position, head, batch entry."""
    work = ctx.work
    position = work.sequence.first_query + work.position + tile * ctx.spec.tile_positions
    return position, work.head, work.sequence.query_batch


def key_slice(ctx: AttentionContext, qk_stage: int) -> CtaSlice:
    """Return what this CTA loads of qk stage ``qk_stage`` of K: its rows."""
    config = ctx.spec.config
    rows = config.k_rows_per_cta()
    return CtaSlice(ctx.maps.k, depth_chunks(config, qk_stage), rows, ctx.slice_start(rows))


def value_slice(ctx: AttentionContext, key_block: int = 0, first_column: int = 0) -> CtaSlice:
    """Return what this CTA loads of V: its columns, counted from ``first_column``.

    ``key_block`` is which of a tile's blocks of BK1 keys the slot holds.
    """
    config = ctx.spec.config
    column = first_column + ctx.slice_start(config.v_cols_per_cta())
    return CtaSlice(
        ctx.maps.v, value_chunks(config), config.BK1, key_block * config.BK1, column
    )


def load_slice(ctx: AttentionContext, piece: CtaSlice, tile: Int32, place: LoadPlace) -> None:
    """Issue ``piece`` of the ``tile``-th visited key tile of K or V; its bytes are expected."""
    mbar = ctx.barriers.in_leader(place.mbar)

    def load(row: Int32 | int, where: tuple[Int32 | int, ...]) -> None:
        smem = ctx.smem.at(place.byte_offset) + row * piece.chunks.row_bytes
        load_key_chunks(ctx.spec, piece, where, smem, mbar)

    first = ctx.work.key_tile(tile) * ctx.spec.config.BN + piece.first_row
    load_boxes(ctx, first, piece.rows, piece.chunks, load)
