"""16-bit arithmetic, one value or two, against exact fractions rounded once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from testing.harness import lanewise
from tests.sim.isa.absent import refused
from tests.sim.isa.arith.exact import BF16, F16, F32, MODES, Float, exact, finite

FORMATS = {"f16": F16, "bf16": BF16}
OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}
CANONICAL = 0x7FFF


def codes(form: Float, count: int, seed: int) -> np.ndarray:
    """Zeros, ones, subnormals, the largest value, infinities, NaNs and random codes."""
    one = form.bias << form.mantissa
    inf = form.largest_code + 1
    edges = [0, 0x8000, one, one | 0x8000, 1, 0x8001, one + 1, inf - 1, inf, inf | 0x8000, inf + 1]
    rng = np.random.default_rng(seed)
    return np.concatenate([edges, rng.integers(0, 65536, count)]).astype(np.uint16)


def pairs(form: Float) -> tuple[np.ndarray, np.ndarray]:
    a, b = codes(form, 30, 1), codes(form, 30, 2)
    x, y = np.meshgrid(a, b)
    return x.ravel().copy(), y.ravel().copy()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("op", OPERATIONS)
def test_operations_round_once(kind: str, op: str) -> None:
    form = FORMATS[kind]
    a, b = pairs(form)
    (got,) = lanewise(f"{op}.{kind} out0, in0, in1;", a, b, out=np.uint16)
    checked = 0
    for x, y, out in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        if finite(form, x, y):
            value = OPERATIONS[op](exact(form, x), exact(form, y))
            if value != 0:
                assert out == form.encode(value), (hex(x), hex(y))
                checked += 1
        elif "nan" in (form.decode(x), form.decode(y)):
            assert out == CANONICAL
    assert checked > 1000


@pytest.mark.parametrize("kind", FORMATS)
def test_fma_rounds_once(kind: str) -> None:
    form = FORMATS[kind]
    rng = np.random.default_rng(3)
    # Products that are exactly halfway between two values, with an addend that decides or is
    # nothing.
    one = form.bias << form.mantissa
    a = np.concatenate([rng.integers(0, 65536, 2000), np.full(400, one + 1)])
    b = np.concatenate(
        [rng.integers(0, 65536, 2000), one + rng.integers(0, 1 << form.mantissa, 400)]
    )
    c = np.concatenate([rng.integers(0, 65536, 2000), rng.integers(0, 65536, 400)])
    a, b, c = (x.astype(np.uint16) for x in (a, b, c))
    (got,) = lanewise(f"fma.rn.{kind} out0, in0, in1, in2;", a, b, c, out=np.uint16)
    for x, y, z, out in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        if finite(form, x, y, z):
            value = exact(form, x) * exact(form, y) + exact(form, z)
            if value != 0:
                assert out == form.encode(value), (hex(x), hex(y), hex(z))


@pytest.mark.parametrize("sign", [0, 0x8000])
def test_bf16_fma_is_not_rounded_twice(sign: int) -> None:
    """1.0078125 * 1.5 is a tie of bf16; an addend of 2^-126 breaks it, far below double's last
    bit."""
    a, b, c = (np.array([v], np.uint16) for v in (0x3F81, 0x3FC0, 0x0080 | sign))
    (got,) = lanewise("fma.rn.bf16 out0, in0, in1, in2;", a, b, c, out=np.uint16)
    product = exact(BF16, 0x3F81) * exact(BF16, 0x3FC0)
    assert BF16.encode(product * (1 + Fraction(1, 10**9))) != BF16.encode(
        product * (1 - Fraction(1, 10**9))
    )
    assert got[0] == BF16.encode(product + exact(BF16, 0x0080 | sign))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("op", ["add", "mul", "fma.rn", "min", "max", "neg", "abs", "sub"])
def test_packed_forms_are_two_single_ones(kind: str, op: str) -> None:
    form = FORMATS[kind]
    count = {"fma.rn": 3, "neg": 1, "abs": 1}.get(op, 2)
    lows, highs = ([codes(form, 200, 7 * k + side) for k in range(count)] for side in (0, 1))
    packed = [lo | hi.astype(np.uint32) << 16 for lo, hi in zip(lows, highs, strict=True)]
    names = ", ".join(f"in{k}" for k in range(count))
    (got,) = lanewise(f"{op}.{kind}x2 out0, {names};", *packed, out=np.uint32)
    (low,) = lanewise(f"{op}.{kind} out0, {names};", *lows, out=np.uint16)
    (high,) = lanewise(f"{op}.{kind} out0, {names};", *highs, out=np.uint16)
    assert np.array_equal(got, low | high.astype(np.uint32) << 16)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes(kind: str, op: str) -> None:
    form = FORMATS[kind]
    a, b = pairs(form)
    plain, strict, crossed = (
        lanewise(f"{op}{suffix}.{kind} out0, in0, in1;", a, b, out=np.uint16)[0]
        for suffix in ("", ".NaN", ".xorsign.abs")
    )

    def order(code: int) -> int:
        """Codes in the order of their values, -0 below +0."""
        return -(code & 0x7FFF) - 1 if code & 0x8000 else code

    choose = min if op == "min" else max
    for x, y, p, s, c in zip(*(v.tolist() for v in (a, b, plain, strict, crossed)), strict=True):
        nans = [form.decode(v) == "nan" for v in (x, y)]
        if any(nans):
            assert s == CANONICAL
            assert p == (CANONICAL if all(nans) else x if nans[1] else y)
            continue
        assert p == s == choose(x, y, key=order)
        assert c == choose(x & 0x7FFF, y & 0x7FFF) | (x ^ y) & 0x8000


def test_saturation_relu_and_flush() -> None:
    a, b = pairs(F16)
    results = {
        name: lanewise(f"{name}.f16 out0, in0, in1{third};", a, b, out=np.uint16)[0]
        for name, third in (
            ("add", ""),
            ("add.sat", ""),
            ("mul", ""),
            ("mul.ftz", ""),
            ("fma.rn", ", in0"),
            ("fma.rn.relu", ", in0"),
        )
    }
    negative = results["fma.rn"] >= 0x8000
    assert np.array_equal(results["fma.rn.relu"], np.where(negative, 0, results["fma.rn"]))
    one = F16.bias << F16.mantissa
    total = results["add"].astype(np.int32)
    want = np.where((total >= 0x8000) | (total > 0x7C00), 0, np.minimum(total, one))
    assert np.array_equal(results["add.sat"], want)

    def flush(code: np.ndarray) -> np.ndarray:
        return np.where(code & 0x7C00, code, code & 0x8000).astype(np.uint16)

    (want,) = lanewise("mul.f16 out0, in0, in1;", flush(a), flush(b), out=np.uint16)
    assert np.array_equal(results["mul.ftz"], flush(want))
    assert (results["mul.ftz"] != results["mul"]).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", ["add", "sub", "fma"])
def test_mixed_precision_rounds_once_in_f32(kind: str, mode: str, op: str) -> None:
    form = FORMATS[kind]
    rng = np.random.default_rng(11)
    a, b = (codes(form, 400, s) for s in (5, 6))
    c = rng.integers(0, 2**32, len(a), dtype=np.uint64).astype(np.uint32)
    operands = "in0, in1, in2" if op == "fma" else "in0, in2"
    (got,) = lanewise(f"{op}.{mode}.f32.{kind} out0, {operands};", a, b, c, out=np.uint32)
    for x, y, z, out in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        if not (finite(form, x, y) and finite(F32, z)):
            continue
        left = exact(form, x) * (exact(form, y) if op == "fma" else 1)
        value = left - exact(F32, z) if op == "sub" else left + exact(F32, z)
        if value != 0:
            assert out == F32.encode(value, mode)


test_forms_that_the_isa_does_not_have = refused(
    "add.bf16.sat %h1, %h2, %h3;",
    "fma.f16 %h1, %h2, %h3, %h4;",
    "fma.rn.ftz.bf16 %h1, %h2, %h3, %h4;",
    "mul.relu.f16 %h1, %h2, %h3;",
    "ex2.approx.ftz.f16 %h1, %h2;",
    "rcp.approx.f16 %h1, %h2;",
    "mul.f32.bf16 %r1, %h2, %r3;",
    "div.rn.f16 %h1, %h2, %h3;",
    "add.rz.f16 %h1, %h2, %h3;",
)


@pytest.mark.parametrize(("op", "function"), [("ex2", np.exp2), ("tanh", np.tanh)])
@pytest.mark.parametrize("kind", FORMATS)
def test_functions(op: str, function: Callable[[np.float64], np.float64], kind: str) -> None:
    form = FORMATS[kind]
    x = np.random.default_rng(1).integers(0, 65536, 500).astype(np.uint16)
    x = x[
        [
            abs(exact(form, int(c))) < 8 and abs(exact(form, int(c))) > 2**-10
            if finite(form, int(c))
            else False
            for c in x
        ]
    ]
    suffix = ".ftz" if (op, kind) == ("ex2", "bf16") else ""
    (got,) = lanewise(f"{op}.approx{suffix}.{kind} out0, in0;", x, out=np.uint16)
    for code, out in zip(x.tolist(), got.tolist(), strict=True):
        want = function(np.float64(exact(form, code)))
        error = abs(float(exact(form, out)) - want) / abs(want)
        assert error < 2.0 ** -(form.mantissa - 1)
