"""Consumer role of the Hopper kernel: a warp group with 64 query rows multiplies and exponentiates.

Per key tile: S = Q K', the softmax in registers, O += P V. The products of two tiles overlap the
softmax: S of a tile is started before P V of the tile before, which runs under the maxima of this
one; the exponentials lie under the products of the other consumers::

    start S(n)   start O(n-1)   wait S(n)   maxima(n)   wait O(n-1)   exponentials(n)   pack P(n)

What an fp8 V changes of it: ``operands.sm90_products``.

Edges: waits on ``Q_full``, ``K_full``, ``V_full``; arrives on ``K_empty`` and ``V_empty`` when the
product that read a slot is over.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import or_

import cutlass
from cutlass import Boolean, Float32, Int32, cute

from ..device.ids import warp_index
from ..device.math import fragment, wgmma
from ..device.math import softmax as softmax_math
from ..device.math.arith import exp2_hardware
from ..device.math.softmax import Exponent
from ..device.memory.clean import publish_to_tensor_cores, zero_rows
from ..device.memory.signs import flip_signs
from ..device.sync import barriers
from ..operands.scores import TileView, visible_rows
from ..operands.sm90_products import (
    finish_output,
    start_output,
    start_products,
    start_scores,
)
from ..operands.staged_biases import StagedBias
from ..operands.stale_values import clean_values_together
from ..operands.token_scales import (
    TileScales,
    keep_query_scale,
    query_scale_address,
    scale_buffer,
)
from ..output.sm90_write import wait_for_stores, write_output
from ..pipelines import RingState
from ..plan.barriers.named import CLEAN, CONSUMER
from ..plan.compute.sm90_mma import pv_plan, qk_plan
from ..plan.facts.dtypes import DType
from ..plan.facts.hardware import WARP_GROUP_THREADS, WARPS_PER_GROUP
from ..plan.facts.wgmma import NUM_ROWS
from ..plan.memory.rings import Ring
from ..work.persistent import for_each_work
from ..work.sm90 import RunningRows, SM90Context, SM90Row
from ..work.sm90_turns import (
    close_turns,
    give_turn,
    open_turns,
    own_key_tiles,
    pass_tiles,
    say_read,
    wait_for_turn,
)

Rows = list[SM90Row]


def free_keys(ctx: SM90Context, state: RingState, *, scores_are_scaled: bool) -> None:
    """Free the slot of ``state`` when S is there, or if scales lie with K when they were read."""
    if ctx.spec.variant.token_scales == scores_are_scaled:
        if scores_are_scaled:
            barriers.warp_barrier()
        ctx.mbars.k_ring().consumer_arrive_as_warp(state)


def tile_scales(ctx: SM90Context, row: SM90Row, state: RingState) -> TileScales | None:
    """Return the scales of a row and of the keys in the slot of ``state``; None without any."""
    if not ctx.spec.variant.token_scales:
        return None
    keys = scale_buffer(ctx, state.index) + fragment.first_column() * DType.FP32.size
    return TileScales(keys, query_scale_address(ctx, row))


def views_of(ctx: SM90Context, rows: Rows, tile: Int32, state: RingState) -> list[TileView]:
    """Return the ``tile``-th visited key tile as each of the rows sees it.

    K of the tile is, or was, in the slot of ``state``; biases that are staged beside it are waited
    for.
    """
    first_key, first_column = ctx.work.key_tile(tile) * ctx.spec.config.BN, fragment.first_column()
    views = [
        TileView.of(ctx, row, first_key, tile_scales(ctx, row, state), first_column)
        for row in rows
    ]
    if not ctx.spec.config.stages_biases:
        return views
    ctx.mbars.bias_ring().consumer_wait(state)
    staged = (StagedBias(ctx, row, state.index) for row in rows)
    return [replace(view, biases=biases) for view, biases in zip(views, staged, strict=True)]


def seen_scores(
    ctx: SM90Context,
    rows: Rows,
    started: tuple[list[Float32], int],
    tile: Int32,
    state: RingState,
    say_that_q_is_read: Callable[[], None],
) -> list[list[Float32]]:
    """Wait for S of the ``tile``-th visited key tile; return it by rows, modified and masked.

    Biases that leave registers for it are asked of memory before the wait.

    Args:
        ctx, rows: the consumer's.
        started: S, under way, and how many later products may be.
        tile, state: the key tile, and the slot of its K, which is freed.
        say_that_q_is_read: called once S is there.
    """
    views = views_of(ctx, rows, tile, state) if ctx.spec.starts_biases else []
    for view in views:
        view.biases.start(ctx.spec.score_columns)
    scores = wgmma.wait(*started)
    say_that_q_is_read()
    free_keys(ctx, state, scores_are_scaled=False)
    views = views or views_of(ctx, rows, tile, state)
    seen = visible_rows(fragment.rows_of(scores), ctx.spec.score_columns, views)
    free_keys(ctx, state, scores_are_scaled=True)
    if ctx.spec.config.stages_biases:
        barriers.warp_barrier()
        ctx.mbars.bias_ring().consumer_arrive_as_warp(state)
    return seen


def kept_maximum(ctx: SM90Context, row: SM90Row, used: Float32) -> Float32:
    """Return the largest maximum with which a row keeps the one that it has ``used``."""
    return softmax_math.most_kept(used, row.scale, ctx.spec.probability)


def exponent_of(ctx: SM90Context, row: SM90Row, used: Float32) -> Exponent:
    """Return scale and offset of a row's scores with the maximum ``used``."""
    probability = ctx.spec.probability
    scale = softmax_math.exact_scale(used, row.scale, probability, is_binary=row.is_binary)
    return Exponent.of(used, scale, probability)


def use_maxima(ctx: SM90Context, rows: Rows, running: RunningRows, maxima: list[Float32]) -> None:
    """Have the rows use ``maxima`` from here on; hold what follows where registers are for it."""
    running.row_max, running.most_kept, running.exponents = maxima, [], []
    if ctx.spec.config.holds_exponents:
        for row, used in zip(rows, maxima, strict=True):
            exponent = exponent_of(ctx, row, used)
            running.most_kept.append(kept_maximum(ctx, row, used))
            running.exponents += [exponent.scale, exponent.offset]


def has_grown(
    ctx: SM90Context, rows: Rows, running: RunningRows, maxima: list[Float32]
) -> Boolean:
    """Return whether one of ``maxima`` is more than a row keeps its own with, or is NaN."""
    used = zip(rows, running.row_max, strict=True)
    kept = running.most_kept or [kept_maximum(ctx, *both) for both in used]
    # Not "above": the comparison is false for NaN, which then counts.
    pairs = zip(maxima, kept, strict=True)
    return reduce(or_, [Boolean(new <= most) == Boolean(False) for new, most in pairs])


@cute.jit
def rescale(
    ctx: SM90Context,
    rows: cutlass.Constexpr,
    running: RunningRows,
    product: list[Float32],
    maxima: list[Float32],
    v: RingState,
) -> RunningRows:
    """Take new ``maxima`` over where a row needs it; take a ``product`` under way into O, whose V
    is in the slot of ``v``.

    A warp's rows keep their old maxima unless one grew by more than the format of P tolerates, or
    is NaN; then all move. Whatever depends on the maximum alone changes in that branch only, so
    that nothing but a comparison stands between a tile's maxima and its exponentials. Maxima may
    be those of each thread, which are joined in the branch then.

    The wait stands in the branch, and again behind it: with one in front of the branch the
    assembler would move it before the maxima, and nothing would lie over the product. Where
    products are added apart and one is under way, O is rescaled with the next one, which has the
    new maxima; with none under way at once.
    """
    apart, due = ctx.spec.config.transposes_values, [Float32(1.0)] * len(running.factors)
    if cute.arch.vote_any_sync(has_grown(ctx, rows, running, maxima)):
        tops = fragment.row_maxima(maxima) if ctx.spec.joins_maxima_late else maxima
        of_rows = zip(rows, running.row_max, tops, strict=True)
        factors = [exp2_hardware((old - new) * row.scale) for row, old, new in of_rows]
        running.row_sum = [a * b for a, b in zip(running.row_sum, factors, strict=True)]
        use_maxima(ctx, rows, running, tops)
        if cutlass.const_expr(apart and not ctx.spec.config.owes_factors):
            running.o = fragment.scaled_rows(running.o, factors)
        elif cutlass.const_expr(apart):
            due = factors
        else:
            product = fragment.scaled_rows(wgmma.wait(product, 0), factors)
    if cutlass.const_expr(ctx.spec.config.tile.scores_ahead):
        finish_output(ctx, running, v, product)
    running.factors = due
    return running


def exponentiate(
    ctx: SM90Context, rows: Rows, running: RunningRows, seen: list[list[Float32]]
) -> None:
    """Turn the visible scores of each row into P, and add them up."""
    found, held = [], running.exponents
    for half, scores in enumerate(seen):
        if held:
            exponent = Exponent(*held[2 * half : 2 * half + 2])
        else:
            exponent = exponent_of(ctx, rows[half], running.row_max[half])
        found.append(fragment.exponentials(scores, exponent))
        running.row_sum[half] += fragment.total(found[half])
    running.p = fragment.packed(fragment.registers_of(found), ctx.spec.config.qkv_dtype)


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
    ctx: SM90Context,
    rows: cutlass.Constexpr,
    consumer: Int32,
    num_tiles: Int32,
    running: RunningRows,
) -> RunningRows:
    """Process the first ``num_tiles`` key tiles of a query tile, at least one."""
    query = ctx.smem.q_tile_smem(consumer)
    keys = ctx.mbars.k_ring()
    k = v = ctx.ring_start(producer=False)
    ctx.mbars.query(consumer).wait(ctx.query_step)
    negate_query(ctx, query, consumer)
    keys.consumer_wait(k)
    started = start_scores(ctx, query, k), 0
    seen = seen_scores(
        ctx, rows, started, Int32(0), k, lambda: say_read(ctx, consumer, num_tiles == 1)
    )
    use_maxima(ctx, rows, running, fragment.row_maxima(fragment.own_maxima(seen, running.row_max)))
    exponentiate(ctx, rows, running, seen)
    for tile in cutlass.range(1, num_tiles, unroll=1):
        k = k.step()
        # Before the turn, so that nobody else's products wait for this tile's K.
        keys.consumer_wait(k)
        wait_for_turn(ctx, consumer)
        scores, product = start_products(ctx, query, running, k, v)
        give_turn(ctx, consumer)
        seen = seen_scores(
            ctx, rows, (scores, min(len(product), 1)), tile, k,
            lambda: say_read(ctx, consumer, tile + 1 == num_tiles),
        )
        maxima = fragment.own_maxima(seen, running.row_max)
        if cutlass.const_expr(not ctx.spec.joins_maxima_late):
            maxima = fragment.row_maxima(maxima)
        running = rescale(ctx, rows, running, product, maxima, v)
        exponentiate(ctx, rows, running, seen)
        v = v.step()
    clean_last_values(ctx, v)
    finish_output(ctx, running, v, start_output(ctx, running, v))
    return running


@cute.jit
def clean_spare_rows(ctx: SM90Context) -> None:
    """Zero the rows of the consumer's Q tile that hold no query, each warp a column chunk; nothing
    else writes these rows before the last product with Q."""
    config, num_rows = ctx.spec.config, ctx.spec.query_rows
    if cutlass.const_expr(config.q_rows < num_rows):
        consumer, warp = warp_index() // WARPS_PER_GROUP, warp_index() % WARPS_PER_GROUP
        chunk_bytes = num_rows * config.swizzle_mode.bytes
        if warp < config.q_tile_bytes // chunk_bytes:
            chunk = ctx.smem.q_tile_smem(consumer) + warp * chunk_bytes
            zero_rows(chunk, Int32(config.q_rows), num_rows, config.swizzle_mode.bytes)
            publish_to_tensor_cores()
        barriers.named_barrier(CONSUMER.number + consumer, WARP_GROUP_THREADS)


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
        [Float32(1.0)] * (NUM_ROWS if config.owes_factors else 0),
        NUM_ROWS if config.holds_exponents else 0,
    )
    num_tiles = own_key_tiles(ctx, consumer)
    if num_tiles > 0:
        running = consume_tiles(ctx, rows, consumer, num_tiles, running)
    pass_tiles(ctx, consumer, num_tiles)
    if cutlass.const_expr(ctx.spec.decodes_again):
        # Registers are scarce in the loop: what only the output needs is found again.
        again = ctx.decode_again()
        write_output(again, thread_rows(again, consumer), running)
    else:
        write_output(ctx, rows, running)


def consume(ctx: SM90Context) -> None:
    """Run the consumer role of a warp group."""
    open_turns(ctx)
    clean_spare_rows(ctx)
    for_each_work(ctx, consume_work)
    wait_for_stores(ctx)
    close_turns(ctx)
