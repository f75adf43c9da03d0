"""``ThreadRow`` and ``SoftmaxRow``: what a softmax thread knows about the row it works on."""

from dataclasses import dataclass
from typing import Any

import cutlass
from cutlass import Float32, Int32

from ..device.ids import warp_index
from ..device.lanes import lane_address, row_in_group
from ..device.registers import DEVICE
from ..plan.facts.hardware import WARP_GROUP_THREADS, WARP_THREADS, WARPS_PER_GROUP
from .context import KernelContext, query_head
from .visibility import RowView


@dataclass(frozen=True)
class ThreadRow:
    """A row of a Q tile, as one thread sees it.

    Attributes:
        index: row of the CTA's Q tile.
        position: sequence position of the row.
        query: the same for rows of the sequence; rows past it stand at its last query.
        head: query head of the row.
        view: the keys the row sees.
        magnitude: magnitude of the softmax scale times log2(e).
        scale: what of it the exponential applies.
        scores: TMEM address of the thread's first S in the warp's lanes.
    """

    index: Int32
    position: Int32
    query: Int32
    head: Int32
    view: RowView
    magnitude: Float32
    scale: Float32
    scores: Int32


def row_facts(
    ctx: KernelContext, row: Int32, ends: tuple[Int32, Int32], first: Int32, scores: int
) -> dict[str, Any]:
    """Return the attributes of a ``ThreadRow``.

    Args:
        ctx: the role's context.
        row: row of the Q tile.
        ends: first and last row of the warp.
        first: sequence position of the tile's first row.
        scores: first TMEM column of S.
    """
    per_position = ctx.spec.rows_per_position
    position = first + row // per_position
    warp = (first + ends[0] // per_position, first + ends[1] // per_position)
    scale = ctx.args.scale_log2
    magnitude = cutlass.max(scale, -scale)
    return {
        "index": row,
        "position": position,
        "query": DEVICE.minimum(position, ctx.work.sequence.seqlen_q - 1),
        "head": query_head(ctx, row),
        "view": RowView.of(ctx.spec, ctx.work.sequence, position, warp),
        "magnitude": magnitude,
        "scale": softmax_scale(ctx.spec, magnitude),
        "scores": lane_address(ctx.tmem, scores),
    }


def softmax_scale(spec, magnitude: Float32) -> Float32:
    """Return the factor that the exponential applies to a score; ``magnitude`` is the call's."""
    return Float32(1.0) if spec.variant.modifies_scores else magnitude


@dataclass(frozen=True)
class SoftmaxRow(ThreadRow):
    """The thread's row, which equals its TMEM lane.

    Attributes:
        chain: 0 or 1: the warp group, its Q tile, its S and its O.
    """

    chain: int

    @classmethod
    def of(cls, ctx: KernelContext, chain: int) -> "SoftmaxRow":
        """Return the calling thread's row."""
        tile = ctx.spec.issue_order.query_tile(chain)
        first = ctx.work.position + tile * ctx.spec.tile_positions
        row, first_row = row_in_group(), warp_index() % WARPS_PER_GROUP * WARP_THREADS
        ends = (first_row, first_row + (WARP_THREADS - 1))
        scores = ctx.columns.s(chain).start
        return cls(**row_facts(ctx, row, ends, first, scores), chain=chain)

    @property
    def scale_slot(self) -> Int32:
        """Number of the thread among the softmax threads: its place for the query scale."""
        return self.index + self.chain * WARP_GROUP_THREADS
