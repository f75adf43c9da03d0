"""Last step of the softmax role where a cluster shares the keys: O summed over its CTAs.

Every CTA has seen some of the key tiles of the query tile, or none. It deposits its own normalised
O and, per row, what its sum is relative to and the sum in shared memory; tells all CTAs so; and
then adds up one band of columns over all CTAs, through their shared memory. With ``t_p`` and
``s_p`` the two numbers of partition ``p`` and ``t`` the largest ``t_p``, the row is
``sum_p w_p O_p / sum_p w_p`` with ``w_p = s_p 2**(t_p - t)``, always added in the order of the
partitions. A partition that saw no key of the row has ``s_p = 0`` and zeros for O: it is neutral.

The warp groups divide the columns, both of a CTA's O and of its band. Offsets, bands and counts:
``plan.config.reduce_scatter``. Source: ``docs/sources.md`` section 9.
"""

from dataclasses import dataclass, replace
from functools import partial

import cutlass
from cutlass import Boolean, Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import epilogue
from ..device.math.arith import exp2_hardware, fma, max2, mul, pack16, reciprocal
from ..device.memory import dsmem, shared
from ..device.memory.tma import finish_sources
from ..device.sync import barriers, pair
from ..plan.barriers.chains import NUM_CHAINS
from ..plan.barriers.named import PACK
from ..plan.config.reduce_scatter import PIECE_COLUMNS, ReduceScatterPlan
from ..plan.facts.hardware import VECTOR_COLUMNS
from ..tma import store_query_chunk
from ..work.context import KernelContext
from ..work.row import SoftmaxRow
from . import row_store
from .columns import OutputColumns
from .copies import for_chains, for_each_unit, put_share
from .join_groups import join_groups
from .row_result import RowResult, write_log_sum_exp
from .two_q import accumulator, all_columns
from .write import may_store_boxes, output_factor, wait_for_output


@dataclass(frozen=True)
class Stage:
    """What one CTA deposited in its shared memory.

    Attributes:
        plan: its offsets.
        address: where it starts: a shared address, or that of another CTA in the cluster.
        row: the calling thread's row.
    """

    plan: ReduceScatterPlan
    address: Int32
    row: Int32

    @classmethod
    def of(cls, ctx: KernelContext, row: Int32) -> "Stage":
        """Return the stage of the calling CTA, for a thread that owns ``row``."""
        plan = ctx.spec.config.reduce_scatter
        return cls(plan, ctx.smem.reduce_scatter_smem(), row)

    def in_cluster(self) -> list["Stage"]:
        """Return the stages of all CTAs, in the order of the partitions."""
        ranks = range(self.plan.num_partitions)
        return [Stage(self.plan, pair.address_in(self.address, p), self.row) for p in ranks]

    def partial_address(self, column: Int32 | int) -> Int32:
        """Return the address of four columns of the row's O from ``column`` on."""
        place = self.plan.partial_offset(column) + self.row * self.plan.row_stride
        return self.address + place

    def row_values_address(self) -> Int32:
        """Return the address of the row's two numbers."""
        plan = self.plan
        return self.address + plan.row_values_offset + self.row * plan.row_values_stride

    def block_address(self, start: int) -> Int32:
        """Return the address of the packed block that begins at column ``start`` of the band."""
        plan = self.plan
        return self.address + plan.output_offset + start // plan.block_columns * plan.block_bytes

    def deposit_columns(self, column: int, values: list[Float32]) -> None:
        """Store ``values`` of the row's O from ``column`` on."""
        for i in range(0, len(values), VECTOR_COLUMNS):
            vector = values[i : i + VECTOR_COLUMNS]
            shared.store_vector(self.partial_address(column + i), vector)

    def deposit_row_values(self, result: RowResult) -> None:
        """Store what the row's sum is relative to, and the sum."""
        address = self.row_values_address()
        for i, value in enumerate((result.top, result.total)):
            shared.store_f32(address + i * (self.plan.row_values_stride // 2), value)


def deposited_columns(
    ctx: KernelContext, row: SoftmaxRow, chains: tuple[int, ...], weights: tuple[Float32, ...]
) -> OutputColumns:
    """Return the pieces that the warp group deposits: all of a lone chain, or its part of both."""
    whole = all_columns(ctx, row.chain)
    group = row.chain if len(chains) > 1 else None
    return replace(
        whole,
        pieces=ctx.spec.config.reduce_scatter.pieces(group),
        accumulators=tuple(accumulator(ctx, chain) for chain in chains),
        weights=weights,
    )


def deposit_output(
    ctx: KernelContext, row: SoftmaxRow, columns: OutputColumns, result: RowResult
) -> None:
    """Deposit ``columns``, normalised, for the cluster; no wait."""
    stage = Stage.of(ctx, row.index)
    factors = columns.factors(output_factor(ctx, result))
    for piece in columns.pieces:
        parts = columns.load_parts(ctx, factors, piece)
        stage.deposit_columns(piece, epilogue.weighted_sum(parts))
    if row.chain == 0:
        stage.deposit_row_values(result)


def deposit_share(
    ctx: KernelContext, row: SoftmaxRow, first: Int32, values: list[Float32]
) -> None:
    """Deposit ``values`` of the row from column ``first`` on, as far as there are such columns."""
    stage = Stage.of(ctx, row.index)

    def put(column: Int32, unit: list[Float32]) -> None:
        stage.deposit_columns(column, unit)

    for_each_unit(ctx, first, values, put, stage.plan.staged_columns)


def deposit_shares(
    ctx: KernelContext,
    row: SoftmaxRow,
    values: tuple[Float32, Float32],
    chains: tuple[int, ...],
) -> None:
    """Deposit the thread's share of O, summed over the copies of its row in ``chains``; without
    chains no key has been seen."""
    result = put_share(ctx, row, values, chains, deposit_share)
    if row.chain == 0:
        deposit_row_values_once(ctx, row, result)


@cute.jit
def deposit_row_values_once(ctx: KernelContext, row: SoftmaxRow, result: RowResult) -> None:
    """Deposit the row's two numbers: the first of its copies does."""
    if row.copy == 0:
        Stage.of(ctx, row.index).deposit_row_values(result)


def deposit_joined(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> None:
    """Join the row with the other warp group's, and deposit the group's columns.

    The stage covers Q and all of the ring. It may be written: both groups have waited for the last
    P V of their chain, and the exchange of their rows tells each of the other.
    """
    wait_for_output(ctx, all_columns(ctx, row.chain))
    joined = join_groups(ctx, row, row_max, row_sum)
    result = RowResult.of(ctx, row, joined.row_max, joined.row_sum)
    wait_for_output(ctx, all_columns(ctx, NUM_CHAINS - 1 - row.chain))
    columns = deposited_columns(ctx, row, tuple(range(NUM_CHAINS)), joined.weights)
    deposit_output(ctx, row, columns, result)


@cute.jit
def deposit_alone(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> None:
    """Deposit all columns of a CTA that visits a single key tile, or none and deposits zeros."""
    result = RowResult.of(ctx, row, row_max, row_sum)
    columns = deposited_columns(ctx, row, (row.chain,), ())
    if ctx.work.num_key_tiles > 0:
        wait_for_output(ctx, columns)
        deposit_output(ctx, row, columns, result)
    else:
        stage = Stage.of(ctx, row.index)
        for piece in columns.pieces:
            stage.deposit_columns(piece, [Float32(0.0)] * PIECE_COLUMNS)
        stage.deposit_row_values(result)


def publish(ctx: KernelContext) -> None:
    """Tell all CTAs that the calling warp's rows can be read, and wait until all of theirs can."""
    published = ctx.mbars.publish()
    dsmem.arrive_in_all(published.address, ctx.spec.config.splitk_partitions)
    # A cluster takes one query tile, so this is the only time.
    published.wait(0, of_cluster=True)


def weigh(stages: list[Stage]) -> tuple[RowResult, list[Float32]]:
    """Return the row over all partitions, and the weight of each partition's O."""
    numbers = [dsmem.load_f32x2(stage.row_values_address()) for stage in stages]
    top = numbers[0][0]
    for own, _ in numbers[1:]:
        top = max2(top, own)
    # The tops are finite, also of rows that saw no key, so no difference is NaN on their account.
    weights = [mul(total, exp2_hardware(own - top)) for own, total in numbers]
    total = weights[0]
    for weight in weights[1:]:
        total = total + weight
    factor = Float32(
        cutlass.select_(total == Float32(0.0), Float32(0.0), reciprocal(total))
    )
    return RowResult(top, total, Float32(1.0)), [mul(weight, factor) for weight in weights]


def sum_unit(
    stages: list[Stage], weights: list[Float32], column: Int32, ptx_type: str
) -> list[Int32]:
    """Return the packed words of one unit of the row from ``column`` on, over all partitions."""
    plan = stages[0].plan
    sums: list[Float32] = []
    for first in range(0, plan.unit_columns, VECTOR_COLUMNS):
        vectors = [dsmem.load_f32x4(stage.partial_address(column + first)) for stage in stages]
        part = [mul(value, weights[0]) for value in vectors[0]]
        for vector, weight in zip(vectors[1:], weights[1:], strict=True):
            part = [fma(value, weight, before) for value, before in zip(vector, part, strict=True)]
        sums += part
    return [pack16(sums[i], sums[i + 1], ptx_type) for i in range(0, len(sums), 2)]


def of_copy(ctx: KernelContext, row: SoftmaxRow, copy: int, is_due: Boolean) -> Boolean:
    """Return whether something ``is_due`` of the warp: copy ``copy`` of the rows does it."""
    if ctx.spec.row_copies == 1:
        return is_due
    return cutlass.select_(row.copy == copy, is_due, Boolean(False))


@cute.jit
def write_log_sum_exp_once(ctx: KernelContext, row: SoftmaxRow, result: RowResult) -> None:
    """Write the log-sum-exp: one warp group of one CTA does."""
    if cutlass.const_expr(row.chain == 0 and ctx.spec.variant.return_lse):
        if of_copy(ctx, row, 0, ctx.work.split == 0):
            write_log_sum_exp(ctx, row, result)


@cute.jit
def sum_band(
    ctx: KernelContext,
    row: SoftmaxRow,
    stages: cutlass.Constexpr,
    weights: cutlass.Constexpr,
    put: cutlass.Constexpr,
    end: cutlass.Constexpr[int],
) -> None:
    """Hand the warp group's units of the CTA's band to ``put``, those before column ``end``.

    Copies of the rows divide the units.
    """
    plan, ptx_type = ctx.spec.config.reduce_scatter, ctx.spec.output_dtype.ptx_name
    units = plan.units(row.chain)
    for i in cutlass.range_constexpr(len(units)):
        column = plan.band_start(ctx.work.split) + units[i]
        if of_copy(ctx, row, i % ctx.spec.row_copies, column < end):
            put(ctx, row, units[i], sum_unit(stages, weights, column, ptx_type))


def pack_unit(ctx: KernelContext, row: SoftmaxRow, start: int, words: list[Int32]) -> None:
    """Stage ``words`` of the row, from column ``start`` of the band on, for TMA."""
    stage = Stage.of(ctx, row.index)
    within = start % stage.plan.block_columns // stage.plan.unit_columns
    chunk = stage.block_address(start)
    epilogue.store_row_units(chunk, row.index, within, words, stage.plan.swizzle)


def write_unit(ctx: KernelContext, row: SoftmaxRow, start: int, words: list[Int32]) -> None:
    """Write ``words`` of the row, from column ``start`` of the band on, to global memory."""
    column = ctx.spec.config.reduce_scatter.band_start(ctx.work.split) + start
    row_store.store_units(ctx, row, column, words)


@cute.jit
def store_blocks(ctx: KernelContext, row: SoftmaxRow) -> None:
    """Store the packed band with TMA, block by block; rows past the sequence are dropped."""
    plan, sequence = ctx.spec.config.reduce_scatter, ctx.work.sequence
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(PACK.number, PACK.threads)
    if cutlass.const_expr(row.chain == 0):
        # The first warp of the CTA is one of this group's.
        if warp_index() == 0:
            stage = Stage.of(ctx, row.index)
            position = sequence.first_query + ctx.work.position
            where = (position, ctx.work.head, sequence.query_batch)
            for i in cutlass.range_constexpr(len(plan.blocks)):
                column = plan.band_start(ctx.work.split) + plan.blocks[i]
                if column < plan.depth:
                    block = stage.block_address(plan.blocks[i])
                    store_query_chunk(ctx.maps.o, where, column, block)
            finish_sources()


@cute.jit
def write_band(ctx: KernelContext, row: SoftmaxRow) -> None:
    """Add up and write the CTA's band of O; partition 0 also writes the log-sum-exp."""
    plan, stages = ctx.spec.config.reduce_scatter, Stage.of(ctx, row.index).in_cluster()
    result, weights = weigh(stages)
    write_log_sum_exp_once(ctx, row, result)
    if cutlass.const_expr(ctx.spec.variant.ragged_q):
        # A box that ends past the sequence would overwrite the next one.
        if may_store_boxes(ctx, ctx.order.query_tile(row.chain)):
            sum_band(ctx, row, stages, weights, pack_unit, plan.block_end)
            store_blocks(ctx, row)
        else:
            sum_band(ctx, row, stages, weights, write_unit, plan.depth)
    else:
        sum_band(ctx, row, stages, weights, pack_unit, plan.block_end)
        store_blocks(ctx, row)


@cute.jit
def write_output(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> None:
    """Write what the warp group owes of O and the log-sum-exp, once all CTAs have their part."""
    if cutlass.const_expr(ctx.spec.row_copies > 1):
        for_chains(ctx, row, partial(deposit_shares, ctx, row, (row_max, row_sum)))
    elif ctx.work.num_key_tiles > 1:
        deposit_joined(ctx, row, row_max, row_sum)
    elif cutlass.const_expr(row.chain == 0):
        # A single key tile, or none, leaves the second group without work.
        deposit_alone(ctx, row, row_max, row_sum)
    publish(ctx)
    write_band(ctx, row)
