"""Last step of the softmax role: O divided by the row sum, staged and stored, or written by rows.

O is staged in shared memory over the Q tile of its rows, and with fp8 operands over part of the K/V
ring. Both are free: ``O_prod`` follows, on the one issuing thread, every MMA that reads them
(``SM100AttentionSMem.o_chunk_smem``).

With two Q tiles a warp group writes all columns of its own rows. With one, both groups hold a part
of every sum, and share the columns out.
Source: ``modular-sm100-attention.md`` section 5.8.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.lanes import lane_address
from ..device.math import epilogue
from ..device.math.arith import reciprocal
from ..device.memory import tmem
from ..device.memory.tma import finish_stores
from ..device.sync import barriers
from ..plan.barriers.mbars import NUM_CHAINS
from ..plan.barriers.named import STORE
from ..plan.facts.hardware import WARPS_PER_GROUP, ceil_div
from ..tma import store_query_chunk
from ..work.context import KernelContext
from . import row_store
from .join_groups import join_halves
from .row_result import RowResult, write_log_sum_exp

OUTPUT_COLUMNS = 32
"""Columns of O normalised at a time."""


def output_chunks(ctx: KernelContext) -> range:
    """Return the first columns of the chunks of O that hold real columns."""
    return range(0, ctx.spec.config.ov_depth, ctx.spec.output_elems)


@dataclass(frozen=True)
class OutputShare:
    """What a warp group writes of O: some chunks of columns, each a sum over accumulators.

    Attributes:
        chunks: first columns of the chunks.
        chains: the chains whose accumulators are added up.
        weights: the weight of each of them; empty stands for 1.
        pending: those of which the last P V has not been waited for.
    """

    chunks: range
    chains: tuple[int, ...]
    weights: tuple[Float32, ...]
    pending: tuple[int, ...]

    @classmethod
    def whole(cls, ctx: KernelContext, chain: int) -> "OutputShare":
        """Return the share of a warp group whose O is all there is of its rows."""
        return cls(output_chunks(ctx), (chain,), (), (chain,))

    @classmethod
    def half(cls, ctx: KernelContext, chain: int, weights: tuple[Float32, ...]) -> "OutputShare":
        """Return the share of a warp group that has its rows in common with the other one."""
        chunks = output_chunks(ctx)
        middle = ceil_div(len(chunks), NUM_CHAINS)
        mine = chunks[middle:] if chain else chunks[:middle]
        return cls(mine, tuple(range(NUM_CHAINS)), weights, (NUM_CHAINS - 1 - chain,))

    def factors(self, ctx: KernelContext, result: RowResult) -> tuple[Float32, ...]:
        """Return what each of the accumulators is multiplied by."""
        factor = output_factor(ctx, result)
        return tuple(factor * weight for weight in self.weights) or (factor,)


def first_position(ctx: KernelContext, row) -> Int32:
    """Return the sequence position of the first row of the warp group's Q tile."""
    tile = ctx.spec.issue_order.query_tile(row.chain)
    return ctx.work.position + tile * ctx.spec.tile_positions


def chunk_address(ctx: KernelContext, chain: int, column: int) -> Int32:
    """Return the shared address of the staged chunk of O that starts at ``column``."""
    tile = ctx.spec.issue_order.query_tile(chain)
    return ctx.smem.o_chunk_smem(tile, column // ctx.spec.output_elems)


def stage_columns(ctx: KernelContext, row, column: int, words: list) -> None:
    """Store packed ``words`` of the calling row from ``column`` on."""
    width = ctx.spec.output_elems
    unit = column % width * ctx.spec.output_dtype.size // epilogue.UNIT_BYTES
    chunk = chunk_address(ctx, row.chain, column - column % width)
    epilogue.store_row_units(chunk, row.index, unit, words)


def accumulator_columns(ctx: KernelContext, share: OutputShare) -> range:
    """Return the first columns of the pieces of the share, padding included."""
    end = share.chunks[-1] + ctx.spec.output_elems
    return range(share.chunks.start, end, OUTPUT_COLUMNS)


def load_accumulator(ctx: KernelContext, chain: int, column: int) -> list[Float32]:
    """Return ``OUTPUT_COLUMNS`` columns of the row's accumulator of ``chain``."""
    start = lane_address(ctx.tmem, ctx.columns.o(chain).start)
    return tmem.wait_loads(tmem.load(start + column, OUTPUT_COLUMNS))


def load_parts(ctx: KernelContext, share: OutputShare, factors: tuple, column: int) -> list:
    """Return (columns of the row's accumulator, factor) of every chain of the share."""
    return [
        (load_accumulator(ctx, chain, column), factor)
        for chain, factor in zip(share.chains, factors, strict=True)
    ]


def deliver_accumulator(ctx: KernelContext, row, share: OutputShare, factors, put) -> None:
    """Hand the share of O to ``put`` piece by piece."""
    for column in accumulator_columns(ctx, share):
        parts = load_parts(ctx, share, factors, column)
        put(ctx, row, column, epilogue.normalise_sum(parts, ctx.spec.output_dtype.ptx_name))


def deliver_zeros(ctx: KernelContext, row, share: OutputShare, put) -> None:
    """Hand zeros to ``put``: no key is visible, and the accumulator was never written."""
    for column in accumulator_columns(ctx, share):
        put(ctx, row, column, [Int32(0)] * (OUTPUT_COLUMNS // 2))


def deliver_partial(ctx: KernelContext, row, share: OutputShare, factors) -> None:
    """Write the share of O as the CTA's float32 share."""
    for column in accumulator_columns(ctx, share):
        parts = load_parts(ctx, share, factors, column)
        row_store.store_partial(ctx, row, column, epilogue.weighted_sum(parts))


def output_factor(ctx: KernelContext, result: RowResult) -> Float32:
    """Return what O is multiplied by; a row without a visible key has sum 0 and gives 0."""
    no_key = result.total == Float32(0.0)
    factor = reciprocal(result.total)
    if ctx.spec.scales_values:
        factor = factor * ctx.args.extras.value_scale
    factor = Float32(cutlass.select_(no_key, Float32(0.0), factor))
    return factor * result.keep if ctx.spec.variant.sink else factor


def wait_for_output(ctx: KernelContext, chain: int) -> None:
    """Wait for the last P V of ``chain``."""
    num_tiles = ctx.spec.issue_order.num_tiles(chain, ctx.work.num_key_tiles)
    ctx.mbars.consumer_o(chain).wait(ctx.step(chain, num_tiles - 1))
    tmem.fence_after_thread_sync()


def wait_for_share(ctx: KernelContext, share: OutputShare) -> None:
    """Wait for the last P V of all accumulators of the share."""
    for chain in share.pending:
        wait_for_output(ctx, chain)


@cute.jit
def write_through_memory(ctx: KernelContext, row, share: OutputShare, result: RowResult):
    """Stage O and store it with TMA. Rows past the sequence are dropped by the tensor map."""
    if ctx.work.num_key_tiles > 0:
        wait_for_share(ctx, share)
        deliver_accumulator(ctx, row, share, share.factors(ctx, result), stage_columns)
    else:
        deliver_zeros(ctx, row, share, stage_columns)
    barriers.fence_proxy_async_shared()
    barriers.named_barrier(STORE.numbers[row.chain], STORE.threads)
    if warp_index() % WARPS_PER_GROUP == 0:
        sequence = ctx.work.sequence
        first = sequence.first_query + first_position(ctx, row)
        where = (first, ctx.work.head, sequence.query_batch)
        for column in share.chunks:
            smem = chunk_address(ctx, row.chain, column)
            store_query_chunk(ctx.spec, ctx.maps.o, where, column, smem)
        finish_stores()


@cute.jit
def write_rows(ctx: KernelContext, row, share: OutputShare, result: RowResult):
    """Write O row by row, only the rows of the sequence."""
    if ctx.work.num_key_tiles > 0:
        wait_for_share(ctx, share)
        deliver_accumulator(ctx, row, share, share.factors(ctx, result), row_store.store_columns)
    else:
        deliver_zeros(ctx, row, share, row_store.store_columns)


@cute.jit
def write_partial(ctx: KernelContext, row, share: OutputShare, result: RowResult):
    """Write the CTA's share of O; a share without key tiles is told by its log-sum-exp alone."""
    if ctx.work.num_key_tiles > 0:
        wait_for_share(ctx, share)
        deliver_partial(ctx, row, share, share.factors(ctx, result))


def may_store_boxes(ctx: KernelContext, row):
    """Return whether packed rows may leave through shared memory: all of them are the sequence's.

    A persistent CTA stages only outputs, no zeros (see :func:`write_share`).
    """
    last = first_position(ctx, row) + ctx.spec.tile_positions
    whole = last <= ctx.work.sequence.seqlen_q
    if not ctx.spec.variant.is_persistent:
        return whole
    return cutlass.select_(ctx.work.num_key_tiles > 0, whole, cutlass.Boolean(False))


@cute.jit
def write_share(ctx: KernelContext, row, share: OutputShare, result: RowResult):
    """Write what the warp group's share of O is; a narrow O leaves one of the groups nothing."""
    if cutlass.const_expr(len(share.chunks) == 0):
        pass
    elif cutlass.const_expr(ctx.spec.variant.is_split):
        write_partial(ctx, row, share, result)
    elif cutlass.const_expr(ctx.spec.variant.ragged_q):
        # A box that ends past the sequence would overwrite the next one.
        if may_store_boxes(ctx, row):
            write_through_memory(ctx, row, share, result)
        else:
            write_rows(ctx, row, share, result)
    elif cutlass.const_expr(ctx.spec.variant.is_persistent):
        # Zeros are not staged: the Q tile may be loaded for the next query tile at any time.
        if ctx.work.num_key_tiles > 0:
            write_through_memory(ctx, row, share, result)
        else:
            write_rows(ctx, row, share, result)
    else:
        write_through_memory(ctx, row, share, result)


def write_alone(ctx: KernelContext, row, row_max: Float32, row_sum: Float32) -> None:
    """Write the log-sum-exp and O of rows whose key tiles were all the warp group's own."""
    result = RowResult.of(ctx, row, row_max, row_sum)
    write_log_sum_exp(ctx, row, result)
    write_share(ctx, row, OutputShare.whole(ctx, row.chain), result)


def write_half(ctx: KernelContext, row, row_max: Float32, row_sum: Float32) -> None:
    """Join the row with the other warp group's half, and write the group's share of O.

    The exchange implies that the other group's O is complete: its threads waited for that before.
    The wait in ``write_share`` stays, over at once, as the event that reading O depends on.

    The first group writes the log-sum-exp. The sink, folded in ``RowResult``, enters the common
    sum, of which both groups hold a copy: once per row all the same.
    """
    wait_for_output(ctx, row.chain)
    joined = join_halves(ctx, row, row_max, row_sum)
    result = RowResult.of(ctx, row, joined.row_max, joined.row_sum)
    if row.chain == 0:
        write_log_sum_exp(ctx, row, result)
    write_share(ctx, row, OutputShare.half(ctx, row.chain, joined.weights), result)


@cute.jit
def write_output(ctx: KernelContext, row, row_max: Float32, row_sum: Float32):
    """Write what the warp group owes of O and the log-sum-exp, once its last tile is done."""
    if cutlass.const_expr(ctx.spec.issue_order.deals_out):
        if ctx.work.num_key_tiles > 1:
            write_half(ctx, row, row_max, row_sum)
        elif cutlass.const_expr(row.chain == 0):
            # A single key tile, or none, leaves the second group without work.
            write_alone(ctx, row, row_max, row_sum)
    else:
        write_alone(ctx, row, row_max, row_sum)
