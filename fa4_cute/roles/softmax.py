"""Softmax role (warps 0-3 and 4-7): one warp group per S/O chain, one thread per row.

Per key tile: wait for S, find the row maximum, publish the correction factor, turn S into P (in
place: P borrows the low columns of S), hand P over in pv stages, add up the row sum. Where P
crosses, it is held in registers until the other group has read its S, and then stored there as a
whole. Then, once: divide O by the row sum, store it through shared memory and TMA, write the
log-sum-exp. A persistent CTA whose P cross leaves O to the correction role, which is told by
what it is multiplied, and goes on with the next query tile.

Edges: waits on ``S_prod`` (scores written), ``C`` consumed, and at the end ``O_prod``; arrives on
``C`` produced and ``S_cons[stage]`` (this part of P stored). Where P crosses, also arrives on
``S_read`` of the chain and waits on the other's.
"""

from functools import partial

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.lanes import lane_address
from ..device.math import softmax as softmax_math
from ..device.math.softmax import Exponent
from ..device.memory import shared, tmem
from ..device.registers import DEVICE
from ..device.sync.barriers import keep_in_front
from ..operands.scores import TileView, load_columns, masked, scores_and_max, scores_at_once
from ..operands.token_scales import (
    TileScales,
    keep_query_scale,
    release_scales,
    wait_for_scales,
)
from ..output.cluster import write_output as write_output_of_cluster
from ..output.copies import write_output as write_output_of_copies
from ..output.last import join_if_last
from ..output.row_result import RowResult, write_log_sum_exp
from ..output.two_q import write_output
from ..output.write import output_factor
from ..plan.barriers.chains import NUM_CHAINS
from ..plan.barriers.named import WRITTEN
from ..plan.compute.column_plan import ColumnPlan
from ..plan.facts.hardware import WARPS_PER_GROUP
from ..plan.masks.masks import is_zero
from ..plan.spec.register_tuning import joins_sum_early
from ..work.context import KernelContext, factor_address, place_of_p
from ..work.persistent import for_each_work, say_stored
from ..work.row import SoftmaxRow


class ScoreReader:
    """Scores of a row, batch by batch: resident in registers, or read from S again.

    What is read again is read one batch ahead, so that its latency lies under the exponentials.
    """

    def __init__(
        self, row: SoftmaxRow, columns: ColumnPlan, scores: list[Float32], tile: TileView
    ) -> None:
        """Take the resident ``scores`` of the row's ``columns``."""
        self.row = row
        self.columns = columns
        self.scores = scores
        self.tile = tile
        self.ahead: list[Float32] = []

    def take(self, batch: int) -> list[Float32]:
        """Return the masked scores of ``batch``."""
        span = self.columns.batches[batch]
        if self.columns.is_resident(batch):
            return self.scores[span.start : span.stop]
        return masked(self.ahead, span, self.tile)

    def read_ahead(self, batch: int) -> None:
        """Start to load ``batch``, if there is such a one and it is not resident."""
        if batch < self.columns.num_batches and not self.columns.is_resident(batch):
            self.ahead = load_columns(self.row, self.columns.batches[batch])


class LaggingSums:
    """Partial sums of a row, one batch behind, so that they fill the gaps of the exponentials."""

    def __init__(self) -> None:
        """Start independent sums at 0."""
        self.sums = softmax_math.no_sums()
        self.pending: list[Float32] = []

    def add(self, summands: list[Float32]) -> None:
        """Add what came before, and keep ``summands`` for later."""
        self.sums = softmax_math.add_pairs(self.sums, self.pending)
        self.pending = summands

    def all(self) -> list[Float32]:
        """Return the sums of everything."""
        return softmax_math.add_pairs(self.sums, self.pending)


def hand_over(ctx: KernelContext, row: SoftmaxRow, pv_stage: int) -> None:
    """Say that stage ``pv_stage`` of P has been stored."""
    tmem.wait_stores()
    tmem.fence_before_thread_sync()
    ctx.mbars.consumer_s(row.chain).release(sub=pv_stage)


@cute.jit
def wait_for_factor_read(ctx: KernelContext, chain: Int32 | int, tile: Int32) -> None:
    """Wait until the correction role has read this tile's factor; its slot is written next tile.

    The place is chosen for its effect on the schedule: P V needs the correction's arrival anyway,
    and the branches of a wait keep the assembler from moving work of the last batch in front of
    the hand-over of the first three.

    The first tile of a query tile has none. Where the correction role writes O the last one of the
    query tile before, by which it multiplies O, is waited for there; before all parity 1 passes.
    """
    if cutlass.const_expr(ctx.spec.correction_writes):
        ctx.mbars.producer_c(chain).acquire_next(ctx.factor_step(chain, tile))
    elif tile > 0:
        ctx.mbars.producer_c(chain).acquire_next(ctx.factor_step(chain, tile))


def say_read(ctx: KernelContext, chain: int) -> None:
    """Say that S of the chain is in registers."""
    tmem.fence_before_thread_sync()
    ctx.mbars.scores_read(chain).arrive()


@cute.jit
def wait_for_columns(ctx: KernelContext, chain: Int32 | int, tile: Int32) -> None:
    """Wait until P of the chain's ``tile``-th key tile may overwrite the other chain's S.

    Chain 0's P follows the other S of the same key tile, chain 1's that of the next one. After the
    last there is none: chain 1 overwrites what P V of the tile before read. That is over, since the
    factor of this tile has been read (``wait_for_factor_read``): the correction says so after it.
    A last P that lies in its own S, which the thread has read, needs no wait: the other S may be
    two key tiles further by then, and a wait could miss a phase.
    """
    if cutlass.const_expr(ctx.order.keeps_last(chain)):
        if tile < ctx.num_tiles(chain) - 1:
            wait_until_read(ctx, chain, tile)
    else:
        wait_until_read(ctx, chain, tile)
    tmem.fence_after_thread_sync()


def wait_until_read(ctx: KernelContext, chain: Int32 | int, tile: Int32) -> None:
    """Wait until the other S that follows the chain's ``tile``-th is in registers."""
    other, after = NUM_CHAINS - 1 - chain, tile + chain
    if not is_zero(chain):
        # Chain 0 has none after its last.
        after = DEVICE.minimum(after, ctx.num_tiles(0) - 1)
    ctx.mbars.scores_read(other).wait(ctx.step(other, after))


def exponentiate_and_store(
    ctx: KernelContext,
    row: SoftmaxRow,
    scores: list[Float32],
    exponent: Exponent,
    key_tile: TileView,
    tile: Int32,
) -> list[Float32]:
    """Turn S into P batch by batch, hand it over, and return the row's partial sums."""
    plan, columns, probability = ctx.spec.exp2_plan, ctx.spec.column_plan, ctx.spec.probability
    p_address = lane_address(ctx.tmem, place_of_p(ctx, row.chain, tile))
    if not is_zero(row.first_column):
        p_address = p_address + probability.column(row.first_column)
    reader, sums = ScoreReader(row, columns, scores, key_tile), LaggingSums()
    held: list[tuple[int, list[Int32]]] | None = [] if ctx.spec.config.crosses else None
    first_batches = ctx.spec.first_batches
    last_stage = len(first_batches) - 1
    for batch, span in enumerate(columns.batches):
        values = reader.take(batch)
        if batch in first_batches[1:]:
            # Each pv stage has its own barrier: the MMAs start on what lies before it.
            stage = first_batches.index(batch)
            hand_over(ctx, row, stage - 1)
            if stage == last_stage:
                wait_for_factor_read(ctx, row.chain, tile)
        reader.read_ahead(batch + 1)
        exponentials = softmax_math.exponentials(values, plan, span.start // 2, exponent)
        words = softmax_math.pack_probabilities(exponentials, probability)
        column = probability.column(span.start)
        if held is None:
            tmem.store(p_address + column, words)
        else:
            held.append((column, words))
        sums.add(exponentials)
    if held is not None:
        wait_for_factor_read(ctx, row.chain, tile)
        wait_for_columns(ctx, row.chain, tile)
        for column, words in held:
            tmem.store(p_address + column, words)
    hand_over(ctx, row, last_stage)
    return sums.all()


@cute.jit
def publish_factor(
    ctx: KernelContext, chain: Int32 | int, factor: Float32, tile: Int32
) -> None:
    """Hand the factor to the correction role.

    The first tile overwrites O, so there is nothing to correct and nobody to tell.
    """
    if tile > 0:
        shared.store_f32(factor_address(ctx, chain), factor)
        ctx.mbars.producer_c(chain).commit()


def tile_of(
    ctx: KernelContext, row: SoftmaxRow, visited: Int32, scales: TileScales | None
) -> TileView:
    """Return the ``visited``-th key tile as the row sees it."""
    first_key = ctx.work.key_tile(visited) * ctx.spec.config.BN
    if not is_zero(row.first_column):
        first_key = first_key + row.first_column
    return TileView.of(ctx, row, first_key, scales)


@cute.jit
def softmax_tile(
    ctx: KernelContext,
    row: SoftmaxRow,
    tile: Int32,
    row_max: Float32,
    row_sum: Float32,
    is_whole: cutlass.Constexpr[bool] = False,
) -> tuple[Float32, Float32]:
    """Process the chain's ``tile``-th key tile; returns the row's new maximum and sum.

    ``is_whole``: the warp sees all of it.
    """
    columns = ctx.spec.column_plan
    if cutlass.const_expr(ctx.spec.starts_biases):
        visited = ctx.spec.issue_order.key_tile(row.chain, tile)
        key_tile = tile_of(ctx, row, visited, None)
        key_tile.biases.start(range(columns.bn))
    ctx.mbars.consumer_s(row.chain).wait(ctx.step(row.chain, tile))
    tmem.fence_after_thread_sync()
    if cutlass.const_expr(not ctx.spec.starts_biases):
        visited = ctx.spec.issue_order.key_tile(row.chain, tile)
        scales = wait_for_scales(ctx, row, visited, row.first_column)
        key_tile = tile_of(ctx, row, visited, scales)
    if cutlass.const_expr(is_whole):
        key_tile = key_tile.seen_whole(ctx.tmem)
    crosses, binary = ctx.spec.config.crosses, row.is_binary
    if cutlass.const_expr(crosses and ctx.spec.variant.changes.are_brief):
        scores, new_max = scores_at_once(
            row, columns, row_max, key_tile, partial(say_read, ctx, row.chain)
        )
    else:
        scores, new_max = scores_and_max(row, columns, row_max, key_tile)
        if cutlass.const_expr(crosses):
            # What changes scores leaves no registers for a whole row besides.
            say_read(ctx, row.chain)
    probability = ctx.spec.probability
    scale = softmax_math.exact_scale(new_max, row.scale, probability, is_binary=binary)
    used_max, factor = softmax_math.rescale_decision(
        row_max, new_max, row.scale, ctx.spec.probability
    )
    if cutlass.const_expr(ctx.spec.row_copies > 1):
        # Not in front of the hand-over of P, which is stored as a whole: that would be a detour.
        wait_for_factor_read(ctx, row.chain, tile - 1)
    publish_factor(ctx, row.chain, factor, tile)
    if cutlass.const_expr(ctx.spec.masks_apart):
        # Else the assembler has the exponentials first, and the correction waits for them.
        keep_in_front(ctx.tmem)
    early = joins_sum_early(ctx.spec.variant)
    with_tile = softmax_math.sum_after(row_sum, factor, early=early)
    maxima = used_max, new_max
    exponent = Exponent.or_nan(maxima, scale, probability, is_binary=binary)
    sums = exponentiate_and_store(ctx, row, scores, exponent, key_tile, tile)
    release_scales(ctx, visited)
    return used_max, with_tile(softmax_math.total(sums))


@cute.jit
def hand_over_output(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> None:
    """Tell the correction role what it multiplies O by, and write the log-sum-exp.

    The slot of the last factor is free: this thread waited for that before it stored its last P.
    """
    result, num_tiles = RowResult.of(ctx, row, row_max, row_sum), ctx.num_tiles(row.chain)
    publish_factor(ctx, row.chain, output_factor(ctx, result), num_tiles)
    write_log_sum_exp(ctx, row, result)


def num_whole_tiles(ctx: KernelContext, row: SoftmaxRow, num_tiles: Int32) -> Int32:
    """Return how many of the ``num_tiles`` key tiles, the first, all rows of the warp see whole."""
    whole = DEVICE.maximum(row.view.warp[0].stop, 0) // ctx.spec.config.BN
    return DEVICE.minimum(whole, num_tiles)


@cute.jit
def softmax_work(ctx: KernelContext, chain: Int32 | int) -> None:
    """Process one query tile of warp group ``chain`` and write its half of the output."""
    ctx = ctx.of_chain(chain)
    row = SoftmaxRow(ctx, chain)
    num_tiles = ctx.num_tiles(chain)
    keep_query_scale(ctx, row)
    row_max = softmax_math.initial_max(row.scale, is_modified=row.is_modified)
    row_sum = Float32(0.0)
    first = Int32(0)
    ctx = ctx.at_row()
    if cutlass.const_expr(ctx.spec.masks_apart):
        first = num_whole_tiles(ctx, row, num_tiles)
        for tile in cutlass.range(0, first, unroll=1):
            row_max, row_sum = softmax_tile(ctx, row, tile, row_max, row_sum, True)
    for tile in cutlass.range(first, num_tiles, unroll=1):
        row_max, row_sum = softmax_tile(ctx, row, tile, row_max, row_sum)
    if cutlass.const_expr(ctx.spec.row_copies > 1 and ctx.spec.variant.is_persistent):
        # The slot of the last factor is written again in the next query tile.
        wait_for_factor_read(ctx, chain, num_tiles - 1)
    ctx = ctx.decode_again()
    row = SoftmaxRow(ctx, chain)
    if cutlass.const_expr(ctx.spec.correction_writes):
        hand_over_output(ctx, row, row_max, row_sum)
    elif cutlass.const_expr(ctx.spec.variant.in_cluster):
        write_output_of_cluster(ctx, row, row_max, row_sum)
    elif cutlass.const_expr(ctx.spec.row_copies > 1):
        write_output_of_copies(ctx, row, row_max, row_sum)
    else:
        write_output(ctx, row, row_max, row_sum)
    if cutlass.const_expr(ctx.spec.variant.last_joins):
        join_if_last(ctx, WRITTEN)
    if cutlass.const_expr(not ctx.spec.correction_writes):
        say_stored(ctx, chain)


def softmax(ctx: KernelContext, chain: Int32 | int) -> None:
    """Run the softmax role of warp group ``chain``, which may be a register."""
    for_each_work(ctx, lambda work: softmax_work(work, chain))


def softmax_of_group(ctx: KernelContext) -> None:
    """Run the softmax role of the calling warp group: one copy of the code for both groups."""
    softmax(ctx, warp_index() // WARPS_PER_GROUP)
