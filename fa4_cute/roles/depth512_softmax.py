"""Softmax role of the CTA pair (warps 0-3 of both CTAs): S in registers, P where P V reads it.

Per key tile: load S and give its buffer back, find the row maximum, publish the correction factor,
write P over S or, with head dim 512, to shared memory as the swizzled A operand of P V, add up the
row sum. Head dim 512 splits a row between two threads; they exchange maxima in every tile and,
because partial sums are rescaled alike, the sum only once at the end. Then: write the log-sum-exp,
divide O by the row sum and store it. A plain persistent pair leaves O to the correction role, which
is told the row sum, and goes on with the next query tile.

Edges: waits on ``S produced``, ``C`` consumed and ``O_mma``; arrives on ``C`` produced, and on
``S consumed`` and ``PO_lo`` of the leader. With scales per token it also waits for those of the
tile and gives their buffer back.
"""

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import epilogue
from ..device.math import softmax as softmax_math
from ..device.math.arith import fma, max2
from ..device.math.softmax import Exponent
from ..device.memory import shared, tmem
from ..device.sync import barriers
from ..operands.scores import TileView, scores_and_max
from ..operands.token_scales import keep_query_scale, release_scales, wait_for_scales
from ..output.copies import write_output as write_output_of_copies
from ..output.depth512 import write_output
from ..output.last import join_if_last
from ..output.row_result import RowResult, write_log_sum_exp
from ..plan.barriers.named import EXCHANGE, PARTS
from ..plan.compute.depth512_lanes import first_key
from ..plan.facts.hardware import UNIT_BYTES
from ..plan.masks.masks import is_zero
from ..work.depth512 import (
    ONLY_CHAIN,
    Depth512Context,
    Depth512Row,
    row_slot,
)
from ..work.persistent import for_each_work, say_stored


@cute.jit
def exchange(
    ctx: Depth512Context, row: Depth512Row, value: Float32, combine: cutlass.Constexpr
) -> Float32:
    """Return ``combine`` of both threads' values of a row; the row's slot is free before.

    Two barriers, because one slot carries both directions.
    """
    slot = row_slot(ctx, row.slot)
    barrier, threads = EXCHANGE.number + warp_index() % EXCHANGE.count, EXCHANGE.threads
    if row.lane_half == 0:
        shared.store_f32(slot, value)
    barriers.named_barrier(barrier, threads)
    if row.lane_half != 0:
        value = combine(value, shared.load_f32(slot))
        shared.store_f32(slot, value)
    barriers.named_barrier(barrier, threads)
    if row.lane_half == 0:
        value = shared.load_f32(slot)
    return value


@cute.jit
def wait_for_factor_read(ctx: Depth512Context, tile: Int32) -> None:
    """Wait until the correction role has read the factor of ``tile``; tile 0 has none."""
    if tile > 0:
        ctx.mbars.producer_c().acquire_next(ctx.factor_step(ONLY_CHAIN, tile))


@cute.jit
def wait_for_p(ctx: Depth512Context, tile: Int32) -> None:
    """Wait until the MMAs have read P of the tile before.

    Where P has a place of its own, in its S, this keeps its arrival out of the phase of that P: the
    other CTA may not have told of it yet.

    Without look-ahead the arrival of S says so already: its commit follows that P V. So does that
    of a query tile's first S, which follows the last P V of the query tile before. Where O of that
    was staged over P, its store has read it: K of these scores was loaded only then.
    """
    if cutlass.const_expr(ctx.spec.look_ahead):
        if tile > 0:
            last = ctx.spec.config.num_o_blocks - 1
            ctx.mbars.consumer_o(last).wait(ctx.step(ONLY_CHAIN, tile - 1))


@cute.jit
def publish_factor(ctx: Depth512Context, row: Depth512Row, factor: Float32, tile: Int32) -> None:
    """Hand the factor to the correction role; the first tile overwrites O and has none."""
    if tile > 0:
        if row.lane_half == 0:
            shared.store_f32(row_slot(ctx, row.slot), factor)
        ctx.mbars.producer_c().commit()


def store_probabilities(
    ctx: Depth512Context, row: Depth512Row, columns: range, words: list[Int32]
) -> None:
    """Store packed ``words`` of the thread's ``columns`` of P where P V reads its A operand.

    P is K-major: chunks of one swizzle span of keys, each with all rows of the CTA.
    """
    config = ctx.spec.config
    width, size = config.swizzle_elems, config.qkv_dtype_size
    first = ctx.smem.p_chunk_smem(first_key(config, row.lane_half) // width)
    offset = columns.start // width * ctx.smem.layout.chunk_bytes
    unit = columns.start % width * size // UNIT_BYTES
    epilogue.store_row_units(first, row.index, unit, words, config.swizzle_mode, offset)


def exponentiate_and_store(
    ctx: Depth512Context,
    row: Depth512Row,
    scores: list[Float32],
    exponent: Exponent,
    tile: Int32,
) -> list[Float32]:
    """Turn S into P, hand P over, and return the row's partial sums.

    In Tensor Memory P takes the place of S, which this thread has read. In shared memory all of it
    is ready in registers before the wait for its place: what follows that wait lies between two P V
    and is kept to the stores.
    """
    plan, probability = ctx.spec.exp2_plan, ctx.spec.probability
    in_tmem, held = ctx.spec.config.p_in_tmem, list[tuple[range, list[Int32]]]()
    p_address = row.scores
    if not is_zero(row.first_column):
        p_address = p_address - row.first_column + probability.column(row.first_column)
    sums = softmax_math.no_sums()
    for span in ctx.spec.column_plan.batches:
        values = scores[span.start : span.stop]
        pairs = softmax_math.exponentials(values, plan, span.start // 2, exponent)
        words = softmax_math.pack_probabilities(pairs, probability)
        if in_tmem:
            tmem.store(p_address + probability.column(span.start), words)
        else:
            held.append((span, words))
        sums = softmax_math.add_pairs(sums, pairs)
    stored = row.with_fresh_index() if ctx.spec.score_loads.fresh_stores else row
    wait_for_p(ctx, tile)
    if in_tmem:
        tmem.wait_stores()
        tmem.fence_before_thread_sync()
    else:
        for span, words in held:
            store_probabilities(ctx, stored, span, words)
        barriers.fence_proxy_async_shared()
    # The MMAs of the leader read P: what is in memory is released to both CTAs.
    ctx.mbars.po_lo_mbar().arrive_at_leader(release=not in_tmem)
    return sums


def own_first_key(ctx: Depth512Context, row: Depth512Row) -> Int32 | int:
    """Return the first of the keys of a tile that the thread has."""
    own = first_key(ctx.spec.config, row.lane_half)
    return own if is_zero(row.first_column) else row.first_column


def first_key_of(ctx: Depth512Context, row: Depth512Row, tile: Int32) -> Int32:
    """Return the first key that the thread has of the ``tile``-th key tile."""
    return ctx.work.key_tile(tile) * ctx.spec.config.BN + own_first_key(ctx, row)


@cute.jit
def softmax_tile(
    ctx: Depth512Context, row: Depth512Row, tile: Int32, row_max: Float32, row_sum: Float32
) -> tuple[Float32, Float32]:
    """Process one key tile; returns the row's new maximum and the thread's new partial sum."""
    config, step, hand_over = ctx.spec.config, ctx.loaded_before(tile), ctx.mbars.consumer_s()
    if cutlass.const_expr(ctx.spec.starts_biases):
        key_tile = TileView.of(ctx, row, first_key_of(ctx, row, tile), None)
        key_tile.biases.start(range(ctx.spec.column_plan.bn))
    hand_over.wait(step)
    tmem.fence_after_thread_sync()
    first = first_key_of(ctx, row, tile)
    row = row.with_scores_at(row.scores + hand_over.stage(step) * config.s_columns)
    if cutlass.const_expr(not ctx.spec.starts_biases):
        scales = wait_for_scales(ctx, row, tile, own_first_key(ctx, row))
        key_tile = TileView.of(ctx, row, first, scales)
    scores, new_max = scores_and_max(row, ctx.spec.column_plan, row_max, key_tile)
    release_scales(ctx, tile)
    tmem.fence_before_thread_sync()
    hand_over.release(step)
    wait_for_factor_read(ctx, tile - 1)
    if cutlass.const_expr(config.split_o):
        new_max = exchange(ctx, row, new_max, max2)
    probability = ctx.spec.probability
    binary = row.is_binary
    scale = softmax_math.exact_scale(new_max, row.scale, probability, is_binary=binary)
    used_max, factor = softmax_math.rescale_decision(row_max, new_max, row.scale, probability)
    publish_factor(ctx, row, factor, tile)
    maxima = used_max, new_max
    exponent = Exponent.or_nan(maxima, scale, probability, is_binary=binary)
    sums = exponentiate_and_store(ctx, row, scores, exponent, tile)
    return used_max, fma(row_sum, factor, softmax_math.total(sums))


@cute.jit
def write_log_sum_exp_once(ctx: Depth512Context, row: Depth512Row, result: RowResult) -> None:
    """Write the log-sum-exp, once per row."""
    if row.lane_half == 0:
        write_log_sum_exp(ctx, row, result)


@cute.jit
def softmax_work(ctx: Depth512Context) -> None:
    """Process one query tile and write the CTA's rows of the output."""
    row = Depth512Row(ctx)
    num_tiles = ctx.work.num_key_tiles
    keep_query_scale(ctx, row)
    row_max = softmax_math.initial_max(row.scale, is_modified=row.is_modified)
    row_sum = Float32(0.0)
    for tile in cutlass.range(0, num_tiles, unroll=1):
        row_max, row_sum = softmax_tile(ctx, row, tile, row_max, row_sum)
    exchanges = ctx.spec.config.split_o or ctx.spec.row_copies > 1
    if cutlass.const_expr(exchanges or ctx.spec.variant.is_persistent):
        # The slot of the last factor is written again, here or in the next query tile. That P V
        # follows its correction says nothing of memory: in the second CTA that arrival is relaxed.
        wait_for_factor_read(ctx, num_tiles - 1)
    if cutlass.const_expr(ctx.spec.config.split_o):
        row_sum = exchange(ctx, row, row_sum, lambda mine, other: mine + other)
    if cutlass.const_expr(ctx.spec.correction_writes):
        publish_factor(ctx, row, row_sum, num_tiles)
    ctx = ctx.decode_again()
    row = Depth512Row(ctx)
    write_work(ctx, row, row_max, row_sum, num_tiles)


def write_work(
    ctx: Depth512Context, row: Depth512Row, row_max: Float32, row_sum: Float32, num_tiles: Int32
) -> None:
    """Write what the thread owes of a query tile of ``num_tiles`` key tiles."""
    if ctx.spec.row_copies > 1:
        write_output_of_copies(ctx, row, row_max, row_sum)
        say_written(ctx)
        return
    result = RowResult.of(ctx, row, row_max, row_sum)
    write_log_sum_exp_once(ctx, row, result)
    if ctx.spec.correction_writes:
        # The next query tile writes the slot again.
        wait_for_factor_read(ctx, num_tiles)
    else:
        write_output(ctx, row, result)
        say_written(ctx)


def say_written(ctx: Depth512Context) -> None:
    """Say that the rows are written; the last part of a query tile puts all together."""
    if ctx.spec.variant.last_joins:
        join_if_last(ctx, PARTS)
    say_stored(ctx, ONLY_CHAIN)


def softmax(ctx: Depth512Context) -> None:
    """Run the softmax role."""
    for_each_work(ctx, softmax_work)
