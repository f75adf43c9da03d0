"""``OutputColumns``: which columns of O a warp group writes, and where a thread finds its piece.

A thread takes O out of Tensor Memory piece by piece, ``PIECE_COLUMNS`` columns at a time. Both
kernels write by the same functions (``output.write``); what differs between them is data::

    2Q     one O per chain, all columns of the thread's row      piece p: column p of O
    1Q     two O of the same rows, weighted and added up;        piece p: column p of O
           each warp group writes some of the columns
    d256   one O, all columns                                    piece p: column p of O
    d512   two O blocks (lo, hi); of each, lanes 0-63 hold the   piece p: column
           first half of the columns and lanes 64-127 the second     starts[lane half] + p
"""

from dataclasses import dataclass

from cutlass import Float32, Int32

from ..device.lanes import lane_address
from ..device.memory import tmem
from ..plan.barriers.pipeline_plan import RolePipelinePlan
from ..plan.config.reduce_scatter import PIECE_COLUMNS
from ..plan.facts.hardware import UNIT_BYTES
from ..work.context import TmemContext
from ..work.row import LaneRow

Part = tuple[list[Float32], Float32]
"""Columns of one accumulator, and what they are multiplied by."""


@dataclass(frozen=True)
class Accumulator:
    """One O in Tensor Memory.

    Attributes:
        start: TMEM column of piece 0.
        chain: the chain that accumulates it.
        done: barriers of the hand-over "P V is accumulated".
    """

    start: int
    chain: int
    done: RolePipelinePlan

    def load(self, ctx: TmemContext, piece: Int32 | int) -> list[Float32]:
        """Return the calling row's ``PIECE_COLUMNS`` columns from ``piece`` on."""
        start = lane_address(ctx.tmem, self.start)
        return tmem.wait_loads(tmem.load(start + piece, PIECE_COLUMNS))


@dataclass(frozen=True)
class OutputColumns:
    """Columns of O that a warp group writes together, each a sum over accumulators.

    Attributes:
        tile: number of the Q tile whose rows these are.
        chunks: first columns of the chunks of O that hold real columns: one TMA box each.
        pieces: the pieces, padding included.
        starts: column of O of piece 0; one entry, or one for each half of the lanes.
        accumulators: what is added up.
        weights: the weight of each accumulator; empty stands for 1.
        pending: accumulators whose last P V has not been waited for.
        barrier: number of the warp group's named barrier.
    """

    tile: int
    chunks: range
    pieces: range
    starts: tuple[int, ...]
    accumulators: tuple[Accumulator, ...]
    pending: tuple[Accumulator, ...]
    barrier: int
    weights: tuple[Float32, ...] = ()

    def factors(self, factor: Float32) -> tuple[Float32, ...]:
        """Return what each accumulator is multiplied by, where O is multiplied by ``factor``."""
        return tuple(factor * weight for weight in self.weights) or (factor,)

    def load_parts(
        self, ctx: TmemContext, factors: tuple[Float32, ...], piece: Int32 | int
    ) -> list[Part]:
        """Return (columns, factor) of ``piece`` of every accumulator."""
        return [
            (accumulator.load(ctx, piece), factor)
            for accumulator, factor in zip(self.accumulators, factors, strict=True)
        ]

    def staged_at(self, ctx: TmemContext, row: LaneRow, piece: int) -> tuple[Int32, int]:
        """Return the shared address of the chunk that takes ``piece``, and the unit within."""
        width = ctx.spec.output_elems
        column = self.starts[0] + piece
        chunk: Int32 | int = column // width
        if len(self.starts) > 1:
            chunk = chunk + row.lane_half * ((self.starts[1] - self.starts[0]) // width)
        unit = column % width * ctx.spec.output_dtype.size // UNIT_BYTES
        return ctx.output_chunk(self.tile, chunk), unit
