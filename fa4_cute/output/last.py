"""Keys split in a workspace: the last CTA of a query tile puts all partial results together.

Every CTA writes the normalised O and the log-sum-exp of its keys to the workspace, as for the
combine kernel, and counts itself at the counter of the query tile. Who finds all others counted
reads what they wrote and writes O, by the arithmetic of the combine kernel and in its order, so
that bits do not depend on who is last. The counter wraps to 0, ready for the next launch.

Order (PTX ISA, "Memory Consistency Model", causality order): the first barrier puts what all
threads wrote before the count, which releases it at GPU scope, cumulatively; the counts of a query
tile are a chain of such operations, and the last of them acquires what all others released; the
second barrier puts that before the loads of all threads.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32, Int64, cute

from ..device import ids
from ..device.memory import gmem
from ..device.registers import DEVICE
from ..device.sync import barriers
from ..plan.barriers.named import NamedBarrier
from ..plan.facts.hardware import WARP_THREADS
from ..work.context import AttentionContext, query_head
from ..work.tile import num_splits_of
from . import row_store
from .split_rows import SplitRows, Splits, log_sum_exp


@dataclass(frozen=True)
class PlacedRow:
    """A row of the query tile: its sequence position and its query head."""

    position: Int32
    head: Int32


def num_parts(ctx: AttentionContext) -> Int32 | int:
    """Return how many CTAs have parts of the query tile."""
    if ctx.spec.variant.streams_keys:
        return ctx.work.num_parts
    return num_splits_of(ctx.spec, ctx.args)


def counter_address(ctx: AttentionContext, num_splits: Int32) -> Int64:
    """Return where the CTAs of the query tile are counted: in the order of the grid."""
    if ctx.spec.variant.streams_keys:
        number = row_store.query_tile_number(ctx) * ctx.spec.cluster_size + ctx.slice_start(1)
        return gmem.word_address(ctx.args.extras.counters, number)
    block, head, batch = ids.block_index()
    tiles, heads = ids.grid_size_x() // num_splits, ids.grid_size_y()
    number = (batch * heads + head) * tiles + block // num_splits
    return gmem.word_address(ctx.args.extras.counters, number)


def is_last(ctx: AttentionContext, written: NamedBarrier) -> Int32:
    """Return whether the CTA is the last of its query tile to have written its part: 1 or 0.

    All threads that write come here, and know by then what the others of the query tile wrote.
    """
    num_splits = num_parts(ctx)
    barriers.named_barrier(written.number, written.threads)
    is_first = Int32(cutlass.select_(ids.thread_index() == 0, Int32(1), Int32(0)))
    address = counter_address(ctx, num_splits)
    reached = gmem.count_below(address, num_splits - 1, is_first)
    return barriers.named_barrier_any(written.number, written.threads, reached)


def join_row(ctx: AttentionContext, index: Int32) -> None:
    """Write row ``index`` of the query tile, and its log-sum-exp."""
    extras, spec = ctx.args.extras, ctx.spec.combine_spec
    position = ctx.work.position + index // ctx.spec.rows_per_position
    place = PlacedRow(position, query_head(ctx, index))
    row = partial = row_store.query_row(ctx, place)
    if ctx.spec.variant.streams_keys:
        partial = row_store.first_row_of_part(ctx, 0) + row_store.row_of_part(ctx, index)
        rows = row_store.rows_of_part(ctx)
    else:
        rows = extras.partial_rows
    splits = Splits(
        extras.partial_o + partial * (spec.depth * spec.partial_bytes),
        extras.partial_lse + partial * gmem.WORD_BYTES,
        rows,
        num_parts(ctx),
    )
    highest, total = SplitRows(spec).write_row(splits, extras.o, row)
    if spec.return_lse:
        address = row_store.log_sum_exp_address(ctx, place)
        gmem.store_f32(address, log_sum_exp(highest, total))


@cute.jit
def join_if_last(ctx: AttentionContext, written: cutlass.Constexpr[NamedBarrier]) -> None:
    """Write the query tile's rows of O if the CTA is the last one; nothing where it had it alone.

    The threads that write meet at the barrier ``written``.
    """
    if cutlass.const_expr(ctx.spec.variant.streams_keys):
        if ctx.work.num_parts > 1:
            join_parts_if_last(ctx, written)
    else:
        join_parts_if_last(ctx, written)


@cute.jit
def join_parts_if_last(
    ctx: AttentionContext, written: cutlass.Constexpr[NamedBarrier]
) -> None:
    """Write the query tile's rows of O if the CTA is the last one, a row a warp at a time."""
    if is_last(ctx, written) != 0:
        num_warps = written.threads // WARP_THREADS
        positions = ctx.work.sequence.seqlen_q - ctx.work.position
        count = DEVICE.minimum(positions, ctx.spec.tile_positions) * ctx.spec.rows_per_position
        for index in cutlass.range(ids.warp_index(), count, num_warps, unroll=1):
            join_row(ctx, index)
