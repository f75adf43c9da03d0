"""Consumer role of the Hopper kernel: a warp group with 64 query rows multiplies and exponentiates.

Per key tile: S = Q K', the softmax in registers, O += P V. The products of two tiles overlap the
softmax: S of a tile is started before P V of the tile before, and both run while the scores of this
one are turned into P::

    start S(n)   start O(n-1)   wait S(n)   softmax(n)   wait O(n-1)   rescale O   pack P(n)

Edges: waits on ``Q_full``, ``K_full``, ``V_full``; arrives on ``K_empty`` and ``V_empty`` when the
product that read a slot is over.
"""

import cutlass
from cutlass import Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import fragment, wgmma
from ..device.math import softmax as softmax_math
from ..device.math.arith import exp2_hardware, fma
from ..device.math.softmax import Exponent
from ..device.memory.signs import flip_signs
from ..device.sync import barriers
from ..operands.scores import TileView, visible
from ..operands.stale_values import clean_values_together
from ..operands.token_scales import (
    TileScales,
    keep_query_scale,
    query_scale_address,
    scale_buffer,
)
from ..output.sm90_write import wait_for_stores, write_output
from ..pipelines import RingState
from ..plan.barriers.named import CLEAN, CONSUMER, TURN
from ..plan.compute.sm90_mma import pv_plan, qk_plan
from ..plan.facts.dtypes import DType
from ..plan.facts.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from ..plan.facts.wgmma import NUM_ROWS
from ..plan.memory.rings import Ring
from ..work.persistent import for_each_work
from ..work.sm90 import RunningRows, SM90Context, SM90Row

Rows = list[SM90Row]


def start_scores(ctx: SM90Context, query: Int32, state: RingState) -> list[Float32]:
    """Wait for K in the slot of ``state`` and start S = Q K'; Q is at shared address ``query``."""
    config = ctx.spec.config
    plan, ring = qk_plan(config), Ring.of_sm90_keys(config)
    ctx.mbars.k_ring().consumer_wait(state)
    assert plan.a is not None
    a = wgmma.lower_word(plan.a, query)
    return wgmma.start_shared(plan, a, wgmma.lower_word(plan.b, ctx.smem.at(ring.get_smem(state))))


def start_output(ctx: SM90Context, running: RunningRows, state: RingState) -> list[Float32]:
    """Wait for V in the slot of ``state`` and start O += P V, or P V as a sum of its own."""
    config = ctx.spec.config
    before = None if config.transposes_values else running.o
    plan, ring = pv_plan(config), Ring.of_sm90_values(config)
    ctx.mbars.v_ring().consumer_wait(state)
    b = wgmma.lower_word(plan.b, ctx.smem.at(ring.get_smem(state)))
    return wgmma.start_registers(plan, before, running.p, b)


def with_product(ctx: SM90Context, running: RunningRows, product: list[Float32]) -> list[Float32]:
    """Return O with the product that was waited for: it is O, or is added to it here."""
    if ctx.spec.config.transposes_values:
        return fragment.added_rows(running.o, running.factors, product)
    return product


def rescale(ctx: SM90Context, running: RunningRows, factors: list[Float32]) -> None:
    """Bring O to the maxima of a tile, of which it is due ``factors``.

    Where products are added apart that is done with the next one, which has these maxima.
    """
    if ctx.spec.config.transposes_values:
        running.factors = factors
    else:
        running.o = fragment.scaled_rows(running.o, factors)


def softmax_row(
    ctx: SM90Context, row: SM90Row, scores: list[Float32], row_max: Float32, row_sum: Float32
) -> tuple[list[Float32], Float32, Float32, Float32]:
    """Return the exponentials of a row's ``scores``, the factor of O, and maximum and sum."""
    probability, modified = ctx.spec.probability, row.is_modified
    new_max = fragment.row_max(scores, row_max)
    scale = softmax_math.exact_scale(new_max, row.scale, probability, is_modified=modified)
    factor = exp2_hardware((row_max - new_max) * row.scale)
    exponentials = fragment.exponentials(scores, Exponent.of(new_max, scale, probability))
    return exponentials, factor, new_max, fma(row_sum, factor, fragment.total(exponentials))


def free_keys(ctx: SM90Context, state: RingState, *, scores_are_scaled: bool) -> None:
    """Free the slot of ``state`` when S is there, or if scales lie with K when they were read."""
    if ctx.spec.variant.token_scales == scores_are_scaled:
        if scores_are_scaled:
            barriers.warp_barrier()
        ctx.mbars.k_ring().consumer_arrive_as_warp(state)


def softmax_tile(
    ctx: SM90Context,
    rows: Rows,
    running: RunningRows,
    scores: list[Float32],
    tile: Int32,
    state: RingState,
) -> tuple[list[Float32], list[Float32], RunningRows]:
    """Turn S of the ``tile``-th visited key tile, K of which is in the slot of ``state``, into P.

    Returns:
        P as float32, the factor that each row of O is due, and maxima and sums.
    """
    first_key, first_column = ctx.work.key_tile(tile) * ctx.spec.config.BN, fragment.first_column()
    found = []
    for half, values in enumerate(fragment.rows_of(scores)):
        scales = None
        if ctx.spec.variant.token_scales:
            keys = scale_buffer(ctx, state.index) + first_column * DType.FP32.size
            scales = TileScales(keys, query_scale_address(ctx, rows[half]))
        view = TileView.of(ctx, rows[half], first_key, scales, first_column)
        seen = visible(values, ctx.spec.score_columns, view)
        before = running.row_max[half], running.row_sum[half]
        found.append(softmax_row(ctx, rows[half], seen, *before))
    exponentials, factors, maxima, sums = (list(of_rows) for of_rows in zip(*found, strict=True))
    p = fragment.registers_of(exponentials)
    return p, factors, RunningRows(running.o, running.p, maxima, sums, running.factors)


def clean_last_values(ctx: SM90Context, state: RingState) -> None:
    """Zero the rows of the last V, in the slot of ``state``, that hold no key, if there are any.

    Key tiles ascend: no other one reaches beyond the sequence.
    """
    config = ctx.spec.config
    if ctx.spec.variant.partial_values and not config.transposes_values:
        ctx.mbars.v_ring().consumer_wait(state)
        slot = ctx.smem.at(Ring.of_sm90_values(config).get_smem(state))
        threads = config.num_consumers * WARP_GROUP_THREADS
        clean_values_together(
            ctx, ctx.work.num_key_tiles - 1, slot, 0,
            lambda: barriers.named_barrier(CLEAN.number, threads),
        )  # fmt: skip


@cute.jit
def consume_tiles(
    ctx: SM90Context, rows: cutlass.Constexpr, consumer: Int32, running: RunningRows
) -> RunningRows:
    """Process all key tiles of a query tile that has some."""
    dtype, query = ctx.spec.config.qkv_dtype, ctx.smem.q_tile_smem(consumer)
    values = ctx.mbars.v_ring()
    k = v = ctx.ring_start(producer=False)
    ctx.mbars.query(consumer).wait(ctx.query_step)
    negate_query(ctx, query, consumer)
    scores = wgmma.wait(start_scores(ctx, query, k), 0)
    free_keys(ctx, k, scores_are_scaled=False)
    p, _, running = softmax_tile(ctx, rows, running, scores, Int32(0), k)
    free_keys(ctx, k, scores_are_scaled=True)
    running.p = fragment.packed(p, dtype)
    for tile in cutlass.range(1, ctx.work.num_key_tiles, unroll=1):
        k = k.step()
        wait_for_turn(ctx, consumer)
        scores = start_scores(ctx, query, k)
        o = start_output(ctx, running, v)
        give_turn(ctx, consumer)
        scores = wgmma.wait(scores, 1)
        free_keys(ctx, k, scores_are_scaled=False)
        p, factors, running = softmax_tile(ctx, rows, running, scores, tile, k)
        free_keys(ctx, k, scores_are_scaled=True)
        o = wgmma.wait(o, 0)
        values.consumer_arrive_as_warp(v)
        v = v.step()
        running.o = with_product(ctx, running, o)
        rescale(ctx, running, factors)
        running.p = fragment.packed(p, dtype)
    if cutlass.const_expr(ctx.spec.config.o_apart):
        say_stored(ctx, consumer)
    clean_last_values(ctx, v)
    running.o = with_product(ctx, running, wgmma.wait(start_output(ctx, running, v), 0))
    values.consumer_arrive_as_warp(v)
    return running


@cute.jit
def negate_query(ctx: SM90Context, query: Int32, consumer: Int32) -> None:
    """Negate the Q tile in place when the softmax scale is negative.

    The softmax works on scale magnitudes: with -S instead of S the maximum stays the maximum.
    """
    if ctx.args.scale_log2 < Float32(0.0):
        flip_signs(query, ctx.spec.config.q_tile_bytes, ctx.spec.config.qkv_dtype)
        barriers.fence_proxy_async_shared()
        barriers.named_barrier(CONSUMER.number + consumer, WARP_GROUP_THREADS)


def thread_rows(ctx: SM90Context, consumer: Int32) -> Rows:
    """Return the rows of the calling thread."""
    return [SM90Row(ctx, consumer, half) for half in range(NUM_ROWS)]


@cute.jit
def consume_work(ctx: SM90Context) -> None:
    """Process one query tile of the calling warp group and write its output."""
    consumer = warp_index() // WARPS_PER_GROUP
    rows = thread_rows(ctx, consumer)
    for half in cutlass.range_constexpr(NUM_ROWS):
        keep_query_scale(ctx, rows[half])
    config = ctx.spec.config
    running = RunningRows(
        [Float32(0.0)] * pv_plan(config).num_registers,
        [Int32(0)] * (qk_plan(config).num_registers * config.qkv_dtype_size // DType.FP32.size),
        [softmax_math.initial_max(r.scale, is_modified=r.is_modified) for r in rows],
        [Float32(0.0)] * NUM_ROWS,
        [Float32(1.0)] * (NUM_ROWS if config.transposes_values else 0),
    )
    if ctx.work.num_key_tiles > 0:
        running = consume_tiles(ctx, rows, consumer, running)
    if cutlass.const_expr(ctx.spec.variant.token_scales):
        # Registers are scarce in the loop: what only the output needs is found again.
        again = ctx.decode_again()
        write_output(again, thread_rows(again, consumer), running)
    else:
        write_output(ctx, rows, running)
    if cutlass.const_expr(not config.o_apart):
        if ctx.work.num_key_tiles > 0:
            say_stored(ctx, consumer)


def say_stored(ctx: SM90Context, consumer: Int32) -> None:
    """Say that Q, or O staged over it, has been read (persistent CTAs)."""
    if ctx.spec.variant.is_persistent:
        ctx.mbars.stored(consumer).arrive_as_warp()


# In turn -----------------------------------------------------------------------------------------


@cute.jit
def wait_for_turn(ctx: SM90Context, consumer: Int32) -> None:
    """Wait until the consumer before has started its products of this key tile."""
    if cutlass.const_expr(ctx.spec.config.in_turn):
        barriers.named_barrier(TURN.number + consumer, TURN.threads)


@cute.jit
def give_turn(ctx: SM90Context, consumer: Int32) -> None:
    """Let the next consumer start its products."""
    if cutlass.const_expr(ctx.spec.config.in_turn):
        after = consumer + 1
        first = after == ctx.spec.config.num_consumers
        number = Int32(cutlass.select_(first, Int32(0), after)) + TURN.number
        barriers.named_barrier_arrive(number, TURN.threads)


@cute.jit
def open_turns(ctx: SM90Context) -> None:
    """Give the first turn to the first consumer: the last one says so."""
    if cutlass.const_expr(ctx.spec.config.in_turn):
        if warp_index() // WARPS_PER_GROUP == ctx.spec.config.num_consumers - 1:
            barriers.named_barrier_arrive(TURN.number, TURN.threads)


@cute.jit
def close_turns(ctx: SM90Context) -> None:
    """Take the last turn, given to the first consumer: no barrier stays half open."""
    if cutlass.const_expr(ctx.spec.config.in_turn):
        if warp_index() < WARPS_PER_GROUP:
            barriers.named_barrier(TURN.number, TURN.threads)


def consume(ctx: SM90Context) -> None:
    """Run the consumer role of a warp group."""
    open_turns(ctx)
    for_each_work(ctx, consume_work)
    wait_for_stores(ctx)
    close_turns(ctx)
