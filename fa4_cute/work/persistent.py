"""One CTA, many query tiles: the loop around every role, and what keeps two query tiles apart.

The order of most is fixed: CTA ``c`` of ``n`` takes the works ``c``, ``c + n``, ... of the
schedule, so every role of a CTA knows its works without asking. Two CTAs that share every MMA take
the same works: ``c`` and ``n`` count pairs then. Barriers are not initialised again: parities
continue from the counts in ``Progress``.

Where the schedule goes head by head, or by sections of heads, their query tiles are long and short,
and ``n`` is often a multiple of their number: every other round goes backwards (``c``,
``2 n - 1 - c``, ``2 n + c``), so that who had a long one has a short one next.

With stream-K a CTA or pair takes parts of query tiles that follow one another in a line of all key
tiles (``work.stream_k``).

With a dynamic scheduler a CTA begins with the work of its own block, and then takes over that of
blocks that have not started (``work.dynamic``). Where O is computed changes no bit of it.

Two memories of a query tile are used by the next one, the Q tile, over which O is staged, and the
accumulators. The softmax warps arrive on ``stored`` when they have read the accumulators and the
stores have read the staged O; the load role waits for it before it loads the next Q, and the
correction role before it lets the next P V overwrite O. A query tile without key tiles uses neither
memory, and takes no part in this. No role can be two phases ahead, because a query tile with key
tiles needs all roles. Where the correction role writes O nothing is staged, and it needs no word.
"""

import cutlass
from cutlass import Int32, cute

from ..device import ids
from ..device.memory import tmem
from .context import AttentionContext, TmemContext
from .dynamic import next_work
from .progress import Progress
from .tile import in_clusters


@cute.jit
def for_each_work(
    ctx: AttentionContext, role: cutlass.Constexpr, *, loads: cutlass.Constexpr[bool] = False
) -> Progress:
    """Call ``role(context of the work)`` for every work of the CTA; return the counts after it.

    A role that ``loads`` says itself when the next work may be asked for.
    """
    progress = Progress.zero(ctx.order)
    if cutlass.const_expr(ctx.spec.variant.is_dynamic):
        index = in_clusters(ctx.spec, ids.block_index()[0])
        taken = Int32(0)
        while index >= 0:
            here = ctx.at(index, progress)
            role(here)
            progress = progress.after(*here.work.counts)
            index = next_work(ctx, taken, lets_ask=not loads)
            taken = taken + 1
    elif cutlass.const_expr(ctx.spec.variant.streams_keys):
        while ctx.stretch.holds_tile(ctx.spec):
            here = ctx.at(None, progress)
            role(here)
            progress = progress.after(*here.work.counts)
            ctx.stretch.go_on(ctx.spec, ctx.args)
    elif cutlass.const_expr(ctx.spec.variant.is_persistent and ctx.spec.turns_back):
        index = in_clusters(ctx.spec, ids.block_index()[0])
        # Backwards from here; the next step, forwards again, makes it two rounds.
        step = (in_clusters(ctx.spec, ids.grid_size_x()) - index) * 2 - 1
        while index < ctx.args.extras.num_work:
            here = ctx.at(index, progress)
            role(here)
            progress = progress.after(*here.work.counts)
            index = index + step
            step = in_clusters(ctx.spec, ids.grid_size_x()) * 2 - step
    elif cutlass.const_expr(ctx.spec.variant.is_persistent):
        index = in_clusters(ctx.spec, ids.block_index()[0])
        while index < ctx.args.extras.num_work:
            here = ctx.at(index, progress)
            role(here)
            progress = progress.after(*here.work.counts)
            index = index + in_clusters(ctx.spec, ids.grid_size_x())
    else:
        here = ctx.decoded()
        role(here)
        progress = progress.after(*here.work.counts)
    return progress


@cute.jit
def wait_until_stored(ctx: AttentionContext, chains: cutlass.Constexpr) -> None:
    """Wait until ``chains`` have stored their latest outputs."""
    if cutlass.const_expr(ctx.spec.variant.is_persistent):
        for i in cutlass.range_constexpr(len(chains)):
            outputs = ctx.progress.outputs_of(chains[i])
            if outputs > 0:
                ctx.mbars.stored(chains[i]).wait(outputs - 1)
        if cutlass.const_expr(isinstance(ctx, TmemContext)):
            tmem.fence_after_thread_sync()


@cute.jit
def say_stored(ctx: AttentionContext, chain: cutlass.Constexpr[int]) -> None:
    """Say that ``chain`` has read and stored its output of the query tile."""
    if cutlass.const_expr(ctx.spec.variant.is_persistent):
        if ctx.num_tiles(chain) > 0:
            tmem.fence_before_thread_sync()
            ctx.mbars.stored(chain).arrive()
