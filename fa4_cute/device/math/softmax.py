"""Softmax of one row per thread: row maximum, rescale decision, exponentials, row sum.

Scores stay in raw units; ``scale`` (the softmax scale times log2 e, positive) enters in the fused
multiply-add that feeds the exponential. Scores that were changed first may be as large as a
float32. They are binary logarithms, and their scale is 1, or natural ones with biases alone. Every
list holds one register per key column.
"""

from collections.abc import Callable
from dataclasses import dataclass

import cutlass
from cutlass import Boolean, Float32, Int32, cute

from ...plan.compute.exp2_plan import Exp2Plan
from ...plan.compute.probability import ProbabilityPlan
from ...plan.facts.numbers import MAX_FLOAT32
from .arith import (
    F32x2,
    absolute,
    add2,
    add_down,
    exp2_hardware,
    fma,
    fma2,
    max2,
    max3,
    mul,
    power_below,
    reciprocal,
    where_at_least,
)
from .exp2 import exp2_pair_hardware, exp2_pair_polynomial
from .pack import pack_pairs

SCALED_FLOOR = -(2.0**127)
LOWEST_MAX = -(2.0**126)
LOWEST_MODIFIED_MAX = -MAX_FLOAT32
_MAX_CHAINS = 4
_NUM_SUMS = 4


def initial_max(scale: Float32, *, is_modified: bool) -> Float32:
    """Return the running maximum of a row that has seen no key.

    It is finite, so that differences of maxima are never NaN, and times ``scale`` it is lower than
    any meaningful score, so that the first visible key replaces it. Scores that were changed first
    may be any finite number, because a bias may be.
    """
    if is_modified:
        return Float32(LOWEST_MODIFIED_MAX)
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


def most_kept(row_max: Float32, scale: Float32, probability: ProbabilityPlan) -> Float32:
    """Return the largest maximum with which a row may keep ``row_max``.

    It is what :func:`rescale_decision` compares with, worked out once per maximum that is used.
    """
    room = Float32(-probability.threshold) * reciprocal(scale)
    return add_down(row_max, room)


def exact_scale(
    new_max: Float32, scale: Float32, probability: ProbabilityPlan, *, is_binary: bool
) -> Float32:
    """Return the factor of scores whose maximum has become ``new_max``.

    The fused multiply-add keeps the rounding of the scaled maximum, a factor that all columns
    share. It is near 1 unless scores are so large that neighbouring float32 numbers, scaled, are
    far apart. From there on the power of two below ``scale`` stands in for it: with it the product
    is exact, and what lies below the maximum still vanishes.
    """
    if is_binary:
        return scale
    product = absolute(new_max * scale)
    return where_at_least(product, probability.largest_product, power_below(scale), scale)


@dataclass(frozen=True)
class Exponent:
    """What makes a score the exponent of its probability: ``score * scale + offset``.

    Attributes:
        scale: factor of the scores.
        offset: minus the scaled maximum, plus the lift of P.
    """

    scale: Float32
    offset: Float32

    @classmethod
    def of(cls, row_max: Float32, scale: Float32, probability: ProbabilityPlan) -> "Exponent":
        """Return what goes with the maximum that a row uses, and its :func:`exact_scale`."""
        offset = -row_max * scale
        return cls(scale, offset + Float32(probability.lift) if probability.lift else offset)

    @classmethod
    def or_nan(
        cls, maxima: tuple[Float32, Float32], scale: Float32, probability: ProbabilityPlan,
        *, is_binary: bool,
    ) -> "Exponent":  # fmt: skip
        """Return what goes with ``maxima``, the one that a row uses and that of its scores, or what
        makes every exponent NaN where the second is infinite.

        It is where the row sees an infinite score, or a NaN under a mask (``device.math.mask``).
        Exact attention then has a row of NaN, but infinity less infinity is the exponent of that
        column alone, and the polynomial would make a number of it. Of binary scores the scale is
        the constant 1, and a register of its own would be one too many.
        """
        used, largest = maxima
        if not is_binary:
            return cls.of(used, fma(largest, Float32(0.0), scale), probability)
        own = cls.of(used, scale, probability)
        return cls(own.scale, fma(largest, Float32(0.0), own.offset))

    def of_pair(self, low: Float32, high: Float32) -> F32x2:
        """Return the exponents of two neighbouring columns."""
        return fma2((low, high), (self.scale, self.scale), (self.offset, self.offset))


def exponentials(
    scores: list[Float32], plan: Exp2Plan, first_pair: int, exponent: Exponent
) -> list[F32x2]:
    """Return the powers of two of neighbouring columns as pairs.

    Args:
        scores: columns of one batch.
        plan: says which pairs of the row run as a polynomial.
        first_pair: index of the batch's first pair within the row.
        exponent: what makes scores exponents.
    """
    pairs = []
    for i in range(0, len(scores), 2):
        both = exponent.of_pair(scores[i], scores[i + 1])
        emulated = plan.is_emulated(first_pair + i // 2)
        pairs.append(exp2_pair_polynomial(both) if emulated else exp2_pair_hardware(both))
    return pairs


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


def sum_after(
    row_sum: Float32, factor: Float32, *, early: bool
) -> Callable[[Float32], Float32]:
    """Return what adds the sum of a tile to ``row_sum`` times ``factor``.

    ``early`` multiplies now, rounding the product: one register is held until then in place of two.
    """
    if not early:
        return lambda of_tile: fma(row_sum, factor, of_tile)
    product = mul(row_sum, factor)
    return lambda of_tile: product + of_tile


def total(sums: list[F32x2]) -> Float32:
    """Return the sum of all running sums."""
    while len(sums) > 1:
        sums = [add2(sums[i], sums[i + 1]) for i in range(0, len(sums), 2)]
    low, high = sums[0]
    return low + high
