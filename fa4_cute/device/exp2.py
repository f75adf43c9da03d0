"""``2**x`` of score pairs: in hardware, or on the FMA pipe for the share that the plan names.

The special-function unit computes one exp2 per lane and eight cycles; emulating some pairs with
fused multiply-adds shortens the softmax. The split is Cody-Waite: adding 1.5 * 2**23 rounded down
leaves ``floor(x)`` in the low bits, a polynomial gives ``2**(x - floor(x))`` in [1, 2), and adding
``floor(x) << 23`` to its bits applies the exponent. ``x`` is clamped at -127, where the result is
exactly 0: masked scores stay out of the row sum.

Source: ``modular-sm100-attention.md`` section 5.6; coefficients from the FlashAttention-4 paper.
"""

from cutlass import Float32

from .arith import Pair, add2, exp2_hardware, fma2, max2, sub2
from .ptx import emit

ROUND_TO_INTEGER = 12582912.0
"""1.5 * 2**23: the sum with it has an ulp of 1."""
LOWEST_EXPONENT = -127.0
COEFFICIENTS = (0.077119089663028717, 0.227564394474029541, 0.695146143436431885, 1.0)
"""Highest power first; relative error below 9e-5, far under a bf16 rounding."""


def exp2_pair_hardware(x: Pair) -> Pair:
    """Return ``2**x`` of both halves from the special-function unit."""
    return exp2_hardware(x[0]), exp2_hardware(x[1])


def exp2_pair_polynomial(x: Pair) -> Pair:
    """Return ``2**x`` of both halves for ``x <= 127`` with arithmetic only."""
    magic = _both(ROUND_TO_INTEGER)
    lowest = Float32(LOWEST_EXPONENT)
    clamped = (max2(x[0], lowest), max2(x[1], lowest))
    shifted = add2(clamped, magic, rnd="rm")
    fraction = sub2(clamped, sub2(shifted, magic))
    power = _both(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        power = fma2(power, fraction, _both(coefficient))
    return _scale(power[0], shifted[0]), _scale(power[1], shifted[1])


def _both(value: float) -> Pair:
    return Float32(value), Float32(value)


def _scale(power: Float32, shifted: Float32) -> Float32:
    """Return ``power * 2**n`` where ``n`` is the integer in the low bits of ``shifted``."""
    return emit(
        "{\n\t.reg .b32 exponent, bits;\n\tmov.b32 exponent, $1;\n\tmov.b32 bits, $2;\n\t"
        "shl.b32 exponent, exponent, 23;\n\tadd.s32 bits, bits, exponent;\n\t"
        "mov.b32 $0, bits;\n\t}",
        (Float32,),
        (shifted, power),
        effects=False,
    )[0]
