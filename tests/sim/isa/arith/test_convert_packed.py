"""cvt of pairs in small formats and of tf32, against exact fractions; every code is decoded
once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from testing.harness import lanewise
from tests.sim.isa.absent import refused
from tests.sim.isa.arith.exact import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    F16,
    F32,
    TF32,
    Float,
    exact,
    finite,
)

NARROW = {"e4m3": E4M3, "e5m2": E5M2, "e2m3": E2M3, "e3m2": E3M2, "e2m1": E2M1}
NAN_CODE = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}
BYTE = ".reg .b8 %by<4>;"


def around(form: Float) -> np.ndarray:
    """f32 bits of the format's values, the ties between them, their neighbours, and the
    specials."""
    exact_codes = [F32.encode(exact(form, c)) for c in range(form.largest_code + 1)]
    ties = [F32.encode((exact(form, c) + exact(form, c + 1)) / 2) for c in range(form.largest_code)]
    last = 2 * exact(form, form.largest_code) - exact(form, form.largest_code - 1)
    near = [F32.encode(last), F32.encode(last * 3), 0x7F7FFFFF, 0x00000001, 0x00800000]
    base = np.array(exact_codes + ties + near, np.uint32)
    base = np.concatenate([base, base + 1, base[base > 0] - 1])
    rng = np.random.default_rng(form.mantissa)
    spread = rng.normal(scale=float(exact(form, form.largest_code)) / 3, size=300).astype(
        np.float32
    )
    specials = np.array([0x7F800000, 0x7FC00000, 0x7F800001, 0xFFC00000], np.uint32)
    positive = np.concatenate([base, np.abs(spread).view(np.uint32)])
    return np.concatenate(
        [positive, positive | np.uint32(0x80000000), specials, specials[:1] | np.uint32(1 << 31)]
    )


def expected(name: str, bits: int) -> int:
    """The satfinite code of one f32."""
    form, value = NARROW[name], F32.decode(bits)
    if value == "nan":
        return NAN_CODE[name]
    sign = form.sign_bit if bits >> 31 else 0
    if isinstance(value, str):
        return sign | form.largest_code
    return sign | min(form.encode(abs(value)), form.largest_code)


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", NARROW)
def test_encoding_to_nearest_even(name: str, relu: str) -> None:
    bits = around(NARROW[name])
    a, b = bits, np.roll(bits, 5)
    width = 4 if name == "e2m1" else 8
    if width == 4:
        body = f"cvt.rn.satfinite{relu}.e2m1x2.f32 %by1, in0, in1; mov.b16 out0, {{%by1, 0}};"
    else:
        body = f"cvt.rn.satfinite{relu}.{name}x2.f32 out0, in0, in1;"
    (got,) = lanewise(body, a, b, out=np.uint16, regs=BYTE)
    for x, y, out in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        high, low = (
            0 if relu and code >> 31 and F32.decode(code) != "nan" else expected(name, code)
            for code in (x, y)
        )
        assert out == high << width | low, (hex(x), hex(y), hex(out))


@pytest.mark.parametrize("wide", ["f16", "bf16"])
@pytest.mark.parametrize("name", NARROW)
def test_decoding_every_code(name: str, wide: str) -> None:
    """To bf16 since PTX ISA 9.2."""
    form, target = NARROW[name], {"f16": F16, "bf16": BF16}[wide]
    width = 4 if name == "e2m1" else 8
    codes = np.arange(2 * form.sign_bit, dtype=np.uint16)
    packed = (codes | codes[::-1] << width).astype(np.uint16)
    load = "mov.b16 {%by1, %by2}, in0;" if width == 4 else ""
    source = "%by1" if width == 4 else "in0"
    (got,) = lanewise(
        f"{load} cvt.rn.{wide}x2.{name}x2 out0, {source};", packed, out=np.uint32, regs=BYTE
    )
    for low, high, out in zip(codes.tolist(), codes[::-1].tolist(), got.tolist(), strict=True):
        for code, half in ((low, out & 0xFFFF), (high, out >> 16)):
            value = form.decode(code)
            if value == "nan":
                assert half == 0x7FFF
            else:
                assert target.decode(half) == value
                assert half >> 15 == bool(code & form.sign_bit)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("rounding", ["rn", "rz"])
@pytest.mark.parametrize("flags", ["", ".relu", ".satfinite", ".relu.satfinite"])
def test_pairs_of_halves(kind: str, rounding: str, flags: str) -> None:
    form = {"f16": F16, "bf16": BF16}[kind]
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2**32, 600, dtype=np.uint64).astype(np.uint32)
    small = rng.normal(scale=1e-4, size=200).astype(np.float32).view(np.uint32)
    edge = np.array(
        [0x7F800000, 0xFF800000, 0x7FC00000, 0x477FE000, 0x477FF000, 0x7F7FFFFF, 0x80000000],
        np.uint32,
    )
    a = np.concatenate([bits, small, edge])
    b = np.roll(a, 3)
    (got,) = lanewise(f"cvt.{rounding}{flags}.{kind}x2.f32 out0, in0, in1;", a, b, out=np.uint32)
    for x, y, out in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        for code, half in ((x, out >> 16), (y, out & 0xFFFF)):
            value = F32.decode(code)
            if value == "nan":
                assert half == 0x7FFF
                continue
            if ".relu" in flags and code >> 31:
                assert half == 0
                continue
            sign = 0x8000 if code >> 31 else 0
            top = form.largest_code + (0 if ".satfinite" in flags else 1)
            want = (
                sign | top
                if isinstance(value, str)
                else form.encode(value, rounding, negative_zero=bool(sign))
            )
            if want & 0x7FFF > form.largest_code:
                want = sign | top
            assert half == want


def test_scale_factors_are_powers_of_two() -> None:
    rng = np.random.default_rng(8)
    powers = [F32.encode(Fraction(2) ** e) for e in (-149, -128, -127, -126, -1, 0, 1, 126, 127)]
    a = np.concatenate([powers, np.array(powers) + 1, rng.integers(0, 0x7F800000, 200)]).astype(
        np.uint32
    )
    down, up, wide = (
        lanewise(f"cvt.{form}.ue8m0x2.f32 out0, in0, in1;", a, a[::-1].copy(), out=np.uint16)[0]
        for form in ("rz", "rp", "rp.satfinite")
    )
    for x, y, low, high, kept in zip(
        *(v.tolist() for v in (a, a[::-1], down, up, wide)), strict=True
    ):
        for code, shift in ((x, 8), (y, 0)):
            value = exact(F32, code)
            d, u, k = (v >> shift & 0xFF for v in (low, high, kept))
            if value >= Fraction(2) ** -127:
                assert Fraction(2) ** (d - 127) <= value < Fraction(2) ** (d - 126)
            else:
                assert d == u == 0
            above = u if u != 0xFF else 255
            if value > Fraction(2) ** -127:
                assert Fraction(2) ** (above - 128) < value <= Fraction(2) ** (above - 127)
            assert k == min(u, 0xFE)


def test_scale_factors_decode_to_bf16() -> None:
    codes = np.arange(256, dtype=np.uint16)
    (got,) = lanewise("cvt.rn.bf16x2.ue8m0x2 out0, in0;", codes | codes[::-1] << 8, out=np.uint32)
    for k, out in enumerate(got.tolist()):
        for code, half in ((k, out & 0xFFFF), (255 - k, out >> 16)):
            assert BF16.decode(half) == ("nan" if code == 255 else Fraction(2) ** (code - 127))


@pytest.mark.slow
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_repacking_halves(name: str, source: str) -> None:
    half = {"f16": F16, "bf16": BF16}[source]
    codes = np.random.default_rng(4).integers(0, 65536, (2, 700)).astype(np.uint32)
    packed = codes[0] | codes[1] << 16
    width = 4 if name == "e2m1" else 8
    out = "%by1" if width == 4 else "out0"
    tail = "mov.b16 out0, {%by1, 0};" if width == 4 else ""
    body = f"cvt.rn.satfinite.{name}x2.{source}x2 {out}, in0; {tail}"
    (got,) = lanewise(body, packed, out=np.uint16, regs=BYTE)
    for low, high, code in zip(codes[0].tolist(), codes[1].tolist(), got.tolist(), strict=True):
        for value, part in ((low, code & (1 << width) - 1), (high, code >> width)):
            if finite(half, value):
                number = exact(half, value)
                bits = F32.encode(number, negative_zero=value >= 0x8000)
            else:
                kind = half.decode(value)
                bits = {"nan": 0x7FC00000, "inf": 0x7F800000, "-inf": 0xFF800000}[str(kind)]
            assert part == expected(name, bits)


@pytest.mark.parametrize("rounding", ["rna", "rn", "rz"])
def test_tf32(rounding: str) -> None:
    bits = np.random.default_rng(5).integers(0, 2**32, 800, dtype=np.uint64).astype(np.uint32)
    bits = np.concatenate(
        [bits, bits & 0xFFFFF000 | 0x1000, np.array([0x7F800000, 0x7F7FFFFF], np.uint32)]
    )
    (got,) = lanewise(f"cvt.{rounding}.tf32.f32 out0, in0;", bits, out=np.uint32)
    for x, out in zip(bits.tolist(), got.tolist(), strict=True):
        value = F32.decode(x)
        if value == "nan":  # cut off by .rna, one NaN from the others (H200 record)
            assert out == (x & ~0x1FFF if rounding == "rna" else 0x7FFFE000)
        elif isinstance(value, Fraction):
            code = TF32.encode(value, rounding, negative_zero=bool(x >> 31))
            assert out == code << 13
        else:
            assert out == x


test_forms_that_the_isa_does_not_have = refused(
    "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;",
    "cvt.rz.satfinite.e4m3x2.f32 %h1, %f1, %f2;",
    "cvt.rn.ue8m0x2.f32 %h1, %f1, %f2;",
    "cvt.rn.f16x2.ue8m0x2 %r1, %h1;",
    "cvt.rn.bf16x2.f16x2 %r1, %r2;",
    "cvt.rn.e5m2x2.e4m3x2 %h1, %h2;",
    "cvt.tf32.f32 %r1, %f1;",
    "cvt.rn.bf16x2.f32 %r1, %f1;",
)


SATURATED = {
    (-1, 2): [
        0xBEEF0002, 0xBEEFFF02, 0xADBEEF02, 0xADBEEFF2,
        0xEADBEEF2, 0xEADBEEFD, 2, 0xFFFF0002,
    ],
    (128, -128): [
        0xBEEF8000, 0xBEEF7F80, 0xADBEEFF0, 0xADBEEF78,
        0xEADBEEFC, 0xEADBEEF6, 0x800000, 0x80FF80,
    ],
    (-32769, 65535): [
        0xBEEF00FF, 0xBEEF807F, 0xADBEEF0F, 0xADBEEF87,
        0xEADBEEF3, 0xEADBEEF9, 0xFFFF, 0x80007FFF,
    ],
    (-(2**31), -2): [
        0xBEEF0000, 0xBEEF80FE, 0xADBEEF00, 0xADBEEF8E,
        0xEADBEEF0, 0xEADBEEFA, 0, 0x8000FFFE,
    ],
    (5, -7): [
        0xBEEF0500, 0xBEEF05F9, 0xADBEEF50, 0xADBEEF59,
        0xEADBEEFC, 0xEADBEEF6, 0x50000, 0x5FFF9,
    ],
}  # fmt: skip
"""cvt.pack of (a, b) above 0xDEADBEEF, as an H100 (driver 580.159.04) has it: to u8, s8, u4, s4,
u2, s2, u16, s16."""


@pytest.mark.parametrize("column", range(8))
def test_saturated_pairs_as_an_h100_has_them(column: int) -> None:
    kind = ("u8", "s8", "u4", "s4", "u2", "s2", "u16", "s16")[column]
    third = ".b32 out0, in0, in1, 0xDEADBEEF;" if column < 6 else " out0, in0, in1;"
    pairs = np.array(list(SATURATED), np.int32)
    body = f"cvt.pack.sat.{kind}.s32{third}"
    (got,) = lanewise(body, pairs[:, 0].copy(), pairs[:, 1].copy(), out=np.uint32)
    assert got.tolist() == [want[column] for want in SATURATED.values()]


test_forms_of_cvt_pack_that_the_isa_does_not_have = refused(
    "cvt.pack.sat.u8.s32 %r1, %r2, %r3;",
    "cvt.pack.u8.s32.b32 %r1, %r2, %r3, %r4;",
    "cvt.pack.sat.u16.s32 %r1, %r2, %r3, %r4;",
)
