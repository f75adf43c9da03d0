"""Rules of arithmetic that no document states and the H200 records show, each on a few values."""

from __future__ import annotations

from fractions import Fraction
from math import cos, pi, sin

import numpy as np
import pytest

from testing.harness import lanewise, run_ptx
from tests.sim.isa.arith.exact import F16, F32, MODES, Float, exact

QUIET = 1 << 51
NEGATIVE_NAN = 0xFFF8 << 48


def flush_rule(form: Float, value: Fraction, mode: str) -> int:
    """The code of an exact result under .ftz: rounded with an exponent that has no lower end."""
    wide = Float(form.exponent + 3, form.mantissa, form.bias + 100)
    rounded = exact(wide, wide.encode(value, mode))
    sign = form.sign_bit if value < 0 else 0
    return sign if abs(rounded) < Fraction(2) ** (1 - form.bias) else form.encode(value, mode)


def near_smallest(form: Float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors whose product is within two units of the smallest normal number."""
    rng = np.random.default_rng(4)
    bits, dtype = form.mantissa + 1, np.uint32 if form is F32 else np.uint16
    a = rng.integers(1 << (bits - 1), 1 << bits, count)
    b = np.minimum((1 << (2 * bits - 1)) // a + rng.integers(0, 2, count), (1 << bits) - 1)
    exponent = rng.integers(1, form.bias, count)
    low = (1 << form.mantissa) - 1
    sign = rng.integers(0, 2, count) * form.sign_bit
    return (
        (sign | exponent << form.mantissa | a & low).astype(dtype),
        ((form.bias - exponent) << form.mantissa | b & low).astype(dtype),
    )


@pytest.mark.parametrize(("kind", "mode"), [*(("f32", m) for m in MODES), ("f16", "rn")])
def test_products_are_flushed_when_small_after_rounding(kind: str, mode: str) -> None:
    form = F32 if kind == "f32" else F16
    a, b = near_smallest(form, 600)
    zero = np.zeros_like(a)
    (product,) = lanewise(f"mul.{mode}.ftz.{kind} out0, in0, in1;", a, b, out=a.dtype)
    (fused,) = lanewise(f"fma.{mode}.ftz.{kind} out0, in0, in1, in2;", a, b, zero, out=a.dtype)
    kept = lifted = 0
    for x, y, p, f in zip(*(v.tolist() for v in (a, b, product, fused)), strict=True):
        value = exact(form, x) * exact(form, y)
        want = flush_rule(form, value, mode)
        assert p == want, (hex(x), hex(y))
        assert f | (p & form.sign_bit) == want
        plain = form.encode(value, mode)
        lifted += want != plain and plain & (form.sign_bit - 1) == 1 << form.mantissa
        kept += abs(value) < Fraction(2) ** (1 - form.bias) and want & (form.sign_bit - 1) != 0
    assert mode == "rz" or (kept > 20 and lifted > 20)


@pytest.mark.parametrize("mode", MODES)
def test_sums_with_a_small_product_are_flushed(mode: str) -> None:
    rng = np.random.default_rng(5)
    exponent = rng.integers(1, 99, 200)
    a = (rng.integers(0, 2, 200) << 31 | exponent << 23).astype(np.uint32)
    other = 103 + rng.integers(-3, 3, 200) - exponent  # products around 2^-151
    b = (other << 23 | rng.integers(0, 1 << 23, 200)).astype(np.uint32)
    c = (rng.integers(0, 2, 200) << 31 | 1 << 23).astype(np.uint32)
    (got,) = lanewise(f"fma.{mode}.ftz.f32 out0, in0, in1, in2;", a, b, c, out=np.uint32)
    for x, y, z, out in zip(*(v.tolist() for v in (a, b, c, got)), strict=True):
        value = exact(F32, x) * exact(F32, y) + exact(F32, z)
        assert out == flush_rule(F32, value, mode), (hex(x), hex(y), hex(z))


@pytest.mark.parametrize("mode", MODES)
def test_quotients_and_narrowed_doubles_are_flushed(mode: str) -> None:
    rng = np.random.default_rng(6)
    mantissa = rng.integers(0, 1 << 23, 300)
    a = (1 << 23 | mantissa).astype(np.uint32)
    b = ((127 << 23 | mantissa) + rng.integers(-2, 4, 300)).astype(np.uint32)
    (quotient,) = lanewise(f"div.{mode}.ftz.f32 out0, in0, in1;", a, b, out=np.uint32)
    for x, y, out in zip(*(v.tolist() for v in (a, b, quotient)), strict=True):
        assert out == flush_rule(F32, exact(F32, x) / exact(F32, y), mode)
    wide = ((897 << 52) - rng.integers(-(1 << 30), 1 << 30, 300)).view(np.float64)
    wide = np.concatenate([wide, -wide])
    (narrow,) = lanewise(f"cvt.{mode}.ftz.f32.f64 out0, in0;", wide.view(np.uint64), out=np.uint32)
    for v, out in zip(wide.tolist(), narrow.tolist(), strict=True):
        assert out == flush_rule(F32, Fraction(v), mode)


NANS = [
    0x7FF8 << 48 | 0x123456789ABC,
    0xFFFC << 48 | 0xF0F,
    0x7FF4 << 48 | 0x1111,
    0xFFF0 << 48 | 1,
]
PLAIN = [0x3FF0 << 48, 0x7FF0 << 48, 0xFFF0 << 48, 0]
VALUES = np.array([*NANS, *PLAIN], np.uint64)


def is_nan(code: int) -> bool:
    return code & (1 << 63) - 1 > 0x7FF0 << 48


def first_nan(*operands: int) -> int:
    """The first NaN, quiet; the empty negative one when there is none."""
    return next((x | QUIET for x in operands if is_nan(x)), NEGATIVE_NAN)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_doubles_keep_the_second_operands_nan(op: str) -> None:
    a, b = (x.ravel().copy() for x in np.meshgrid(VALUES, VALUES))
    (got,) = lanewise(f"{op}.rn.f64 out0, in0, in1;", a, b, out=np.uint64)
    undefined = 0
    for x, y, out in zip(*(v.tolist() for v in (a, b, got)), strict=True):
        if is_nan(out):
            undefined += 1
            assert out == (first_nan(x, y) if op == "div" else first_nan(y, x))
    assert undefined >= 48


def test_fused_doubles_prefer_the_nan_of_b_then_c_then_a() -> None:
    a, b, c = (x.ravel().copy() for x in np.meshgrid(VALUES, VALUES, VALUES))
    (got,) = lanewise("fma.rn.f64 out0, in0, in1, in2;", a, b, c, out=np.uint64)
    for x, y, z, out in zip(*(v.tolist() for v in (a, b, c, got)), strict=True):
        assert not is_nan(out) or out == first_nan(y, z, x)


@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_of_two_nans_are_the_second(op: str) -> None:
    a, b = (x.ravel().copy() for x in np.meshgrid(VALUES[:4], VALUES[:4]))
    (got,) = lanewise(f"{op}.f64 out0, in0, in1;", a, b, out=np.uint64)
    assert np.array_equal(got, b | np.uint64(QUIET))


def test_signs_of_nans() -> None:
    """neg and abs leave the sign of an f64 NaN and give the canonical one in f16 and bf16."""
    nans = VALUES[:4]
    for op in ("neg", "abs"):
        (got,) = lanewise(f"{op}.f64 out0, in0;", nans, out=np.uint64)
        assert np.array_equal(got, nans | np.uint64(QUIET))
        for kind, codes in (("f16", [0x7C01, 0xFE00]), ("bf16", [0x7F81, 0xFFC0])):
            (half,) = lanewise(f"{op}.{kind} out0, in0;", np.array(codes, np.uint16), out=np.uint16)
            assert half.tolist() == [0x7FFF, 0x7FFF]


def test_tf32_of_nans_and_the_largest() -> None:
    x = np.array(
        [0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0x7F7FFFFF], np.uint32
    )
    (away,) = lanewise("cvt.rna.tf32.f32 out0, in0;", x, out=np.uint32)
    (finite,) = lanewise("cvt.rna.satfinite.tf32.f32 out0, in0;", x, out=np.uint32)
    (near,) = lanewise("cvt.rn.tf32.f32 out0, in0;", x, out=np.uint32)
    assert away.tolist() == [0x7FC00000, 0xFFC00000, 0x7F800000, 0xFFFFE000, 0x7F800000, 0x7F800000]
    assert np.array_equal(finite, away - 0x2000)
    assert near.tolist()[:4] == [0x7FFFE000] * 4


@pytest.mark.parametrize("space", ["global", "shared"])
def test_sums_of_doubles_in_memory(space: str) -> None:
    """Global memory: the operand's NaN first, unchanged; shared: the element's first, quiet."""
    old, operand = (x.ravel().copy() for x in np.meshgrid(VALUES, VALUES))
    cell = "%rd60"
    text = (
        "mov.u32 %r60, %tid.x; mul.wide.u32 %rd59, %r60, 8; add.s64 %rd58, %rd59, %p0; "
        "add.s64 %rd60, %rd59, %p1;"
    )
    text += "ld.global.b64 %rd1, [%rd58]; ld.global.b64 %rd2, [%rd60];"
    if space == "shared":
        cell = "%r61"
        text += (
            "mov.u32 %r61, cells; shl.b32 %r60, %r60, 3; add.u32 %r61, %r61, %r60; "
            "st.shared.b64 [%r61], %rd2;"
        )
    text += f"red.{space}.add.f64 [{cell}], %rd1;"
    if space == "shared":
        text += "ld.shared.b64 %rd3, [%r61]; st.global.b64 [%rd60], %rd3;"
    out = old.copy()
    run_ptx(text, operand, out, block=64, shared=".shared .align 8 .b8 cells[512];")
    for before, value, after in zip(*(v.tolist() for v in (old, operand, out)), strict=True):
        if space == "shared" and is_nan(after):
            assert after == first_nan(before, value)
        elif is_nan(after):
            assert after == (value if is_nan(value) else before if is_nan(before) else NEGATIVE_NAN)


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_angles_turn_into_revolutions_first(op: str) -> None:
    """Large angles follow x * f32(1 / 2 pi) cut to f32, of whose fraction 25 bits count."""
    x = np.array([1e5, -12345.678, 3.3768664e7, 88.0, 2e-8, -2e-8, 3.0], np.float32)
    (got,) = lanewise(f"{op}.approx.f32 out0, in0;", x, out=np.float32)
    for value, out in zip(x.tolist(), got.tolist(), strict=True):
        turns = np.float32(abs(value) * float(np.float32(0.15915494)))
        if float(turns) > abs(value) * float(np.float32(0.15915494)):
            turns = np.nextafter(turns, np.float32(0))
        angle = int(float(turns) % 1 * 2**25) * 2 * pi / 2**25
        want = np.copysign(1, value) * sin(angle) if op == "sin" else cos(angle)
        assert out == pytest.approx(want, abs=2**-22)
    if op == "sin":
        assert got[4] == 0
        assert abs(got[0] - sin(1e5)) > 1e-5
        assert np.signbit(got[5])


def test_coarse_reciprocals_read_the_upper_word() -> None:
    x = np.array([0x7FF0 << 48 | 1 << 29, 0xFFF8 << 48, 0xBFF0 << 48, 0x4000 << 48], np.uint64)
    for op, want in (
        ("rcp", [0, 0x7FFFFFFF << 32, 0xBFF0 << 48, 0x3FE0 << 48]),
        ("rsqrt", [0, 0x7FFFFFFF << 32, 0x7FFFFFFF << 32, 0x3FE6A09E << 32]),
    ):
        (got,) = lanewise(f"{op}.approx.ftz.f64 out0, in0;", x, out=np.uint64)
        assert got.tolist() == want
