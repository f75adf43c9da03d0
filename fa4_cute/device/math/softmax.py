"""Softmax of one row per thread: row maximum, rescale decision, exponentials, row sum.

Scores stay in raw units; ``scale`` (the softmax scale times log2 e, positive) enters in the fused
multiply-add that feeds the exponential. Every list holds one register per key column.
"""

import cutlass
from cutlass import Boolean, Float32, Int32, cute

from ...plan.compute.exp2_plan import Exp2Plan
from ...plan.compute.probability import ProbabilityPlan
from .arith import F32x2, add2, exp2_hardware, fma2, max2, max3, reciprocal
from .exp2 import exp2_pair_hardware, exp2_pair_polynomial
from .pack import pack_pairs

SCALED_FLOOR = -(2.0**100)
LOWEST_MAX = -(2.0**126)
_MAX_CHAINS = 4
_NUM_SUMS = 4


def initial_max(scale: Float32) -> Float32:
    """Return the running maximum of a row that has seen no key.

    It is finite, so that differences of maxima are never NaN, and times ``scale`` it is lower than
    any meaningful score, so that the first visible key replaces it.
    """
    return max2(Float32(SCALED_FLOOR) * reciprocal(scale), Float32(LOWEST_MAX))


def tile_max(scores: list[Float32], start: Float32) -> Float32:
    """Return the maximum of ``start`` and all ``scores``, in four independent chains."""
    chains = [start, *scores[: _MAX_CHAINS - 1]]
    rest = scores[_MAX_CHAINS - 1 :]
    pairs = [rest[i : i + 2] for i in range(0, len(rest), 2)]
    for i, pair in enumerate(pairs):
        lane = i % _MAX_CHAINS
        both = len(pair) == 2
        chains[lane] = max3(chains[lane], *pair) if both else max2(chains[lane], pair[0])
    return max2(max3(chains[0], chains[1], chains[2]), chains[3])


def rescale_decision(
    row_max: Float32, new_max: Float32, scale: Float32, probability: ProbabilityPlan
) -> tuple[Float32, Float32]:
    """Return (maximum to use, factor for O and the row sum) after a tile.

    The warp keeps its old maxima, and the factor 1, unless some row's maximum grew by more than
    the format of P tolerates: then all rows of the warp move, so that the correction warps never
    diverge. A NaN score counts as growth, which makes its whole row NaN, as in exact attention.
    """
    exponent = (row_max - new_max) * scale
    factor = exp2_hardware(exponent)
    # Not "below": the comparison is false for NaN, which then counts.
    grew = Boolean(exponent >= Float32(probability.threshold)) == Boolean(False)
    moved = cute.arch.vote_any_sync(grew)
    kept = Float32(cutlass.select_(moved, new_max, row_max))
    return kept, Float32(cutlass.select_(moved, factor, Float32(1.0)))


def exponentials(
    scores: list[Float32], plan: Exp2Plan, first_pair: int, scale: Float32, offset: Float32
) -> list[F32x2]:
    """Return ``2**(score * scale + offset)`` of neighbouring columns as pairs.

    Args:
        scores: columns of one batch.
        plan: says which pairs of the row run as a polynomial.
        first_pair: index of the batch's first pair within the row.
        scale: factor of the scores.
        offset: what :func:`exponent_offset` returns.
    """
    pairs = []
    for i in range(0, len(scores), 2):
        exponent = fma2((scores[i], scores[i + 1]), (scale, scale), (offset, offset))
        emulated = plan.is_emulated(first_pair + i // 2)
        pairs.append(exp2_pair_polynomial(exponent) if emulated else exp2_pair_hardware(exponent))
    return pairs


def exponent_offset(
    row_max: Float32, scale: Float32, probability: ProbabilityPlan
) -> Float32:
    """Return what is added to every scaled score: minus the scaled maximum, plus the lift of P."""
    offset = -row_max * scale
    return offset + Float32(probability.lift) if probability.lift else offset


def pack_probabilities(pairs: list[F32x2], probability: ProbabilityPlan) -> list[Int32]:
    """Return the pairs rounded to the type of P, as 32-bit words."""
    return pack_pairs(pairs, probability.dtype)


def no_sums() -> list[F32x2]:
    """Return the independent running sums of a row that has seen no key."""
    return [(Float32(0.0), Float32(0.0)) for _ in range(_NUM_SUMS)]


def add_pairs(sums: list[F32x2], pairs: list[F32x2]) -> list[F32x2]:
    """Return the running sums with ``pairs`` added, dealt out over the independent sums."""
    sums = list(sums)
    for i, pair in enumerate(pairs):
        lane = i % len(sums)
        sums[lane] = add2(sums[lane], pair)
    return sums


def total(sums: list[F32x2]) -> Float32:
    """Return the sum of all running sums."""
    while len(sums) > 1:
        sums = [add2(sums[i], sums[i + 1]) for i in range(0, len(sums), 2)]
    low, high = sums[0]
    return low + high
