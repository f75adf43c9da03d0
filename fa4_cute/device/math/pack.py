"""Pairs of floats rounded to the element type of an MMA operand and packed into words, and back.

The first pair goes to the low bits, so that neighbouring columns keep their order in memory and in
Tensor Memory (PTX ISA, "cvt" with two inputs: the second input becomes the low half).
"""

from cutlass import Float32, Int32

from ...plan.facts.dtypes import DType
from ..ptx import emit
from .arith import F32x2, pack16

_PAIRS_PER_FP8_WORD = 2


def pack_pairs(pairs: list[F32x2], dtype: DType) -> list[Int32]:
    """Return ``pairs`` rounded to ``dtype``: one pair a word of 16-bit types, two of fp8."""
    if dtype is not DType.FP8_E4M3:
        return [pack16(low, high, dtype.ptx_name) for low, high in pairs]
    words = range(0, len(pairs), _PAIRS_PER_FP8_WORD)
    return [_pack_e4m3(*pairs[i], *pairs[i + 1]) for i in words]


def _pack_e4m3(a: Float32, b: Float32, c: Float32, d: Float32) -> Int32:
    """Round four floats to e4m3, ``a`` in the lowest byte; NaN stays NaN, too large becomes 448.

    DSL: ``TensorSSA.to`` emits the same instructions, from a vector that is built and taken apart
    around each word.
    """
    return emit(
        "{\n\t.reg .b16 low, high;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;\n\t"
        "mov.b32 $0, {low, high};\n\t}",
        (Int32,),
        (a, b, c, d),
        effects=False,
    )[0]


def widened(word: Int32, half: int, ptx_type: str) -> Float32:
    """Return half 0 (the low one) or 1 of ``word``, a number of ``bf16`` or ``f16``, as a float.

    DSL: a vector of halves would be built and taken apart around each word.
    """
    if ptx_type == "bf16":
        bits = word & -0x10000 if half else word << 16
        return bits.bitcast(Float32)
    names = ("half", "other") if half == 0 else ("other", "half")
    return emit(
        f"{{\n\t.reg .b16 half, other;\n\tmov.b32 {{{', '.join(names)}}}, $1;\n\t"
        f"cvt.f32.{ptx_type} $0, half;\n\t}}",
        (Float32,),
        (word,),
        effects=False,
    )[0]
