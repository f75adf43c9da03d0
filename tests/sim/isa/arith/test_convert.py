"""cvt against torch's formats and exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from testing.harness import lanewise

VALUES = np.concatenate(
    [
        np.array(
            [
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                1.5,
                2.5,
                -2.5,
                447.0,
                448.0,
                449.0,
                480.0,
                1e9,
                -1e9,
                65504.0,
                65519.0,
                65520.0,
                1e-8,
                6e-8,
                2.0**-24,
                2.0**-25,
                2.0**-9,
                2.0**-10,
                3e38,
                np.inf,
                -np.inf,
                np.nan,
            ],
            np.float32,
        ),
        np.random.default_rng(0).normal(size=500).astype(np.float32),
        np.random.default_rng(1)
        .integers(0, 2**32, 500, dtype=np.uint64)
        .astype(np.uint32)
        .view(np.float32),
    ]
)


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_pairs_put_the_first_operand_in_the_upper_half(name: str, dtype: torch.dtype) -> None:
    a, b = VALUES, VALUES[::-1].copy()
    (got,) = lanewise(f"cvt.rn.{name}x2.f32 out0, in0, in1;", a, b, out=np.uint32)
    upper, lower = (got >> 16).astype(np.uint16), (got & 0xFFFF).astype(np.uint16)
    for half, source in ((upper, a), (lower, b)):
        want = torch.from_numpy(source.copy()).to(dtype).view(torch.int16).numpy().view(np.uint16)
        nan = np.isnan(source)
        assert np.array_equal(half[~nan], want[~nan])
        assert set(half[nan].tolist()) == {0x7FFF}


@pytest.mark.parametrize(
    ("name", "dtype"), [("e4m3x2", torch.float8_e4m3fn), ("e5m2x2", torch.float8_e5m2)]
)
def test_fp8_saturates(name: str, dtype: torch.dtype) -> None:
    a, b = VALUES, VALUES[::-1].copy()
    (got,) = lanewise(f"cvt.rn.satfinite.{name}.f32 out0, in0, in1;", a, b, out=np.uint16)
    largest = torch.finfo(dtype).max
    for half, source in (((got >> 8).astype(np.uint8), a), ((got & 0xFF).astype(np.uint8), b)):
        want = (
            torch.from_numpy(np.clip(source, -largest, largest)).to(dtype).view(torch.uint8).numpy()
        )
        nan = np.isnan(source)
        assert np.array_equal(half[~nan], want[~nan])
        assert set((half[nan] & 0x7F).tolist()) == {0x7F}


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_widening_is_exact(name: str, dtype: torch.dtype) -> None:
    codes = np.arange(0, 65536, 7, dtype=np.uint16)
    (got,) = lanewise(f"cvt.f32.{name} out0, in0;", codes, out=np.float32)
    want = torch.from_numpy(codes.view(np.int16).copy()).view(dtype).float().numpy()
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_float_to_integer_clamps(mode: str, kind: str) -> None:
    bits = int(kind[1:])
    out = {32: np.uint32, 64: np.uint64}[bits]
    (got,) = lanewise(f"cvt.{mode}.{kind}.f32 out0, in0;", VALUES, out=out)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind[0] == "s" else (0, 2**bits - 1)
    function = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    for x, code in zip(VALUES, got, strict=True):
        if np.isnan(x):
            assert int(code) == (2**63 if bits == 64 else 0)
            continue
        value = (
            high
            if x == np.inf
            else low
            if x == -np.inf
            else min(max(int(function(np.float64(x))), low), high)
        )
        assert int(code) == value % 2**bits


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_integer_to_float_rounds_to_nearest(kind: str) -> None:
    bits = int(kind[1:])
    dtype = {"s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64}[kind]
    rng = np.random.default_rng(4)
    raw = rng.integers(0, 2**bits, 400, dtype=np.uint64).astype(f"u{bits // 8}")
    (got,) = lanewise(f"cvt.rn.f32.{kind} out0, in0;", raw, out=np.float32)
    assert np.array_equal(got, raw.view(dtype).astype(np.float32))


def test_narrowing_and_sign_extension() -> None:
    raw = np.random.default_rng(6).integers(0, 2**32, 200, dtype=np.uint64).astype(np.uint32)
    (s8,) = lanewise("cvt.s32.s8 out0, in0;", raw, out=np.uint32)
    (u8,) = lanewise("cvt.u32.u8 out0, in0;", raw, out=np.uint32)
    (s64,) = lanewise("cvt.s64.s32 out0, in0;", raw, out=np.uint64)
    (clamped,) = lanewise("cvt.sat.u16.s32 out0, in0;", raw, out=np.uint16)
    assert np.array_equal(s8, raw.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32))
    assert np.array_equal(u8, raw & 0xFF)
    assert np.array_equal(s64, raw.view(np.int32).astype(np.int64).view(np.uint64))
    assert np.array_equal(clamped, np.clip(raw.view(np.int32), 0, 65535).astype(np.uint16))


def test_tf32_drops_the_low_bits() -> None:
    x = VALUES[np.isfinite(VALUES) & (np.abs(VALUES) < 1e38)]
    (got,) = lanewise("cvt.rna.tf32.f32 out0, in0;", x, out=np.uint32)
    raw = x.view(np.uint32).astype(np.uint64)
    want = ((raw + 0x1000) & ~np.uint64(0x1FFF)).astype(np.uint32)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "mul", "max"])
def test_half_arithmetic(kind: str, op: str) -> None:
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kind]
    rng = np.random.default_rng(8)
    a, b = (torch.from_numpy(rng.normal(size=300)).to(dtype) for _ in range(2))
    codes = [x.view(torch.int16).numpy().view(np.uint16).copy() for x in (a, b)]
    (got,) = lanewise(f"{op}.{kind} out0, in0, in1;", *codes, out=np.uint16)
    x, y = a.double(), b.double()
    want = {"add": x + y, "mul": x * y, "max": torch.maximum(x, y)}[op].to(dtype)
    assert np.array_equal(got, want.view(torch.int16).numpy().view(np.uint16))


def test_mixed_precision_addition() -> None:
    a = torch.randn(200, dtype=torch.bfloat16)
    e = np.random.default_rng(2).normal(size=200).astype(np.float32)
    codes = a.view(torch.int16).numpy().view(np.uint16).copy()
    (added,) = lanewise(
        "mov.b32 %f1, in1; add.rn.f32.bf16 %f2, in0, %f1; mov.b32 out0, %f2;",
        codes,
        e,
        out=np.float32,
    )
    (subtracted,) = lanewise(
        "mov.b32 %f1, in1; sub.rn.f32.bf16 %f2, in0, %f1; mov.b32 out0, %f2;",
        codes,
        e,
        out=np.float32,
    )
    assert np.array_equal(added, a.float().numpy() + e)
    assert np.array_equal(subtracted, a.float().numpy() - e)
