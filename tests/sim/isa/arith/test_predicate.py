"""Comparisons, selection and predicate logic."""

from __future__ import annotations

import numpy as np
import pytest

from testing.harness import lanewise

FLOATS = np.array([0.0, -0.0, 1.0, -1.0, 1e-45, np.inf, -np.inf, np.nan], np.float32)
ORDERED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("op", sorted(ORDERED))
@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_comparisons(op: str, kind: str) -> None:
    bits = int(kind[1:])
    dtype = np.dtype(f"u{bits // 8}")
    edge = np.array([0, 1, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1], dtype)
    a, b = (x.ravel().copy() for x in np.meshgrid(edge, edge))
    (got,) = lanewise(
        f"setp.{op}.{kind} %q1, in0, in1; selp.b32 out0, 1, 0, %q1;", a, b, out=np.uint32
    )
    view = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")
    assert np.array_equal(got.astype(bool), ORDERED[op](a.view(view), b.view(view)))


@pytest.mark.parametrize(
    "op", [*sorted(ORDERED), "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
)
def test_float_comparisons(op: str) -> None:
    a, b = (x.ravel().copy() for x in np.meshgrid(FLOATS, FLOATS))
    (got,) = lanewise(
        f"setp.{op}.f32 %q1, in0, in1; selp.b32 out0, 1, 0, %q1;", a, b, out=np.uint32
    )
    unordered = np.isnan(a) | np.isnan(b)
    if op in ("num", "nan"):
        want = unordered if op == "nan" else ~unordered
    else:
        want = ORDERED[op[:2]](a, b) & ~unordered
        if op.endswith("u"):
            want |= unordered
    assert np.array_equal(got.astype(bool), want)


def test_second_destination_is_the_complement() -> None:
    a = np.arange(32, dtype=np.uint32)
    body = "setp.lt.u32 %q1|%q2, in0, 7; selp.b32 out0, 1, 0, %q1; selp.b32 out1, 1, 0, %q2;"
    first, second = lanewise(body, a, out=np.uint32, outputs=2)
    assert first.tolist() == [int(x < 7) for x in range(32)]
    assert second.tolist() == [int(x >= 7) for x in range(32)]


@pytest.mark.parametrize("op", ["and", "or", "xor"])
@pytest.mark.parametrize("negated", ["", "!"])
def test_combined_with_a_predicate(op: str, negated: str) -> None:
    a = np.arange(32, dtype=np.uint32)
    body = (
        "and.b32 %r40, in0, 1; setp.eq.u32 %q3, %r40, 1; "
        f"setp.lt.{op}.u32 %q1, in0, 9, {negated}%q3; selp.b32 out0, 1, 0, %q1;"
    )
    (got,) = lanewise(body, a, out=np.uint32)
    odd = (a & 1 == 1) ^ bool(negated)
    want = {"and": (a < 9) & odd, "or": (a < 9) | odd, "xor": (a < 9) ^ odd}[op]
    assert np.array_equal(got.astype(bool), want)


def test_predicate_logic_and_guards() -> None:
    a = np.arange(32, dtype=np.uint32)
    body = (
        "setp.lt.u32 %q1, in0, 20; setp.gt.u32 %q2, in0, 10; and.pred %q3, %q1, %q2; "
        "xor.pred %q4, %q1, %q2; "
        "not.pred %q5, %q3; mov.u32 out0, 0; mov.u32 out1, 0; @%q3 mov.u32 out0, 5; "
        "@!%q5 add.u32 out0, out0, 1; "
        "@%q4 mov.u32 out1, 3;"
    )
    both, either = lanewise(body, a, out=np.uint32, outputs=2)
    inside = (a < 20) & (a > 10)
    assert np.array_equal(both, np.where(inside, 6, 0))
    assert np.array_equal(either, np.where((a < 20) ^ (a > 10), 3, 0))


def test_set_gives_ones_or_a_float() -> None:
    a = np.arange(32, dtype=np.uint32)
    body = "set.ge.u32.u32 out0, in0, 16; set.ge.f32.u32 %f1, in0, 16; mov.b32 out1, %f1;"
    mask, one = lanewise(body, a, out=np.uint32, outputs=2)
    assert np.array_equal(mask, np.where(a >= 16, 0xFFFFFFFF, 0).astype(np.uint32))
    assert np.array_equal(one, np.where(a >= 16, 0x3F800000, 0).astype(np.uint32))
