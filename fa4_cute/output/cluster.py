"""Last step of the softmax role where a cluster shares the keys: O summed over its CTAs.

Every CTA has seen some of the key tiles of the query tile, or none. It leaves its own normalised O
and, per row, what its sum is relative to and the sum in shared memory; tells all CTAs so; and then
adds up one band of columns over all CTAs, through their shared memory. With ``t_p`` and ``s_p`` the
two numbers of partition ``p`` and ``t`` the largest ``t_p``, the row is
``sum_p w_p O_p / sum_p w_p`` with ``w_p = s_p 2**(t_p - t)``, always added in the order of the
partitions. A partition that saw no key of the row has ``s_p = 0`` and zeros for O: it is neutral.

The warp groups share the columns out, both of a CTA's O and of its band. Offsets, bands and counts:
``plan.config.reduce_scatter``. Source: ``modular-sm100-attention.md`` section 5.12.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import epilogue
from ..device.math.arith import exp2_hardware, fma, max2, mul, pack16, reciprocal
from ..device.memory import dsmem, shared
from ..device.memory.tma import finish_stores
from ..device.sync import barriers, pair
from ..plan.barriers.mbars import NUM_CHAINS
from ..plan.barriers.pipeline_plan import BarrierWait
from ..plan.config.reduce_scatter import (
    PIECE_COLUMNS,
    PUBLISH_PHASE,
    VECTOR_COLUMNS,
    ReduceScatterPlan,
)
from ..plan.facts.hardware import WARP_GROUP_THREADS
from ..tma import store_query_chunk
from ..work.context import KernelContext
from . import row_store as rows
from .join_groups import join_halves
from .row_result import RowResult, write_log_sum_exp
from .two_q import OutputShare, load_parts, may_store_boxes, wait_for_output

PACK_BARRIER = 1
"""Named barrier of both softmax warp groups between packing the band and storing it; they have none
of their own here."""


@dataclass(frozen=True)
class Stage:
    """What one CTA left in its shared memory.

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
        return cls(plan, ctx.smem + ctx.layout.reduce_scatter_smem(), row)

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

    def leave_columns(self, column: int, values: list[Float32]) -> None:
        """Store ``values`` of the row's O from ``column`` on."""
        for i in range(0, len(values), VECTOR_COLUMNS):
            vector = values[i : i + VECTOR_COLUMNS]
            shared.store_v4(self.partial_address(column + i), vector)

    def leave_row_values(self, result: RowResult) -> None:
        """Store what the row's sum is relative to, and the sum."""
        address = self.row_values_address()
        for i, value in enumerate((result.top, result.total)):
            shared.store_f32(address + i * (self.plan.row_values_stride // 2), value)


def leave_share(ctx: KernelContext, line, share: OutputShare, result: RowResult) -> None:
    """Leave the columns of ``share``, normalised, for the cluster; no wait."""
    stage = Stage.of(ctx, line.row)
    factors = share.factors(ctx, result)
    for column in share.chunks:
        parts = load_parts(ctx, share, factors, column)
        stage.leave_columns(column, epilogue.weighted_sum(parts))
    if line.chain == 0:
        stage.leave_row_values(result)


def leave_half(ctx: KernelContext, line, row_max: Float32, row_sum: Float32) -> None:
    """Join the row with the other warp group's half, and leave the group's columns.

    The stage covers Q and all of the ring. It may be written: both groups have waited for the last
    P V of their chain, and the exchange of the halves tells each of the other.
    """
    wait_for_output(ctx, line.chain)
    joined = join_halves(ctx, line, row_max, row_sum)
    result = RowResult.of(ctx, line, joined.row_max, joined.row_sum)
    wait_for_output(ctx, NUM_CHAINS - 1 - line.chain)
    pieces = ctx.spec.config.reduce_scatter.pieces(line.chain)
    leave_share(ctx, line, OutputShare(pieces, (0, 1), joined.weights, ()), result)


@cute.jit
def leave_all(ctx: KernelContext, line, row_max: Float32, row_sum: Float32):
    """Leave all columns of a CTA that visits a single key tile, or none and leaves zeros."""
    result = RowResult.of(ctx, line, row_max, row_sum)
    pieces = ctx.spec.config.reduce_scatter.pieces(None)
    if ctx.work.num_key_tiles > 0:
        wait_for_output(ctx, line.chain)
        leave_share(ctx, line, OutputShare(pieces, (line.chain,), (), ()), result)
    else:
        stage = Stage.of(ctx, line.row)
        for column in pieces:
            stage.leave_columns(column, [Float32(0.0)] * PIECE_COLUMNS)
        stage.leave_row_values(result)


def publish(ctx: KernelContext) -> None:
    """Tell all CTAs that the calling warp's rows can be read, and wait until all of theirs can."""
    mbar = ctx.spec.config.misc_mbars.publish_offset
    dsmem.arrive_in_all(ctx.barriers.address_of(mbar), ctx.spec.config.splitk_partitions)
    event = BarrierWait(mbar, PUBLISH_PHASE)
    barriers.mbarrier_wait(ctx.barriers.address_of(event.mbar), Int32(event.phase), cluster=True)


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


def sum_unit(stages: list[Stage], weights: list[Float32], column: Int32, ptx_type: str) -> list:
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


@cute.jit
def write_row_sum(ctx: KernelContext, line, result: RowResult):
    """Write the log-sum-exp: one warp group of one CTA does."""
    if cutlass.const_expr(line.chain == 0 and ctx.spec.variant.return_lse):
        # Nested: the outer test is made while tracing, the inner one by the kernel.
        is_first = ctx.work.split == 0
        if is_first:
            write_log_sum_exp(ctx, line, result)


@cute.jit
def sum_band(
    ctx: KernelContext,
    line,
    stages: cutlass.Constexpr,
    weights: cutlass.Constexpr,
    put: cutlass.Constexpr,
    end: cutlass.Constexpr[int],
):
    """Hand the warp group's units of the CTA's band to ``put``, those before column ``end``."""
    plan, ptx_type = ctx.spec.config.reduce_scatter, ctx.spec.output_dtype.ptx_name
    units = plan.units(line.chain)
    for i in cutlass.range_constexpr(len(units)):
        column = plan.band_start(ctx.work.split) + units[i]
        if column < end:
            put(ctx, line, units[i], sum_unit(stages, weights, column, ptx_type))


def pack_unit(ctx: KernelContext, line, start: int, words: list) -> None:
    """Stage ``words`` of the row, from column ``start`` of the band on, for TMA."""
    stage = Stage.of(ctx, line.row)
    within = start % stage.plan.block_columns // stage.plan.unit_columns
    chunk = stage.block_address(start)
    epilogue.store_row_units(chunk, line.row, within, words, stage.plan.swizzle)


def write_unit(ctx: KernelContext, line, start: int, words: list) -> None:
    """Write ``words`` of the row, from column ``start`` of the band on, to global memory."""
    column = ctx.spec.config.reduce_scatter.band_start(ctx.work.split) + start
    rows.store_unit(ctx, line, column, words)


@cute.jit
def store_blocks(ctx: KernelContext, line):
    """Store the packed band with TMA, block by block; rows past the sequence are dropped."""
    plan, sequence = ctx.spec.config.reduce_scatter, ctx.work.sequence
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(PACK_BARRIER, NUM_CHAINS * WARP_GROUP_THREADS)
    if cutlass.const_expr(line.chain == 0):
        # The first warp of the CTA is one of this group's.
        is_storing = warp_index() == 0
        if is_storing:
            stage = Stage.of(ctx, line.row)
            position = sequence.first_query + ctx.work.position
            where = (position, ctx.work.head, sequence.query_batch)
            for i in cutlass.range_constexpr(len(plan.blocks)):
                column = plan.band_start(ctx.work.split) + plan.blocks[i]
                if column < plan.depth:
                    block = stage.block_address(plan.blocks[i])
                    store_query_chunk(ctx.spec, ctx.maps.o, where, column, block)
            finish_stores()


@cute.jit
def write_band(ctx: KernelContext, line):
    """Add up and write the CTA's band of O; partition 0 also writes the log-sum-exp."""
    plan, stages = ctx.spec.config.reduce_scatter, Stage.of(ctx, line.row).in_cluster()
    result, weights = weigh(stages)
    write_row_sum(ctx, line, result)
    if cutlass.const_expr(ctx.spec.variant.ragged_q):
        # A box that ends past the sequence would overwrite the next one.
        if may_store_boxes(ctx, line):
            sum_band(ctx, line, stages, weights, pack_unit, plan.block_end)
            store_blocks(ctx, line)
        else:
            sum_band(ctx, line, stages, weights, write_unit, plan.depth)
    else:
        sum_band(ctx, line, stages, weights, pack_unit, plan.block_end)
        store_blocks(ctx, line)


@cute.jit
def write_output(ctx: KernelContext, line, row_max: Float32, row_sum: Float32):
    """Write what the warp group owes of O and the log-sum-exp, once all CTAs have their part."""
    if ctx.work.num_key_tiles > 1:
        leave_half(ctx, line, row_max, row_sum)
    elif cutlass.const_expr(line.chain == 0):
        # A single key tile, or none, leaves the second group without work.
        leave_all(ctx, line, row_max, row_sum)
    publish(ctx)
    write_band(ctx, line)
