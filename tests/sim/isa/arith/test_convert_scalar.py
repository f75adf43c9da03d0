"""Scalar cvt in every rounding mode against exact fractions; operand widths; illegal forms."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from sm100sim.ptx.errors import PtxError
from testing.harness import lanewise, run_ptx
from tests.sim.isa.absent import refused
from tests.sim.isa.arith.exact import BF16, F16, F32, F64, MODES, Float, exact

FORMATS = {
    "f16": (F16, np.uint16),
    "bf16": (BF16, np.uint16),
    "f32": (F32, np.uint32),
    "f64": (F64, np.uint64),
}
NARROWING = [
    ("f64", "f32"),
    ("f64", "f16"),
    ("f64", "bf16"),
    ("f32", "f16"),
    ("f32", "bf16"),
    ("f16", "bf16"),
    ("bf16", "f16"),
]
INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


def integers(kind: str) -> np.ndarray:
    """Values at and around the places where a float format runs out of bits."""
    bits = int(kind[1:])
    base = [0, 1, 2, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1]
    base += [(1 << k) + d for k in range(bits) for d in (-1, 0, 1)]
    base += [
        (1 << k) + (1 << (k - m)) + d
        for k in range(bits)
        for m in (8, 9, 11, 12, 24, 25, 53, 54)
        if k >= m
        for d in (-1, 0, 1)
    ]
    rng = np.random.default_rng(bits)
    values = [v % 2**bits for v in base] + [
        int(v) >> int(s)
        for v, s in zip(
            rng.integers(0, 2**bits, 200, dtype=np.uint64), rng.integers(0, bits, 200), strict=True
        )
    ]
    return np.array(values, np.dtype(f"u{max(bits, 16) // 8}"))


def signed(value: int, kind: str) -> int:
    bits = int(kind[1:])
    value %= 2**bits
    return value - 2**bits if kind[0] == "s" and value >> (bits - 1) else value


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("kind", ["s16", "u32", "s32", "u64", "s64"])
def test_integer_to_float(kind: str, to: str, mode: str) -> None:
    form, dtype = FORMATS[to]
    raw = integers(kind)
    (got,) = lanewise(f"cvt.{mode}.{to}.{kind} out0, in0;", raw, out=dtype)
    for x, code in zip(raw.tolist(), got.tolist(), strict=True):
        value = signed(x, kind)
        assert code == form.encode(Fraction(value), mode), value


def floats(name: str, count: int = 500) -> np.ndarray:
    form, dtype = FORMATS[name]
    bits = form.exponent + form.mantissa + 1
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 2**bits, count, dtype=np.uint64)
    # Numbers of ordinary size, halves and ties among them.
    near = (
        rng.integers(form.bias - 3, form.bias + 18, count).astype(np.uint64)
        << np.uint64(form.mantissa)
    ) | (rng.integers(0, 16, count).astype(np.uint64) << np.uint64(form.mantissa - 4))
    inf = form.largest_code + 1
    special = np.array([0, inf, inf + 1, inf - 1, 2 * form.sign_bit - 1], np.uint64)
    signed_special = np.concatenate([special, special | np.uint64(form.sign_bit)])
    return np.concatenate([codes, near, near | np.uint64(form.sign_bit), signed_special]).astype(
        dtype
    )


def kept_nan(code: int, source: Float, to: Float) -> int:
    """The NaN of `to` with the sign and the upper payload bits of a NaN of `source`, quiet."""
    payload = (code & ((1 << source.mantissa) - 1)) << 52 - source.mantissa >> 52 - to.mantissa
    sign = to.sign_bit if code & source.sign_bit else 0
    return sign | to.sign_bit - (1 << to.mantissa) | payload | 1 << (to.mantissa - 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("source", "to"), NARROWING)
def test_float_narrowing(source: str, to: str, mode: str) -> None:
    form_in, form_out = FORMATS[source][0], FORMATS[to][0]
    codes = floats(source)
    if source == "f64":  # values in the range of the narrower format, with 53-bit significands
        scaled = np.random.default_rng(1).normal(scale=3.0, size=500).astype(np.float64)
        ties = np.array(
            [1.0 + 2.0**-k + 2.0**-52 for k in (8, 9, 11, 12, 24, 25)]
            + [2.0**-149 * 1.5, 2.0**-150]
        )
        codes = np.concatenate([codes, scaled.view(np.uint64), ties.view(np.uint64)])
    (got,) = lanewise(f"cvt.{mode}.{to}.{source} out0, in0;", codes, out=FORMATS[to][1])
    for x, code in zip(codes.tolist(), got.tolist(), strict=True):
        value = form_in.decode(x)
        if value == "nan":
            assert code == (
                kept_nan(x, form_in, form_out) if source == "f64" else form_out.sign_bit - 1
            )
        elif isinstance(value, str):
            assert form_out.decode(code) == value
        else:
            negative = bool(x & form_in.sign_bit)
            want = form_out.encode(value, mode, negative_zero=negative)
            if want & (form_out.sign_bit - 1) == 0 and negative:
                want |= form_out.sign_bit
            assert code == want, (hex(x), hex(code))


@pytest.mark.parametrize(
    ("source", "to"),
    [("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64")],
)
def test_float_widening_is_exact(source: str, to: str) -> None:
    codes = floats(source)
    (got,) = lanewise(f"cvt.{to}.{source} out0, in0;", codes, out=FORMATS[to][1])
    for x, code in zip(codes.tolist(), got.tolist(), strict=True):
        value = FORMATS[source][0].decode(x)
        assert FORMATS[to][0].decode(code) == value
        if value == "nan" and to == "f64":
            assert code == kept_nan(x, FORMATS[source][0], F64)
        elif value == "nan":
            assert code == (x << 16 if source == "bf16" else 0x7FFFFFFF)


ROUND: dict[str, Callable[[Fraction], int]] = {
    "rzi": int,
    "rmi": lambda v: v.numerator // v.denominator,
    "rpi": lambda v: -(-v.numerator // v.denominator),
    "rni": round,
}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
def test_float_to_integer(source: str, kind: str, mode: str) -> None:
    form = FORMATS[source][0]
    codes = floats(source, 150)
    bits = int(kind[1:])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind[0] == "s" else (0, 2**bits - 1)
    register = max(bits, 16)
    (got,) = lanewise(
        f"cvt.{mode}.{kind}.{source} out0, in0;", codes, out=np.dtype(f"u{register // 8}")
    )
    for x, code in zip(codes.tolist(), got.tolist(), strict=True):
        value = form.decode(x)
        if value == "nan":
            want = 1 << (bits - 1) if bits == 64 or source == "f64" else 0
            want = signed(want, kind)
        elif isinstance(value, str):
            want = high if value == "inf" else low
        else:
            want = min(max(ROUND[mode](value), low), high)
        assert code == want % 2**register, (hex(x), hex(code))


@pytest.mark.parametrize("mode", ROUND)
def test_rounding_to_an_integral_float(mode: str) -> None:
    codes = floats("f32")
    (got,) = lanewise(f"cvt.{mode}.f32.f32 out0, in0;", codes, out=np.uint32)
    for x, code in zip(codes.tolist(), got.tolist(), strict=True):
        value = F32.decode(x)
        if isinstance(value, Fraction):
            want = F32.encode(Fraction(ROUND[mode](value)), negative_zero=bool(x >> 31))
            assert code == want


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("saturating", [False, True])
def test_integer_to_integer(source: str, to: str, saturating: bool) -> None:
    raw = integers(source)
    bits = int(to[1:])
    register = max(bits, 16)
    form = "cvt.sat" if saturating else "cvt"
    wider = bits >= int(source[1:]) + (to[0] != source[0])
    if saturating and wider and (source[0] == "u" or to[0] == "s"):
        with pytest.raises(PtxError, match="sat has no effect"):
            run_ptx(f"cvt.sat.{to}.{source} %h1, %h2;")
        return
    (got,) = lanewise(f"{form}.{to}.{source} out0, in0;", raw, out=np.dtype(f"u{register // 8}"))
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if to[0] == "s" else (0, 2**bits - 1)
    for x, code in zip(raw.tolist(), got.tolist(), strict=True):
        value = signed(x, source)
        want = min(max(value, low), high) if saturating else signed(value, to)
        assert code == want % 2**register


def test_results_extend_to_wider_registers() -> None:
    raw = np.random.default_rng(2).integers(0, 2**32, 100, dtype=np.uint64).astype(np.uint32)
    narrow, wide = lanewise(
        "cvt.s8.s32 out0, in0; cvt.u16.u32 out1, in0;", raw, out=np.uint32, outputs=2
    )
    (double,) = lanewise("cvt.s16.s32 out0, in0;", raw, out=np.uint64)
    assert np.array_equal(narrow.view(np.int32), raw.astype(np.uint8).view(np.int8))
    assert np.array_equal(wide, raw & 0xFFFF)
    assert np.array_equal(double.view(np.int64), raw.astype(np.uint16).view(np.int16))


def test_saturation_flush_and_relu() -> None:
    x = np.array([-1.0, -0.0, 0.25, 1.0, 2.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40], np.float32)
    (sat,) = lanewise("cvt.sat.f32.f32 out0, in0;", x, out=np.uint32)
    assert sat.view(np.float32).tolist()[:8] == [0, 0, 0.25, 1, 1, 1, 0, 0]
    assert sat[1] == 0
    (flushed,) = lanewise("cvt.ftz.f64.f32 out0, in0;", x, out=np.float64)
    assert flushed[8] == 0
    assert np.signbit(flushed[9])
    (relu,) = lanewise("cvt.rn.relu.f16.f32 out0, in0;", x, out=np.uint16)
    assert relu.tolist() == [0, 0, 0x3400, 0x3C00, 0x4000, 0x7C00, 0, 0x7FFF, 0, 0]
    tiny = np.array([1e-310, 1.2e-38 / 2, 1.0], np.float64)
    (small,) = lanewise("cvt.rn.ftz.f32.f64 out0, in0;", tiny, out=np.float32)
    assert small.tolist() == [0, 0, 1]


test_illegal_forms = refused(
    "cvt.s32.f32 %r1, %f1;",
    "cvt.f32.s32 %f1, %r1;",
    "cvt.rn.f32.bf16 %f1, %h1;",
    "cvt.f16.f32 %h1, %f1;",
    "cvt.rn.s32.f32 %r1, %f1;",
    "cvt.rni.u32.u64 %r1, %rd1;",
    "cvt.relu.f32.f32 %f1, %f2;",
    "cvt.ftz.u32.u16 %r1, %h1;",
    "cvt.rn.f32.f32 %f1, %f2;",
    "cvt.u32 %r1, %r2;",
    "cvt.rn.f32.s33 %f1, %r2;",
    "cvt.rn.bf16.u8 %h1, %h2;",
    "cvt.rzi.s8.bf16 %h1, %h2;",
    "cvt.rn.sat.bf16.f32 %h1, %f2;",
    "cvt.rni.sat.u32.bf16 %r1, %h2;",
    "cvt.rm.relu.f16.f32 %h1, %f2;",
    "cvt.rn.satfinite.f16.f64 %h1, %fd2;",
    "cvt.rn.relu.bf16.s32 %h1, %r2;",
)


def test_bits_are_kept_where_the_reference_says(  # guards the reference against trivial agreement
) -> None:
    assert F32.encode(Fraction(16777217)) == 0x4B800000
    assert F32.encode(Fraction(16777217), "rp") == 0x4B800001
    assert exact(F16, F16.encode(Fraction(65519))) == 65504
    assert F16.encode(Fraction(65520)) == 0x7C00
    assert Float(4, 3, 7, "fn").encode(Fraction(448)) == 0x7E
