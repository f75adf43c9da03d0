"""``ThreadRow``: what a softmax or correction thread knows about the row it works on."""

from dataclasses import dataclass
from typing import Any

import cutlass
from cutlass import Float32, Int32

from .scores import softmax_scale
from .sequence import DEVICE
from .visibility import RowView
from .work import KernelContext, lane_address, query_head


@dataclass(frozen=True)
class ThreadRow:
    """A row of a Q tile, as one thread sees it.

    Attributes:
        row: row of the CTA's Q tile.
        position: sequence position of the row.
        query: the same for rows of the sequence; rows past it stand at its last query.
        head: query head of the row.
        view: the keys the row sees.
        magnitude: magnitude of the softmax scale times log2(e).
        scale: what of it the exponential applies.
        scores: TMEM address of the thread's first S in the warp's lanes.
    """

    row: Int32
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
    scale = ctx.problem.scale_log2
    magnitude = cutlass.max(scale, -scale)
    return {
        "row": row,
        "position": position,
        "query": DEVICE.minimum(position, ctx.work.sequence.seqlen_q - 1),
        "head": query_head(ctx, row),
        "view": RowView.of(ctx.spec, ctx.work.sequence, position, warp),
        "magnitude": magnitude,
        "scale": softmax_scale(ctx.spec, magnitude),
        "scores": lane_address(ctx.tmem, scores),
    }
