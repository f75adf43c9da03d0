"""Join of the two warp groups of a single Q tile: each has seen every other key tile.

Where the lanes hold copies of the rows, each copy has seen keys of its own besides, and all copies
of a row join, also those of a single key tile, which one group has alone.

Both groups own the same rows. A thread leaves its row's maximum and sum in the first columns of its
own S, and reads those of the other group from the same lane of the other S. Where the next Q may be
there already, whose scores overwrite both, they go through shared memory: the maximum in the place
of the row's factor, which the correction role has read. From then on both groups know the same
common maximum and sum, and the factor that brings each accumulator to it.
Source: ``docs/sources.md`` section 7.
"""

from dataclasses import dataclass

from cutlass import Float32, Int32

from ..device.lanes import lane_address
from ..device.math.arith import exp2_hardware, fma, max2
from ..device.memory import shared, tmem
from ..device.sync import barriers
from ..plan.barriers.chains import NUM_CHAINS
from ..plan.barriers.named import COPIES, JOIN
from ..plan.facts.dtypes import DType
from ..work.context import FACTOR_BYTES, KernelContext, factor_address
from ..work.depth512 import Depth512Context, Depth512Row, lane_slot
from ..work.row import SoftmaxRow

FACTORS_BYTES = NUM_CHAINS * FACTOR_BYTES
"""From the row's maximum to its sum, in shared memory: the factors of both chains."""


@dataclass(frozen=True)
class JoinedRow:
    """A row over all key tiles.

    Attributes:
        row_max: the larger of the two maxima.
        row_sum: sum of the exponentials relative to it.
        weights: per chain that takes part, the factor that makes its O in the thread's lane, and
            its sum, relative to ``row_max``.
    """

    row_max: Float32
    row_sum: Float32
    weights: tuple[Float32, ...]


def join_groups(
    ctx: KernelContext, row: SoftmaxRow, row_max: Float32, row_sum: Float32
) -> JoinedRow:
    """Exchange the row's values with the other warp group; both compute the same bits.

    The group's last P V must have been waited for: the columns written here held its P.
    """
    exchange = exchange_in_smem if ctx.spec.config.joins_in_smem else exchange_in_s
    theirs = exchange(ctx, row, [row_max, row_sum])
    # In the order of the chains, so that the rounding does not depend on who computes.
    both = [(row_max, row_sum), tuple(theirs)]
    if row.chain:
        both.reverse()
    (max0, sum0), (max1, sum1) = both
    # Finite even for rows that saw no key, so that a weight is never infinity minus infinity.
    top = max2(max0, max1)
    weights = tuple(exp2_hardware((own - top) * row.scale) for own in (max0, max1))
    return JoinedRow(top, sum0 * weights[0] + sum1 * weights[1], weights)


def exchange_in_s(ctx: KernelContext, row: SoftmaxRow, mine: list[Float32]) -> list[Float32]:
    """Exchange values by the first columns of S."""
    place = ctx.columns.borrow_s_for_lse
    tmem.store(lane_address(ctx.tmem, place(row.chain).start), mine)
    tmem.wait_stores()
    tmem.fence_before_thread_sync()
    barriers.named_barrier(JOIN.number, JOIN.threads)
    tmem.fence_after_thread_sync()
    other = place(NUM_CHAINS - 1 - row.chain)
    return tmem.wait_loads(tmem.load(lane_address(ctx.tmem, other.start), other.size))


def exchange_in_smem(ctx: KernelContext, row: SoftmaxRow, mine: list[Float32]) -> list[Float32]:
    """Exchange values by shared memory: maxima where factors are, sums behind them.

    The next query tile's factors and values overwrite them no sooner than P V of its first key tile
    is done, which waits until both groups have said "stored".
    """
    places = [factor_address(ctx, chain) for chain in (row.chain, NUM_CHAINS - 1 - row.chain)]
    for i, value in enumerate(mine):
        shared.store_f32(places[0] + i * FACTORS_BYTES, value)
    barriers.named_barrier(JOIN.number, JOIN.threads)
    return [shared.load_f32(places[1] + i * FACTORS_BYTES) for i in range(len(mine))]


CopiedContext = KernelContext | Depth512Context
CopiedRow = SoftmaxRow | Depth512Row
"""A row of which the lanes hold copies, in a CTA of its own or in one of a pair."""


def own_address(ctx: CopiedContext, chain: int) -> Int32:
    """Return the shared address of the maximum of the thread's lane in warp group ``chain``."""
    if isinstance(ctx, Depth512Context):
        return lane_slot(ctx)
    return factor_address(ctx, chain)


def sums_after(ctx: CopiedContext) -> int:
    """Return how far behind the maxima of the copies their sums are."""
    return FACTORS_BYTES if ctx.order.deals_out else FACTOR_BYTES


def join_copies(
    ctx: CopiedContext,
    row: CopiedRow,
    row_max: Float32,
    row_sum: Float32,
    chains: tuple[int, ...],
) -> JoinedRow:
    """Exchange the row's values with all its copies in ``chains``: all compute the same bits.

    Values go through shared memory, as of :func:`exchange_in_smem`.
    """
    config, barrier = ctx.spec.config, JOIN if len(chains) > 1 else COPIES
    to_sums = sums_after(ctx)
    for i, value in enumerate((row_max, row_sum)):
        shared.store_f32(own_address(ctx, row.chain) + i * to_sums, value)
    barriers.named_barrier(barrier.number, barrier.threads)
    first = ctx.smem.correction_smem() + row.index * DType.FP32.size
    step = config.rows_of_copy * DType.FP32.size
    starts = [chain * FACTOR_BYTES for chain in chains]
    copies = range(config.row_copies)
    places = [first + (start + copy * step) for start in starts for copy in copies]
    maxima = [shared.load_f32(place) for place in places]
    sums = [shared.load_f32(place + to_sums) for place in places]
    top = maxima[0]
    for own in maxima[1:]:
        top = max2(top, own)
    # Finite even for copies that saw no key, so that a weight is never infinity minus infinity.
    total = Float32(0.0)
    for own, own_sum in zip(maxima, sums, strict=True):
        total = fma(own_sum, exp2_hardware((own - top) * row.scale), total)
    own_lane = own_address(ctx, 0)
    kept = [shared.load_f32(own_lane + start) for start in starts]
    weights = tuple(exp2_hardware((own - top) * row.scale) for own in kept)
    return JoinedRow(top, total, weights)
