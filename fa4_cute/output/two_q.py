"""Last step of the softmax role: which columns of O each warp group writes.

With two Q tiles a warp group writes all columns of its own rows. With one, both groups hold a part
of every sum: they join their rows (``output.join_groups``) and divide the columns between them.
"""

import cutlass
from cutlass import Float32, cute

from ..plan.barriers.chains import NUM_CHAINS
from ..plan.barriers.named import STORE
from ..plan.config.reduce_scatter import PIECE_COLUMNS
from ..plan.facts.hardware import ceil_div
from ..work.context import KernelContext
from ..work.row import SoftmaxRow
from .columns import Accumulator, OutputColumns
from .join_groups import JoinedRow, join_groups
from .row_result import RowResult, write_log_sum_exp
from .row_store import store_columns, store_units
from .write import put_rows, scaled_words, wait_for_output, write_columns, zero_words


def accumulator(ctx: KernelContext, chain: int) -> Accumulator:
    """Return O of ``chain``."""
    return Accumulator(ctx.columns.o(chain).start, chain, ctx.mbars.consumer_o(chain).plan)


def all_columns(ctx: KernelContext, chain: int) -> OutputColumns:
    """Return the columns of a warp group whose O is all there is of its rows."""
    own, chunks = accumulator(ctx, chain), output_chunks(ctx)
    return OutputColumns(
        tile=ctx.order.query_tile(chain),
        chunks=chunks,
        pieces=pieces_of(ctx, chunks),
        starts=(0,),
        accumulators=(own,),
        pending=(own,),
        barrier=STORE.numbers[chain],
    )


def columns_of_group(ctx: KernelContext, chain: int, joined: JoinedRow) -> OutputColumns:
    """Return the columns of a warp group that has its rows in common with the other one."""
    chunks = output_chunks(ctx)
    middle = ceil_div(len(chunks), NUM_CHAINS)
    mine = chunks[middle:] if chain else chunks[:middle]
    return OutputColumns(
        tile=ctx.order.query_tile(chain),
        chunks=mine,
        pieces=pieces_of(ctx, mine),
        starts=(0,),
        accumulators=tuple(accumulator(ctx, c) for c in range(NUM_CHAINS)),
        pending=(accumulator(ctx, NUM_CHAINS - 1 - chain),),
        barrier=STORE.numbers[chain],
        weights=joined.weights,
    )


def output_chunks(ctx: KernelContext) -> range:
    """Return the first columns of the chunks of O that hold real columns."""
    return range(0, ctx.spec.config.ov_depth, ctx.spec.output_elems)


def pieces_of(ctx: KernelContext, chunks: range) -> range:
    """Return the first columns of the pieces of ``chunks``, padding included."""
    if not chunks:
        return range(0)
    return range(chunks.start, chunks[-1] + ctx.spec.output_elems, PIECE_COLUMNS)


def write_alone(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> None:
    """Write the log-sum-exp and O of rows whose key tiles were all the warp group's own."""
    result = RowResult.of(ctx, row, row_max, row_sum)
    write_log_sum_exp(ctx, row, result)
    write_columns(ctx, row, (all_columns(ctx, row.chain),), result)


@cute.jit
def write_scaled(
    ctx: KernelContext, row: SoftmaxRow, factor: Float32, say_read: cutlass.Constexpr
) -> None:
    """Write O times ``factor``, row by row; ``say_read()`` as soon as all of it is in registers.

    In a loop: the softmax loops leave little of the instruction cache, and nobody waits for this.
    """
    columns, depth = all_columns(ctx, row.chain), ctx.spec.output_depth
    words_of = scaled_words(ctx, columns, factor)
    wait_for_output(ctx, columns)
    whole = depth // PIECE_COLUMNS
    for piece in cutlass.range(0, whole, unroll=1):
        column = piece * PIECE_COLUMNS
        words = words_of(column)
        if cutlass.const_expr(whole * PIECE_COLUMNS == depth):
            if piece == whole - 1:
                say_read()
        store_units(ctx, row, column, words)
    if cutlass.const_expr(whole * PIECE_COLUMNS < depth):
        words = words_of(whole * PIECE_COLUMNS)
        say_read()
        store_columns(ctx, row, whole * PIECE_COLUMNS, words)


def write_zeros(ctx: KernelContext, row: SoftmaxRow) -> None:
    """Write O of a row that sees no key."""
    put_rows(ctx, row, all_columns(ctx, row.chain), zero_words)


def write_joined(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> None:
    """Join the row with the other warp group's, and write the group's columns of O.

    The exchange implies that the other group's O is complete: its threads waited for that before.
    The wait in ``write_columns`` stays, over at once, as the event that reading O depends on.

    The first group writes the log-sum-exp. The sink, folded in ``RowResult``, enters the common
    sum, of which both groups hold a copy: once per row all the same. A narrow O leaves the second
    group nothing.
    """
    wait_for_output(ctx, all_columns(ctx, row.chain))
    joined = join_groups(ctx, row, row_max, row_sum)
    result = RowResult.of(ctx, row, joined.row_max, joined.row_sum)
    if row.chain == 0:
        write_log_sum_exp(ctx, row, result)
    columns = columns_of_group(ctx, row.chain, joined)
    if columns.chunks:
        write_columns(ctx, row, (columns,), result)


@cute.jit
def write_output(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> None:
    """Write what the warp group owes of O and the log-sum-exp, once its last tile is done."""
    if cutlass.const_expr(ctx.order.deals_out):
        if ctx.work.num_key_tiles > 1:
            write_joined(ctx, row, row_max, row_sum)
        elif cutlass.const_expr(row.chain == 0):
            # A single key tile, or none, leaves the second group without work.
            write_alone(ctx, row, row_max, row_sum)
    else:
        write_alone(ctx, row, row_max, row_sum)
