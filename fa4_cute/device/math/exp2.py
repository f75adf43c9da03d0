"""``2**x`` of score pairs: in hardware, or on the FMA pipe for the share that the plan names.

The special-function unit computes one exp2 per lane and eight cycles; emulating some pairs with
fused multiply-adds shortens the softmax. The split is Cody-Waite: adding 1.5 * 2**23 rounded down
leaves ``floor(x)`` in the low bits, a polynomial gives ``2**(x - floor(x))`` in [1, 2), and adding
``floor(x) << 23`` to its bits applies the exponent. ``x`` is clamped at -127, where the result is
exactly 0: masked scores stay out of the row sum.

Constants and the choice of pairs: ``fa4_cute.plan.compute.exp2_plan``.
"""

from collections.abc import Sequence

from cutlass import Float32, Int32

from ...plan.compute.exp2_plan import (
    EXPONENT_SHIFT,
    MIN_EXPONENT,
    POLYNOMIAL,
    PRECISE_POLYNOMIAL,
    ROUND_MAGIC,
)
from .arith import F32x2, add2, exp2_hardware, fma2, max2, sub2
from .pairs import both, halves


def exp2_pair_hardware(x: F32x2) -> F32x2:
    """Return ``2**x`` of both halves from the special-function unit."""
    return exp2_hardware(x[0]), exp2_hardware(x[1])


def exp2_pair_polynomial(x: F32x2) -> F32x2:
    """Return ``2**x`` of both halves for ``x <= 127`` with arithmetic only; of NaN any number."""
    return _polynomial(_clamped(x), POLYNOMIAL)


def exp2_pair_precise(x: F32x2) -> F32x2:
    """Return the same, off by a float32 rounding instead of a rounding of P; NaN stays NaN."""
    clamped = _clamped(x)
    return fma2(clamped, both(0.0), _polynomial(clamped, PRECISE_POLYNOMIAL))


def _clamped(x: F32x2) -> F32x2:
    """Return ``x``, finite or NaN: what is lower gives 0 as well."""
    return halves(max2, x, both(MIN_EXPONENT))


def _polynomial(clamped: F32x2, polynomial: Sequence[float]) -> F32x2:
    """Return ``2**clamped``; ``polynomial``: coefficients of ``2**f``, from the constant on."""
    magic = both(ROUND_MAGIC)
    shifted = add2(clamped, magic, rnd="rm")
    fraction = sub2(clamped, sub2(shifted, magic))
    power = both(polynomial[-1])
    for coefficient in polynomial[-2::-1]:
        power = fma2(power, fraction, both(coefficient))
    return _scale(power[0], shifted[0]), _scale(power[1], shifted[1])


def _scale(power: Float32, shifted: Float32) -> Float32:
    """Return ``power * 2**n`` where ``n`` is the integer in the low bits of ``shifted``."""
    bits = power.bitcast(Int32) + (shifted.bitcast(Int32) << EXPONENT_SHIFT)
    return bits.bitcast(Float32)
