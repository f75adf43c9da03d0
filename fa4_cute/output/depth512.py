"""Last step of the pair's softmax or correction role: O blocks, written as their P V end."""

from ..plan.barriers.named import OUTPUT
from ..plan.compute.depth512_lanes import first_output
from ..plan.config.reduce_scatter import PIECE_COLUMNS
from ..work.depth512 import ONLY_CHAIN, Depth512Context, Depth512Row
from .columns import Accumulator, OutputColumns
from .row_result import RowResult
from .write import write_columns


def block_columns(ctx: Depth512Context, block: int) -> OutputColumns:
    """Return the columns of o block ``block``, 0 (lo) or 1 (hi)."""
    config = ctx.spec.config
    width = config.padded_depth // config.num_o_blocks
    start = ctx.columns.o_lo().start + block * config.o_columns
    own = Accumulator(start, ONLY_CHAIN, ctx.mbars.consumer_o(block).plan)
    halves = range(2 if config.split_o else 1)
    return OutputColumns(
        tile=0,
        chunks=range(
            block * width, min((block + 1) * width, config.depth), ctx.spec.output_elems
        ),
        pieces=range(0, config.o_columns, PIECE_COLUMNS),
        starts=tuple(first_output(config, block, half) for half in halves),
        accumulators=(own,),
        pending=(own,),
        barrier=OUTPUT.number,
    )


def write_output(ctx: Depth512Context, row: Depth512Row, result: RowResult) -> None:
    """Write the CTA's rows of O; what is staged is stored then."""
    blocks = range(ctx.spec.config.num_o_blocks)
    write_columns(ctx, row, tuple(block_columns(ctx, block) for block in blocks), result)
