"""Packed float arithmetic (``f32x2``), reciprocal, logarithm and conversion to 16 bits.

All packed forms flush subnormals (``.ftz``) and round to nearest unless named otherwise.
"""

from cutlass import Float32, Int32, cute

from ..ptx import emit

F32x2 = tuple[Float32, Float32]


def fma2(a: F32x2, b: F32x2, c: F32x2) -> F32x2:
    """Return ``a * b + c`` on both halves."""
    return cute.arch.fma_packed_f32x2(a, b, c, ftz=True)


def mul2(a: F32x2, b: F32x2) -> F32x2:
    """Return ``a * b`` on both halves."""
    return cute.arch.mul_packed_f32x2(a, b, ftz=True)


def add2(a: F32x2, b: F32x2, *, rnd: str = "rn") -> F32x2:
    """Return ``a + b`` on both halves, rounded as ``rnd`` says."""
    return cute.arch.add_packed_f32x2(a, b, rnd=rnd, ftz=True)


def sub2(a: F32x2, b: F32x2) -> F32x2:
    """Return ``a - b`` on both halves."""
    return cute.arch.sub_packed_f32x2(a, b, ftz=True)


def fma(a: Float32, b: Float32, c: Float32) -> Float32:
    """Return ``a * b + c``, rounded once, in every kernel alike.

    Left to itself a compiler fuses products and sums in one kernel and not in the next.
    """
    return cute.math.fma(a, b, c, ftz=True)


def mul(a: Float32, b: Float32) -> Float32:
    """Return ``a * b``, rounded, never fused with a sum."""
    return cute.math.mul(a, b, ftz=True)


def add(a: Float32, b: Float32) -> Float32:
    """Return ``a + b``, rounded, never fused with a product."""
    return cute.math.add(a, b, ftz=True)


def add_down(a: Float32, b: Float32) -> Float32:
    """Return ``a + b`` rounded towards minus infinity."""
    return cute.math.add(a, b, rounding=cute.math.RoundingMode.DOWN, ftz=True)


def max3(a: Float32, b: Float32, c: Float32) -> Float32:
    """Return the largest of three, one instruction on SM100; NaN if any operand is.

    DSL: ``cute.arch.fmax`` takes two operands. The assembler joins two of them into the same
    instruction, but the compiler schedules them apart first: one kernel spills more.
    """
    return emit("max.ftz.NaN.f32 $0, $1, $2, $3;", (Float32,), (a, b, c), effects=False)[0]


def max2(a: Float32, b: Float32) -> Float32:
    """Return the larger of two; NaN if either operand is."""
    return cute.arch.fmax(a, b, nan=True, ftz=True)


def min2(a: Float32, b: Float32) -> Float32:
    """Return the smaller of two; NaN if either operand is."""
    return cute.arch.fmin(a, b, nan=True, ftz=True)


def exp2_hardware(x: Float32) -> Float32:
    """Return ``2**x`` from the special-function unit (2 ulp; -inf gives 0)."""
    return cute.math.exp2(x, fastmath=True)


def log2_hardware(x: Float32) -> Float32:
    """Return ``log2(x)`` for ``x > 0``; 0 gives -inf."""
    return cute.math.log2(x, fastmath=True)


def reciprocal(x: Float32) -> Float32:
    """Return ``1 / x`` (1 ulp)."""
    return cute.arch.rcp_approx(x)


def saturating_mul(a: Float32, b: Float32) -> Float32:
    """Return ``a * b`` rounded towards zero: beyond float32 the largest number, not infinity.

    DSL: ``cute.math.mul`` rounds to nearest.
    """
    return emit("mul.rz.ftz.f32 $0, $1, $2;", (Float32,), (a, b), effects=False)[0]


def saturating_mul2(a: F32x2, b: F32x2) -> F32x2:
    """Return ``a * b`` on both halves, as :func:`saturating_mul`."""
    return cute.arch.mul_packed_f32x2(a, b, rnd="rz", ftz=True)


def absolute(x: Float32) -> Float32:
    """Return ``|x|``."""
    return cute.math.absf(x)


def power_below(x: Float32) -> Float32:
    """Return the largest power of two that is at most ``x``, positive; 0 for a subnormal ``x``."""
    return (x.bitcast(Int32) & 0x7F800000).bitcast(Float32)


def where_at_least(x: Float32, bound: float, then: Float32, otherwise: Float32) -> Float32:
    """Return ``then`` where ``x >= bound``, else ``otherwise``, as for NaN.

    DSL: ``cutlass.select_`` emits the same two instructions, but the compiler moves them after the
    next branch, where all exponentials of a row wait for them.
    """
    return emit(
        "{\n\t.reg .pred reached;\n\tsetp.ge.f32 reached, $1, $2;\n\t"
        "selp.f32 $0, $3, $4, reached;\n\t}",
        (Float32,),
        (x, Float32(bound), then, otherwise),
        effects=False,
    )[0]


def pack16(low: Float32, high: Float32, ptx_type: str) -> Int32:
    """Round two floats to ``ptx_type`` (``bf16`` or ``f16``); ``low`` in the low half.

    DSL: ``TensorSSA.to`` emits the same instruction, from a vector that is built and taken apart
    around each word; ``cute.arch.cvt_f32x2_bf16x2`` adds ``.satfinite``: inf becomes a number.
    """
    return emit(
        f"cvt.rn.{ptx_type}x2.f32 $0, $1, $2;", (Int32,), (high, low), effects=False
    )[0]


def opaque(value: Int32) -> Int32:
    """Return ``value``, unknown to the compiler: what follows from it is computed where it stands.

    Otherwise everything that a loop does not change is held in registers throughout the loop.

    DSL: none. No operation hides from the compiler where a value comes from.
    """
    return emit("mov.b32 $0, $1;", (Int32,), (value,))[0]
