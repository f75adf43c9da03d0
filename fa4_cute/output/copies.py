"""Last step of the softmax role where the lanes hold copies of few rows: O summed over the copies.

All copies of a row, in both warp groups, exchange their maxima and sums (``output.join_groups``).
Then each weighs what it has of O, leaves it for the copies that add up its columns, and adds up its
own share of them (``plan.config.copies``). A thread writes a few columns of its row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.lanes import lane_address
from ..device.math import epilogue
from ..device.math.pack import pack_pairs
from ..device.memory import shared, tmem
from ..device.memory.tma import finish_sources
from ..device.sync import barriers
from ..plan.barriers.chains import NUM_CHAINS
from ..plan.barriers.named import COPIES, JOIN
from ..plan.facts.hardware import UNIT_BYTES, VECTOR_COLUMNS
from ..work.depth512 import Depth512Context
from . import row_store
from .columns import OutputColumns, Part
from .depth512 import block_columns
from .join_groups import CopiedContext, CopiedRow, join_copies
from .row_result import RowResult, write_log_sum_exp
from .two_q import all_columns
from .write import output_factor, store_chunks, wait_for_output

Put = Callable[[Any, Any, Int32, list[Float32]], None]
"""Writes values of the calling row from a column on: (context, row, column, values)."""


def columns_of(ctx: CopiedContext, chain: int) -> OutputColumns:
    """Return the columns of O of warp group ``chain``: all."""
    if isinstance(ctx, Depth512Context):
        return block_columns(ctx, 0)
    return all_columns(ctx, chain)


@dataclass(frozen=True)
class CopyShares:
    """The shares of O of the calling thread's row.

    Attributes:
        ctx, row: the CTA and the row, one of its copies.
        chains: the warp groups that have an O of the row, and divide its columns.
        weights: per chain, the factor that makes its O relative to the common maximum.
    """

    ctx: CopiedContext
    row: CopiedRow
    chains: tuple[int, ...]
    weights: tuple[Float32, ...]

    @property
    def width(self) -> int:
        """Columns of a share."""
        return self.ctx.spec.config.copies_plan.share(len(self.chains))

    def number(self, copy: Int32) -> Int32:
        """Return the number of the share of copy ``copy`` of the calling warp group."""
        return copy + self.row.chain * self.ctx.spec.row_copies

    def weighed(self, share: Int32) -> list[Float32]:
        """Return what the thread's lane has of share ``share``, relative to the common maximum."""
        column = share * self.width
        starts = [columns_of(self.ctx, chain).accumulators[0].start for chain in self.chains]
        loads: list[Float32] = []
        for start in starts:
            loads += tmem.load(lane_address(self.ctx.tmem, start) + column, self.width)
        arrived = tmem.wait_loads(loads)
        columns = [arrived[i : i + self.width] for i in range(0, len(arrived), self.width)]
        parts: list[Part] = list(zip(columns, self.weights, strict=True))
        return epilogue.weighted_sum(parts)

    def place(self, share: Int32, turn: int) -> Int32:
        """Return the address of the row's first columns of ``share``, left ``turn`` copies on."""
        plan = self.ctx.spec.config.copies_plan
        first = self.ctx.smem.copies_smem() + self.row.index * plan.row_bytes
        return first + plan.offset(share, turn, len(self.chains))

    def own(self) -> tuple[Int32, list[Float32]]:
        """Return the first column of the thread's share, and the sum over all copies.

        The memory may be written: the row values of all copies have been exchanged, and so P V of
        all accumulators is over, whose operands lie there.
        """
        copies, step = self.ctx.spec.row_copies, self.ctx.spec.config.copies_plan.vector_bytes
        starts = range(0, self.width, VECTOR_COLUMNS)
        for turn in range(1, copies):
            share = self.number((self.row.copy + turn) % copies)
            values, place = self.weighed(share), self.place(share, turn)
            for i, start in enumerate(starts):
                vector = values[start : start + VECTOR_COLUMNS]
                shared.store_vector(place + i * step, vector)
        mine = self.number(self.row.copy)
        total = self.weighed(mine)
        barriers.named_barrier(COPIES.numbers[self.row.chain], COPIES.threads)
        for turn in range(1, copies):
            place = self.place(mine, turn)
            for i, start in enumerate(starts):
                vector = shared.load_vector(place + i * step, VECTOR_COLUMNS)
                for j, value in enumerate(vector):
                    total[start + j] = total[start + j] + value
        return mine * self.width, total


def put_zeros(
    ctx: CopiedContext, row: CopiedRow, values: tuple[Float32, Float32], put: Put
) -> RowResult:
    """Hand zeros to ``put``, and return the row, of which no copy has seen a key: nothing is
    exchanged, and no P V wrote O. The first group writes all columns."""
    shares = CopyShares(ctx, row, (row.chain,), ())
    put(ctx, row, shares.number(row.copy) * shares.width, [Float32(0.0)] * shares.width)
    return RowResult.of(ctx, row, *values)


def put_share(
    ctx: CopiedContext,
    row: CopiedRow,
    values: tuple[Float32, Float32],
    chains: tuple[int, ...],
    put: Put,
) -> RowResult:
    """Hand the thread's share of O to ``put``, and return the row over all copies.

    The wait for P V is the first thing. In a persistent CTA both groups have said "stored" before
    the first P V of a query tile: only then may values and sums of the one before be overwritten.

    Args:
        ctx, row: the CTA and the row.
        values: maximum and sum of the row's copy.
        chains: the warp groups that have seen key tiles; without any no key has been seen.
        put: writes it.
    """
    if not chains:
        return put_zeros(ctx, row, values, put)
    wait_for_output(ctx, columns_of(ctx, row.chain))
    joined = join_copies(ctx, row, *values, chains)
    result = RowResult.of(ctx, row, joined.row_max, joined.row_sum)
    for chain in chains:
        # The groups have met, so that it is over at once; but reading O takes a wait of one's own.
        wait_for_output(ctx, columns_of(ctx, chain))
    column, total = CopyShares(ctx, row, chains, joined.weights).own()
    factor = output_factor(ctx, result)
    put(ctx, row, column, [value * factor for value in total])
    return result


def packed(ctx: CopiedContext, values: list[Float32]) -> list[Int32]:
    """Return ``values`` in the type of O, two a word."""
    pairs = list(zip(values[::2], values[1::2], strict=True))
    return pack_pairs(pairs, ctx.spec.output_dtype)


@cute.jit
def for_each_unit(
    ctx: CopiedContext,
    first: Int32,
    values: cutlass.Constexpr,
    put: cutlass.Constexpr,
    end: cutlass.Constexpr[int],
) -> None:
    """Call ``put(column, values)`` for each unit of ``values`` before column ``end``."""
    width = UNIT_BYTES // ctx.spec.output_dtype.size
    for i in cutlass.range_constexpr(0, len(values), width):
        column = first + i
        if cutlass.const_expr(ctx.spec.config.copies_plan.columns == end):
            put(column, values[i : i + width])
        else:
            if column < end:
                put(column, values[i : i + width])


def put_rows(
    ctx: CopiedContext, row: CopiedRow, first: Int32, values: list[Float32]
) -> None:
    """Write ``values`` of the row to O."""

    def put(column: Int32, unit: list[Float32]) -> None:
        row_store.store_units(ctx, row, column, packed(ctx, unit))

    for_each_unit(ctx, first, values, put, ctx.spec.output_depth)


def put_partial(
    ctx: CopiedContext, row: CopiedRow, first: Int32, values: list[Float32]
) -> None:
    """Write ``values`` of the row to the CTA's partial O."""

    def put(column: Int32, unit: list[Float32]) -> None:
        row_store.store_partial_unit(ctx, row, column, unit)

    for_each_unit(ctx, first, values, put, ctx.spec.output_depth)


@cute.jit
def put_part(
    ctx: CopiedContext, row: CopiedRow, first: Int32, values: cutlass.Constexpr
) -> None:
    """Write ``values`` of the row with stream-K: to O if the CTA has the query tile for itself."""
    if ctx.work.num_parts > 1:
        put_partial(ctx, row, first, values)
    else:
        put_rows(ctx, row, first, values)


def put_staged(
    ctx: CopiedContext, row: CopiedRow, first: Int32, values: list[Float32]
) -> None:
    """Stage ``values`` of the row for TMA."""
    width = ctx.spec.output_elems
    tile = ctx.order.query_tile(row.chain)
    units = first % width * ctx.spec.output_dtype.size // UNIT_BYTES
    # A share is part of a chunk, or whole ones.
    for i, start in enumerate(range(0, len(values), width)):
        chunk = ctx.output_chunk(tile, first // width + i)
        words = packed(ctx, values[start : start + width])
        epilogue.store_row_units(chunk, row.index, units, words)


def way_of(ctx: CopiedContext) -> Put:
    """Return how a thread writes what it has of O."""
    variant = ctx.spec.variant
    if variant.streams_keys:
        return put_part
    if variant.is_split:
        return put_partial
    return put_rows if variant.has_output_address else put_staged


@cute.jit
def store_staged(ctx: CopiedContext, row: CopiedRow, chains: cutlass.Constexpr) -> None:
    """Store the staged O of the groups of ``chains`` with TMA; rows past the sequence are dropped.
    """
    barriers.fence_proxy_async_shared()
    if cutlass.const_expr(len(chains) == NUM_CHAINS):
        barriers.named_barrier(JOIN.number, JOIN.threads)
    else:
        barriers.named_barrier(COPIES.numbers[row.chain], COPIES.threads)
    if cutlass.const_expr(row.chain == 0):
        if warp_index() == 0:
            store_chunks(ctx, columns_of(ctx, row.chain))
            finish_sources()


@cute.jit
def write_log_sum_exp_once(
    ctx: CopiedContext, row: CopiedRow, result: RowResult
) -> None:
    """Write the log-sum-exp of a row: its first copy of the first group does."""
    if cutlass.const_expr(row.chain == 0):
        if row.copy == 0:
            write_log_sum_exp(ctx, row, result)


@cute.jit
def do_alone(ctx: CopiedContext, row: CopiedRow, do: cutlass.Constexpr) -> None:
    """Call ``do`` for a warp group that has all key tiles of its rows, or none."""
    if ctx.work.num_key_tiles > 0:
        do((row.chain,))
    else:
        do(())


@cute.jit
def for_chains(ctx: CopiedContext, row: CopiedRow, do: cutlass.Constexpr) -> None:
    """Call ``do(the warp groups that have seen key tiles)`` in those that have something to do."""
    if cutlass.const_expr(not ctx.order.deals_out):
        do_alone(ctx, row, do)
    elif ctx.work.num_key_tiles > 1:
        do(tuple(range(NUM_CHAINS)))
    elif cutlass.const_expr(row.chain == 0):
        # A single key tile, or none, leaves the second group without work.
        do_alone(ctx, row, do)


def write_shares(
    ctx: CopiedContext,
    row: CopiedRow,
    values: tuple[Float32, Float32],
    chains: tuple[int, ...],
) -> None:
    """Write the thread's share of O, and the log-sum-exp; arguments as of :func:`put_share`."""
    put = way_of(ctx)
    result = put_share(ctx, row, values, chains, put)
    write_log_sum_exp_once(ctx, row, result)
    if put is put_staged:
        store_staged(ctx, row, chains)


def write_output(
    ctx: CopiedContext, row: CopiedRow, row_max: Float32, row_sum: Float32
) -> None:
    """Write what the warp group owes of O and the log-sum-exp, once its last tile is done."""
    for_chains(ctx, row, partial(write_shares, ctx, row, (row_max, row_sum)))
