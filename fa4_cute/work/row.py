"""What a softmax thread knows about the row it works on, and where its scores are in lanes."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Self

import cutlass
from cutlass import Float32, Int32

from ..device.ids import warp_index
from ..device.lanes import lane_address, row_in_group
from ..device.math.arith import reciprocal
from ..device.memory import gmem
from ..device.registers import DEVICE
from ..plan.barriers.chains import CHAINS, of_chain
from ..plan.facts.hardware import WARP_GROUP_THREADS, WARP_THREADS, WARPS_PER_GROUP
from ..plan.facts.numbers import LOG2_E
from ..plan.spec.attention_spec import AttentionSpec
from .context import AttentionContext, KernelContext, TmemContext, query_head
from .visibility import RowView

LEAST_MAGNITUDE = 2.0**-60
"""Magnitude that slopes are divided by at least."""


class ThreadRow(ABC):
    """A row of a Q tile, as one thread sees it.

    Attributes:
        index: row of the CTA's Q tile.
        position: sequence position of the row.
        query: the same for rows of the sequence; rows past it stand at its last query.
        head: query head of the row.
        view: the keys the row sees.
        magnitude: magnitude of the softmax scale times log2(e).
        is_modified: whether scores are scaled and changed first, so that they may be any number.
        is_binary: whether they are binary logarithms then; with biases alone they are natural ones.
        scale: what the exponential multiplies scores by.
        place, places: where ALiBi is all that changes scores, the row counted from the first key,
            and first and last such row of the warp; no attributes elsewhere, nor the next.
        slope: what is added to a raw score for each key of distance.
    """

    def __init__(
        self,
        ctx: AttentionContext,
        index: Int32,
        ends: tuple[Int32, Int32],
        first: Int32,
    ) -> None:
        """Derive what the thread needs.

        Args:
            ctx: the role's context.
            index: row of the Q tile.
            ends: first and last row of the warp.
            first: sequence position of the tile's first row.
        """
        per_position = ctx.spec.rows_per_position
        position = first + index // per_position
        warp = (first + ends[0] // per_position, first + ends[1] // per_position)
        scale = ctx.args.scale_log2
        self.index = index
        self.position = position
        self.magnitude = cutlass.max(scale, -scale)
        self.query = DEVICE.minimum(position, ctx.work.sequence.seqlen_q - 1)
        self.head = query_head(ctx, index)
        self.view = RowView.of(ctx.spec, ctx.work.sequence, position, warp)
        self.is_modified = ctx.spec.scales_first
        self.is_binary = ctx.spec.scales_first and not ctx.spec.adds_biases
        if ctx.spec.adds_slopes:
            offset = ctx.work.sequence.offset
            self.place, self.places = position + offset, (warp[0] + offset, warp[1] + offset)
            # Of a scale of 0 the slopes are left.
            self.magnitude = cutlass.max(self.magnitude, Float32(LEAST_MAGNITUDE))
            self.slope = slope_of(ctx, self.head) * reciprocal(self.magnitude)
        self.scale = softmax_scale(ctx.spec, self.magnitude)

    @property
    @abstractmethod
    def scale_slot(self) -> Int32:
        """Number of the thread among the softmax threads: its place for the query scale."""


class LaneRow(ThreadRow):
    """A row whose scores and output lie in the thread's lane of Tensor Memory.

    Attributes:
        scores: TMEM address of the thread's first S in the warp's lanes.
        lane_half: which half of the columns its lanes hold; 0 where they hold all.
    """

    lane_half: Int32 | int = 0

    def __init__(
        self,
        ctx: TmemContext,
        index: Int32,
        ends: tuple[Int32, Int32],
        first: Int32,
        scores: int,
    ) -> None:
        """Derive what the thread needs; ``scores`` is the first TMEM column of S."""
        super().__init__(ctx, index, ends, first)
        self.scores = lane_address(ctx.tmem, scores)

    def with_scores_at(self, scores: Int32) -> Self:
        """Return the same row with its S at TMEM address ``scores``."""
        moved = copy(self)
        moved.scores = scores
        return moved


def softmax_scale(spec: AttentionSpec, magnitude: Float32) -> Float32:
    """Return the factor that the exponential applies to a score; ``magnitude`` is the call's."""
    if not spec.scales_first:
        return magnitude
    return Float32(LOG2_E if spec.adds_biases else 1.0)


def slope_of(ctx: AttentionContext, head: Int32) -> Float32:
    """Return what ALiBi adds for each key of distance, in powers of two."""
    (slopes,) = ctx.args.extras.aux
    tensor = gmem.AuxTensor(slopes.address, slopes.strides)
    where = (ctx.work.batch, head)[-len(slopes.strides) :]
    return tensor[where] * Float32(-LOG2_E)


class SoftmaxRow(LaneRow):
    """The thread's row, which equals its TMEM lane, or is that of its lane among a copy's.

    Attributes:
        chain: 0 or 1, also in a register: the warp group, its Q tile, its S and its O.
        lane: the lane, of the 128 of its group.
        copy: which copy of the rows the warp has; 0 where a row is once there.
        first_column: the first of the keys of a tile that the copy has.
    """

    def __init__(self, ctx: KernelContext, chain: Int32 | int) -> None:
        """Take the calling thread's row."""
        config = ctx.spec.config
        tile = ctx.spec.issue_order.query_tile(chain)
        first = ctx.work.position + tile * ctx.spec.tile_positions
        index, warp = row_in_group(), warp_index() % WARPS_PER_GROUP
        self.lane = index
        self.copy: Int32 | int = 0
        if config.row_copies > 1:
            warps = WARPS_PER_GROUP // config.row_copies
            self.copy, warp = warp // warps, warp % warps
            index = index % config.rows_of_copy
        first_row = warp * WARP_THREADS
        ends = (first_row, first_row + (WARP_THREADS - 1))
        scores = of_chain(chain, [ctx.columns.s(c).start for c in CHAINS])
        super().__init__(ctx, index, ends, first, scores)
        self.chain = chain
        self.first_column = self.copy * config.keys_of_copy
        if config.row_copies > 1:
            self.scores = self.scores + self.first_column

    @property
    def scale_slot(self) -> Int32:
        """Number of the thread among the softmax threads: its place for the query scale."""
        return self.lane + self.chain * WARP_GROUP_THREADS
