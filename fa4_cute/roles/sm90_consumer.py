"""Consumer role of the Hopper kernel: a warp group with 64 query rows multiplies and exponentiates.

Per key tile: S = Q K', the softmax in registers, O += P V. The products of two tiles overlap the
softmax: S of a tile is started before P V of the tile before, and both run while the scores of this
one are turned into P::

    start S(n)   start O(n-1)   wait S(n)   softmax(n)   wait O(n-1)   rescale O   pack P(n)

Edges: waits on ``Q_full``, ``K_full``, ``V_full``; arrives on ``K_empty`` and ``V_empty`` when the
product that read a slot is over.
"""

import cutlass
from cutlass import Boolean, Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import fragment, wgmma
from ..device.math import softmax as softmax_math
from ..device.math.softmax import Exponent
from ..device.memory.signs import flip_signs
from ..device.sync import barriers
from ..operands.scores import TileView, visible_rows
from ..operands.stale_values import clean_values_together
from ..output.sm90_write import wait_for_stores, write_output
from ..pipelines import RingState
from ..plan.barriers.named import CLEAN, CONSUMER, TURN
from ..plan.compute.sm90_mma import pv_plan, qk_plan
from ..plan.facts.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from ..plan.facts.wgmma import NUM_ROWS
from ..plan.memory.rings import Ring
from ..work.persistent import for_each_work
from ..work.sm90 import RunningRows, SM90Context, SM90Row

Rows = list[SM90Row]


def start_scores(ctx: SM90Context, query: Int32, state: RingState) -> list[Float32]:
    """Start S = Q K' with K in the slot of ``state``; Q is at shared address ``query``."""
    config = ctx.spec.config
    plan, ring = qk_plan(config), Ring.of_sm90_keys(config)
    assert plan.a is not None
    a = wgmma.lower_word(plan.a, query)
    return wgmma.start_shared(plan, a, wgmma.lower_word(plan.b, ctx.smem.at(ring.get_smem(state))))


def start_output(ctx: SM90Context, running: RunningRows, state: RingState) -> list[Float32]:
    """Wait for V in the slot of ``state`` and start O += P V."""
    config = ctx.spec.config
    plan, ring = pv_plan(config), Ring.of_sm90_values(config)
    ctx.mbars.v_ring().consumer_wait(state)
    b = wgmma.lower_word(plan.b, ctx.smem.at(ring.get_smem(state)))
    return wgmma.start_registers(plan, running.o, running.p, b)


def softmax_row(
    ctx: SM90Context, row: SM90Row, scores: list[Float32], used_max: Float32, row_sum: Float32
) -> tuple[list[Float32], Float32]:
    """Return the exponentials of a row's ``scores``, and its sum, rescaled, with them."""
    probability, modified = ctx.spec.probability, row.is_modified
    scale = softmax_math.exact_scale(used_max, row.scale, probability, is_modified=modified)
    exponentials = fragment.exponentials(scores, Exponent.of(used_max, scale, probability))
    return exponentials, row_sum + fragment.total(exponentials)


def softmax_tile(
    ctx: SM90Context, rows: Rows, running: RunningRows, scores: list[Float32], tile: Int32
) -> tuple[list[Float32], list[Float32], Boolean]:
    """Turn S of the ``tile``-th visited key tile into P; ``running`` has the new maxima and sums.

    The rows take every step together, so that the shuffles and exponentials of one lie under the
    arithmetic of the other.

    Returns:
        P as float32, the factor that each row of O is due, and whether one is not 1.
    """
    first_key, first_column = ctx.work.key_tile(tile) * ctx.spec.config.BN, fragment.first_column()
    views = [TileView.of(ctx, row, first_key, None, first_column) for row in rows]
    seen = visible_rows(fragment.rows_of(scores), ctx.spec.score_columns, views)
    new_maxima = fragment.row_maxima(seen, running.row_max)
    scales = [row.scale for row in rows]
    running.row_max, factors, moved = softmax_math.rescale_decisions(
        running.row_max, new_maxima, scales, ctx.spec.probability
    )
    sums = [row_sum * factor for row_sum, factor in zip(running.row_sum, factors, strict=True)]
    of_rows = zip(rows, seen, running.row_max, sums, strict=True)
    exponentials, running.row_sum = map(list, zip(*(softmax_row(ctx, *r) for r in of_rows), strict=True))
    return fragment.registers_of(exponentials), factors, moved


@cute.jit
def rescale(running: RunningRows, factors: list[Float32], moved: Boolean) -> RunningRows:
    """Multiply the rows of O, whose product is under way, by their ``factors`` if they moved.

    The wait stands in the branch, and again behind it: the assembler would move a wait in front of
    the exponentials, as far as the last branch, and nothing would lie over the product.
    """
    if moved:
        running.o = fragment.scaled_rows(wgmma.wait(running.o, 0), factors)
    running.o = wgmma.wait(running.o, 0)
    return running


def clean_last_values(ctx: SM90Context, state: RingState) -> None:
    """Zero the rows of the last V, in the slot of ``state``, that hold no key, if there are any.

    Key tiles ascend: no other one reaches beyond the sequence.
    """
    if ctx.spec.variant.partial_values:
        config = ctx.spec.config
        ctx.mbars.v_ring().consumer_wait(state)
        slot = ctx.smem.at(Ring.of_sm90_values(config).get_smem(state))
        threads = config.num_consumers * WARP_GROUP_THREADS
        clean_values_together(
            ctx, ctx.work.num_key_tiles - 1, slot,
            lambda: barriers.named_barrier(CLEAN.number, threads),
        )  # fmt: skip


@cute.jit
def consume_tiles(
    ctx: SM90Context, rows: cutlass.Constexpr, consumer: Int32, running: RunningRows
) -> RunningRows:
    """Process all key tiles of a query tile that has some."""
    dtype, query = ctx.spec.config.qkv_dtype, ctx.smem.q_tile_smem(consumer)
    keys, values = ctx.mbars.k_ring(), ctx.mbars.v_ring()
    k = v = ctx.ring_start(producer=False)
    ctx.mbars.query(consumer).wait(ctx.query_step)
    negate_query(ctx, query, consumer)
    keys.consumer_wait(k)
    scores = wgmma.wait(start_scores(ctx, query, k), 0)
    keys.consumer_arrive_as_warp(k)
    p, _, _ = softmax_tile(ctx, rows, running, scores, Int32(0))
    running.p = fragment.packed(p, dtype)
    for tile in cutlass.range(1, ctx.work.num_key_tiles, unroll=1):
        k = k.step()
        # Before the turn, so that nobody else's products wait for this tile's K.
        keys.consumer_wait(k)
        wait_for_turn(ctx, consumer)
        scores = start_scores(ctx, query, k)
        running.o = start_output(ctx, running, v)
        give_turn(ctx, consumer)
        scores = wgmma.wait(scores, 1)
        keys.consumer_arrive_as_warp(k)
        p, factors, moved = softmax_tile(ctx, rows, running, scores, tile)
        running = rescale(running, factors, moved)
        values.consumer_arrive_as_warp(v)
        v = v.step()
        running.p = fragment.packed(p, dtype)
    if cutlass.const_expr(ctx.spec.config.o_apart):
        say_stored(ctx, consumer)
    clean_last_values(ctx, v)
    running.o = wgmma.wait(start_output(ctx, running, v), 0)
    values.consumer_arrive_as_warp(v)
    return running


@cute.jit
def negate_query(ctx: SM90Context, query: Int32, consumer: Int32) -> None:
    """Negate the Q tile in place when the softmax scale is negative.

    The softmax works on scale magnitudes: with -S instead of S the maximum stays the maximum.
    """
    if ctx.args.scale_log2 < Float32(0.0):
        flip_signs(query, ctx.spec.config.q_tile_bytes)
        barriers.fence_proxy_async_shared()
        barriers.named_barrier(CONSUMER.number + consumer, WARP_GROUP_THREADS)


@cute.jit
def consume_work(ctx: SM90Context) -> None:
    """Process one query tile of the calling warp group and write its output."""
    consumer = warp_index() // WARPS_PER_GROUP
    rows = [SM90Row(ctx, consumer, half) for half in range(NUM_ROWS)]
    config = ctx.spec.config
    running = RunningRows(
        [Float32(0.0)] * pv_plan(config).num_registers,
        [Int32(0)] * (qk_plan(config).num_registers // 2),
        [softmax_math.initial_max(r.scale, is_modified=r.is_modified) for r in rows],
        [Float32(0.0)] * NUM_ROWS,
    )
    if ctx.work.num_key_tiles > 0:
        running = consume_tiles(ctx, rows, consumer, running)
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
