"""Floating-point instructions against exact rational arithmetic, rounded by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testing.harness import lanewise

SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1.5,
        3.0e38,
        -3.0e38,
        1e-38,
        1.1754944e-38,
        1e-45,
        -1e-45,
        1e-40,
        np.inf,
        -np.inf,
        np.nan,
        16777216.0,
        16777215.0,
        0.1,
        1 / 3,
        2.0**-126,
        65504.0,
    ],
    np.float32,
)


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def spread(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)


def cross() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    return np.concatenate([a.ravel(), spread(300, 1)]), np.concatenate([b.ravel(), spread(300, 2)])


def round_f32(value: Fraction, mode: str, zero_sign: float) -> float:
    """The f32 nearest to an exact value in a rounding mode; overflow as IEEE 754 says."""
    if value == 0:
        return math.copysign(0.0, zero_sign)
    negative, magnitude = value < 0, abs(value)
    exponent = math.floor(math.log2(magnitude)) if magnitude < 2**1000 else 200
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    quantum = Fraction(2) ** (max(exponent, -126) - 23)
    units, rest = divmod(magnitude, quantum)
    up = {
        "rn": rest * 2 > quantum or (rest * 2 == quantum and units % 2),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    result = (units + bool(up)) * quantum
    if result >= Fraction(2) ** 128:
        keep = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        result_float = float(Fraction(2) ** 128 - Fraction(2) ** 104) if keep else math.inf
    else:
        result_float = float(result)
    return -result_float if negative else result_float


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_directed_rounding(op: str, mode: str) -> None:
    a, b = cross()
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    (got,) = lanewise(f"{op}.{mode}.f32 out0, in0, in1;", a, b, out=np.float32)
    for x, y, out in zip(a, b, got, strict=True):
        fx, fy = Fraction(float(x)), Fraction(float(y))
        exact = {"add": fx + fy, "sub": fx - fy, "mul": fx * fy}[op]
        if exact == 0:
            continue
        assert float(out) == round_f32(exact, mode, 1.0), (float(x), float(y))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_fma_rounds_once(mode: str) -> None:
    a, b = cross()
    e = np.roll(a, 7)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(e)
    a, b, e = a[finite], b[finite], e[finite]
    (got,) = lanewise(f"fma.{mode}.f32 out0, in0, in1, in2;", a, b, e, out=np.float32)
    for x, y, z, out in zip(a, b, e, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if exact != 0:
            assert float(out) == round_f32(exact, mode, 1.0)


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_nan_results_are_canonical(op: str) -> None:
    a, b = cross()
    (got,) = lanewise(f"{op}.f32 out0, in0, in1;", a, b, out=np.float32)
    with np.errstate(all="ignore"):
        want = {"add": a + b, "sub": a - b, "mul": a * b}[op]
    nan = np.isnan(want)
    assert nan.any()
    assert np.array_equal(bits(got)[~nan], bits(want)[~nan])
    assert set(bits(got)[nan].tolist()) == {0x7FFFFFFF}


def flush(values: np.ndarray) -> np.ndarray:
    raw = bits(values).copy()
    raw[(raw & 0x7F800000) == 0] &= 0x80000000
    return raw.view(np.float32)


@pytest.mark.parametrize("op", ["add", "mul"])
def test_ftz_flushes_inputs_and_results(op: str) -> None:
    a, b = cross()
    (got,) = lanewise(f"{op}.ftz.f32 out0, in0, in1;", a, b, out=np.float32)
    with np.errstate(all="ignore"):
        x, y = flush(a), flush(b)
        want = flush(x + y if op == "add" else x * y)
    nan = np.isnan(want)
    assert np.array_equal(bits(got)[~nan], bits(want)[~nan])


@pytest.mark.parametrize("suffix", ["rn", "rm", "rn.ftz"])
@pytest.mark.parametrize("op", ["add", "mul", "sub", "fma"])
def test_pairs_are_two_independent_operations(op: str, suffix: str) -> None:
    a, b = (x[np.isfinite(x)][:400] for x in (spread(500, 3), spread(500, 4)))
    e = a[::-1].copy()
    third = ", %rd3" if op == "fma" else ""
    body = (
        f"mov.b64 %rd1, {{in0, in1}}; mov.b64 %rd2, {{in1, in2}}; "
        f"mov.b64 %rd3, {{in2, in0}}; {op}.{suffix}.f32x2 %rd4, %rd1, %rd2{third}; "
        f"mov.b64 {{out0, out1}}, %rd4;"
    )
    n = min(len(a), len(b))
    a, b, e = a[:n], b[:n], e[:n]
    low, high = lanewise(body, a, b, e, out=np.uint32, outputs=2)
    one = f"{op}.{suffix}.f32 out0, in0, in1" + (", in2;" if op == "fma" else ";")
    (want_low,) = lanewise(one, a, b, e, out=np.uint32)
    (want_high,) = lanewise(one, b, e, a, out=np.uint32)
    assert np.array_equal(low, want_low)
    assert np.array_equal(high, want_high)


def expected_extreme(x: np.float32, y: np.float32, is_max: bool) -> float:
    if math.isnan(x) or math.isnan(y):
        return float(y) if math.isnan(x) else float(x)
    if x == y:
        same = math.copysign(1, x) < 0 if not is_max else math.copysign(1, x) > 0
        return float(x) if same else float(y)
    return float(max(x, y) if is_max else min(x, y))


@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_ignore_nan_and_order_zeros(op: str) -> None:
    a, b = cross()
    (plain,) = lanewise(f"{op}.f32 out0, in0, in1;", a, b, out=np.float32)
    (strict,) = lanewise(f"{op}.NaN.f32 out0, in0, in1;", a, b, out=np.float32)
    (three,) = lanewise(f"{op}.f32 out0, in0, in1, in2;", a, b, np.roll(a, 3), out=np.float32)
    (nested,) = lanewise(f"{op}.f32 out0, in0, in1;", plain, np.roll(a, 3), out=np.float32)
    for x, y, out, nan_out in zip(a, b, plain, strict, strict=True):
        want = expected_extreme(x, y, op == "max")
        if math.isnan(want):
            assert math.isnan(out)
        else:
            assert (float(out), math.copysign(1, out)) == (want, math.copysign(1, want))
        assert math.isnan(nan_out) == (math.isnan(x) or math.isnan(y))
    assert np.array_equal(bits(three), bits(nested))


@pytest.mark.parametrize(
    ("op", "function", "ulps"),
    [
        ("ex2", np.exp2, 2),
        ("rcp", lambda x: 1 / x, 1),
        ("rsqrt", lambda x: 1 / np.sqrt(x), 2),
        ("lg2", np.log2, 4),
        ("sqrt", np.sqrt, 1),
        ("tanh", np.tanh, 8192),
    ],
)
def test_approximations_stay_inside_the_documented_bound(
    op: str, function: Callable[[np.ndarray], np.ndarray], ulps: int
) -> None:
    x = np.abs(np.random.default_rng(11).normal(size=2000).astype(np.float32)) * 8 + np.float32(
        1e-3
    )
    (got,) = lanewise(f"{op}.approx.f32 out0, in0;", x, out=np.float32)
    want = function(x.astype(np.float64))
    limit = ulps * np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    if op == "lg2":
        limit = np.maximum(limit, 2.0**-22)
    assert (np.abs(got - want) <= limit).all()


def test_ex2_special_values() -> None:
    x = np.array(
        [-np.inf, np.inf, np.nan, 0.0, -0.0, 1e-45, 128.0, -126.0, -149.0, -150.0, -200.0],
        np.float32,
    )
    (got,) = lanewise("ex2.approx.f32 out0, in0;", x, out=np.float32)
    (flushed,) = lanewise("ex2.approx.ftz.f32 out0, in0;", x, out=np.float32)
    want = np.array([0, np.inf, np.nan, 1, 1, 1, np.inf, 2.0**-126, 2.0**-149, 0, 0], np.float32)
    assert np.array_equal(got, want, equal_nan=True)
    assert flushed[8] == 0
    assert flushed[7] == np.float32(2.0**-126)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=32, max_size=32))
def test_the_polynomial_split_of_exp2(values: list[float]) -> None:
    """x = floor(x) + f through add.rm with 1.5 * 2^23, as emulated exponentials do it."""
    x = np.clip(np.array(values, np.float32), -126, 127)
    magic = "0f4B400000"
    body = f"add.rm.f32 %f1, in0, {magic}; sub.rn.f32 %f2, %f1, {magic}; sub.rn.f32 out0, in0, %f2;"
    body = body.replace("in0", "%f0").replace("out0", "%f3")
    (got,) = lanewise("mov.b32 %f0, in0;" + body + "mov.b32 out0, %f3;", x, out=np.float32)
    assert ((got >= 0) & (got <= 1)).all()
    assert np.array_equal(got, x - np.floor(x))
