"""Comparisons of 16-bit, packed and double types, classification and slct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testing.harness import lanewise
from tests.sim.isa.absent import refused
from tests.sim.isa.arith.exact import BF16, F16, F64, Float
from tests.sim.isa.arith.test_predicate import ORDERED

COMPARISONS = [*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
FORMATS = {"f16": (F16, np.uint16), "bf16": (BF16, np.uint16), "f64": (F64, np.uint64)}


def wanted(op: str, form: Float, x: int, y: int) -> bool:
    a, b = (float(v) for v in (form.decode(x), form.decode(y)))
    unordered = a != a or b != b
    if op in ("num", "nan"):
        return unordered == (op == "nan")
    return unordered if unordered and op.endswith("u") else not unordered and ORDERED[op[:2]](a, b)


def grid(form: Float, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    inf = form.largest_code + 1
    one = form.bias << form.mantissa
    edge = [
        0,
        form.sign_bit,
        1,
        one,
        one + 1,
        one | form.sign_bit,
        inf,
        inf | form.sign_bit,
        inf + 1,
    ]
    codes: np.ndarray = np.array(edge, dtype)
    a, b = np.meshgrid(codes, codes)
    return a.ravel().copy(), b.ravel().copy()


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("kind", FORMATS)
def test_comparisons(op: str, kind: str) -> None:
    form, dtype = FORMATS[kind]
    a, b = grid(form, dtype)
    (got,) = lanewise(
        f"setp.{op}.{kind} %q1, in0, in1; selp.b32 out0, 1, 0, %q1;", a, b, out=np.uint32
    )
    assert got.tolist() == [
        int(wanted(op, form, x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_comparison_writes_one_predicate_per_half(kind: str) -> None:
    form, dtype = FORMATS[kind]
    a, b = grid(form, dtype)
    packed = [x.astype(np.uint32) | np.roll(x, 4).astype(np.uint32) << 16 for x in (a, b)]
    body = (
        f"setp.lt.{kind}x2 %q1|%q2, in0, in1; selp.b32 out0, 1, 0, %q1; selp.b32 out1, 1, 0, %q2;"
    )
    low, high = lanewise(body, *packed, out=np.uint32, outputs=2)
    want = [int(wanted("lt", form, x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert low.tolist() == want
    assert high.tolist() == np.roll(want, 4).tolist()


def test_flush_makes_subnormals_equal_to_zero() -> None:
    tiny = np.array([1e-40, -1e-40, 1e-38 * 2, 0.0], np.float32)
    zero = np.zeros(4, np.float32)
    for suffix, want in (("", [0, 0, 0, 1]), (".ftz", [1, 1, 0, 1])):
        (got,) = lanewise(
            f"setp.eq{suffix}.f32 %q1, in0, in1; selp.b32 out0, 1, 0, %q1;",
            tiny,
            zero,
            out=np.uint32,
        )
        assert got.tolist() == want
    half = np.array([1, 0x8001, 0x400], np.uint16)
    (got,) = lanewise(
        "setp.eq.ftz.f16 %q1, in0, in1; selp.b32 out0, 1, 0, %q1;", half, half * 0, out=np.uint32
    )
    assert got.tolist() == [1, 1, 0]


CLASSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0)),
    "subnormal": lambda x: (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classification(name: str, dtype: type) -> None:
    tiny = np.finfo(dtype).tiny
    numbers = [0, -0.0, 1, -3, np.inf, -np.inf, np.nan, tiny, tiny / 2, -tiny / 4]
    x: np.ndarray = np.array(numbers, dtype)
    (got,) = lanewise(
        f"testp.{name}.f{8 * x.itemsize} %q1, in0; selp.b32 out0, 1, 0, %q1;", x, out=np.uint32
    )
    assert np.array_equal(got.astype(bool), CLASSES[name](x))


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_set_combined_with_a_predicate(op: str) -> None:
    a = np.arange(32, dtype=np.uint32)
    body = f"setp.gt.u32 %q1, in0, 20; set.lt.{op}.u32.u32 out0, in0, 25, !%q1;"
    (got,) = lanewise(body, a, out=np.uint32)
    left, right = a < 25, a <= 20
    want = {"and": left & right, "or": left | right, "xor": left ^ right}[op]
    assert np.array_equal(got, np.where(want, 0xFFFFFFFF, 0).astype(np.uint32))


def test_selection_by_sign() -> None:
    a, b = np.arange(8, dtype=np.uint32), np.arange(100, 108, dtype=np.uint32)
    integer = np.array([0, 1, -1, -(2**31), 2**31 - 1, 5, -7, 0], np.int32)
    real = np.array([0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, -1e-40, 1.0], np.float32)
    (by_integer,) = lanewise("slct.u32.s32 out0, in0, in1, in2;", a, b, integer, out=np.uint32)
    (by_real,) = lanewise("slct.b32.f32 out0, in0, in1, in2;", a, b, real, out=np.uint32)
    (flushed,) = lanewise(
        "slct.ftz.b64.f32 out0, in0, in1, in2;",
        a.astype(np.uint64),
        b.astype(np.uint64),
        real,
        out=np.uint64,
    )
    assert np.array_equal(by_integer, np.where(integer >= 0, a, b))
    assert np.array_equal(by_real, np.where(real >= 0, a, b))
    assert flushed.tolist() == [*by_real.tolist()[:6], 6, 7]


test_forms_that_the_isa_does_not_have = refused(
    "setp.ltu.s32 %q1, %r1, %r2;",
    "setp.lt.b32 %q1, %r1, %r2;",
    "setp.lt.and.s32 %q1, %r1, %r2;",
    "setp.s32 %q1, %r1, %r2;",
    "setp.lt.f16x2 %q1, %r1, %r2;",
    "selp.b32 %r1, %r2, %r3, %r4;",
    "slct.b32.u32 %r1, %r2, %r3, %r4;",
    "set.lt.f32.f16 %f1, %h2, %h3;",
    "setp.eq.pred %q1, %q2, %q3;",
    "testp.zero.f32 %q1, %f1;",
)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["eq", "gtu", "nan"])
def test_set_of_halves(kind: str, op: str) -> None:
    """PTX ISA, "set" of half types: 1.0 or ones, of packed types in each half."""
    form, dtype = FORMATS[kind]
    one = form.bias << form.mantissa
    a, b = grid(form, dtype)
    want = np.array([wanted(op, form, x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    for to, yes in ((kind, one), ("u16", 0xFFFF), ("u32", 0xFFFFFFFF)):
        reg = "%h9" if to != "u32" else "%r20"
        widen = "cvt.u32.u16 out0, %h9;" if to != "u32" else "mov.b32 out0, %r20;"
        (got,) = lanewise(f"set.{op}.{to}.{kind} {reg}, in0, in1; {widen}", a, b, out=np.uint32)
        assert (got == np.where(want, yes, 0)).all(), to
    packed = [x.astype(np.uint32) | np.roll(x, 4).astype(np.uint32) << 16 for x in (a, b)]
    for to, yes in ((f"{kind}x2", one), ("u32", 0xFFFF)):
        (got,) = lanewise(f"set.{op}.{to}.{kind}x2 out0, in0, in1;", *packed, out=np.uint32)
        assert (got & 0xFFFF == np.where(want, yes, 0)).all(), to
        assert (got >> 16 == np.where(np.roll(want, 4), yes, 0)).all(), to


def test_set_to_a_half_of_wider_types() -> None:
    a, b = np.array([1.0, 2.0], np.float32), np.array([1.0, 3.0], np.float32)
    body = "set.eq.bf16.f32 %h9, in0, in1; cvt.u32.u16 out0, %h9;"
    (got,) = lanewise(body, a, b, out=np.uint32)
    assert got.tolist() == [0x3F80, 0]
