"""Arithmetic for score modifiers: one score per call, float32, accurate to a few roundings.

``tanh.approx`` has a relative error of 2**-11 (PTX ISA, "tanh"), which a cap of 50 turns into
0.02 in the score; the functions here use exp2 and a reciprocal instead.
"""

from typing import Final

import cutlass
from cutlass import Float32, Int32, cute

from ...plan.facts.numbers import BRIEF_CAP, LOG2_E
from .arith import absolute, exp2_hardware, min2, mul, reciprocal
from .exp2 import exp2_pair_hardware, exp2_pair_precise
from .pairs import PairMath, both, halves

_SMALL = 0.6
"""Up to here a polynomial is used: the quotient below loses digits where tanh is near 0."""
_SERIES = (
    -0.33333298563957214,
    0.13331958651542664,
    -0.053786683827638626,
    0.02080538496375084,
    -0.005905868485569954,
)
"""``tanh(x) / x - 1`` in powers of ``x * x``, best relative fit on [0, 0.6], error 2.7e-9."""

TOGETHER: Final = 4
"""Scores that share the reciprocal of a softcap."""
LARGEST_EXPONENT: Final = 31.0
"""Of a softcap's denominator: the product of ``TOGETHER`` such ones is a float32."""


def softcap(score: Float32, cap: float) -> Float32:
    """Return ``cap * tanh(score / cap)``, off by less than 5e-7 of the cap up to ``BRIEF_CAP``.

    There it is ``cap - 2 cap / (1 + e**(2 score / cap))``, whose digits near 0 are lost: a softmax
    asks how far a score is off, not by which share of it. A larger cap needs these digits.
    """
    if cap > BRIEF_CAP:
        return tanh(score * Float32(1.0 / cap)) * Float32(cap)
    return capped(score, Float32(2.0 * LOG2_E / cap), cap)


def capped(score: Float32, factor: Float32, limit: float) -> Float32:
    """Return ``limit - 2 limit / (1 + 2**(factor * score))``.

    Of a raw score with :func:`cap_factor` it is the :func:`softcap` in units of ``limit``.
    """
    grown = exp2_hardware(score * factor)
    return fma(reciprocal(grown + Float32(1.0)), Float32(-2.0 * limit), Float32(limit))


def capped_together(
    scores: list[Float32], factor: Float32, limit: float, math: PairMath, *, emulated: bool
) -> list[Float32]:
    """Return :func:`capped` of four scores, or fewer at a row's end; a NaN makes all of them NaN.

    The four share a reciprocal, that of their denominators' product: the special-function unit,
    which takes eight cycles for each, is what limits a softmax. ``emulated``: two of the four
    powers run as a polynomial of packed floats. The exponents end where a denominator is 2**31, so
    that the product is a float; what is left of ``2 limit`` there is less than a rounding of
    ``limit``.
    """
    if len(scores) < TOGETHER:
        return [capped(score, factor, limit) for score in scores]
    one, most = both(1.0), both(limit)
    exponents = (math.mul(tuple(pair), both(factor)) for pair in (scores[:2], scores[2:]))
    front, back = (halves(_ended, pair) for pair in exponents)
    powers = exp2_pair_precise(front) if emulated else exp2_pair_hardware(front)
    front, back = math.add(powers, one), math.add(exp2_pair_hardware(back), one)
    low, high = math.mul(front, back)
    shared = mul(reciprocal(mul(low, high)), Float32(-2.0 * limit))
    inverse = mul(shared, high), mul(shared, low)
    return [*math.fma(inverse, back, most), *math.fma(inverse, front, most)]


def _ended(exponent: Float32) -> Float32:
    """Return ``exponent``, no larger than that of a denominator that shares its reciprocal."""
    return min2(exponent, Float32(LARGEST_EXPONENT))


def cap_factor(magnitude: Float32, cap: float) -> Float32:
    """Return what brings a raw score to ``2 log2(e) score / cap``.

    ``magnitude`` brings it to natural units times log2(e).
    """
    return magnitude * Float32(2.0 / cap)


def tanh(x: Float32) -> Float32:
    """Return the hyperbolic tangent, relative error about 3e-7; infinities give -1 and 1."""
    magnitude = absolute(x)
    # 0 for large magnitudes, where the quotient is exactly 1.
    decay = exp2_hardware(magnitude * Float32(-2.0 * LOG2_E))
    large = (Float32(1.0) - decay) * reciprocal(Float32(1.0) + decay)
    square = magnitude * magnitude
    series = Float32(_SERIES[-1])
    for coefficient in _SERIES[-2::-1]:
        series = fma(series, square, Float32(coefficient))
    small = fma(magnitude * square, series, magnitude)
    return copy_sign(x, select_below(magnitude, _SMALL, small, large))


def exp(x: Float32) -> Float32:
    """Return ``e**x``; the rounding of ``x * log2(e)`` is multiplied by ``x``."""
    return exp2_hardware(x * Float32(LOG2_E))


def where(condition: cutlass.Boolean, then: Float32, otherwise: Float32) -> Float32:
    """Return ``then`` where ``condition`` holds, else ``otherwise``; both are computed."""
    return Float32(cutlass.select_(condition, Float32(then), Float32(otherwise)))


def distance(row: Int32, kv_idx: Int32) -> Float32:
    """Return ``|row - kv_idx|``, the keys between a row, counted from the first key, and a key."""
    return absolute(Float32(row - kv_idx))


def fma(a: Float32, b: Float32, c: Float32) -> Float32:
    """Return ``a * b + c``, rounded once."""
    return cute.math.fma(a, b, c)


def copy_sign(sign: Float32, magnitude: Float32) -> Float32:
    """Return ``magnitude`` with the sign of ``sign``."""
    return cute.math.copysign(magnitude, sign)


def select_below(x: Float32, limit: float, then: Float32, otherwise: Float32) -> Float32:
    """Return ``then`` where ``x < limit``, else ``otherwise``; NaN takes ``otherwise``."""
    return where(x < Float32(limit), then, otherwise)
