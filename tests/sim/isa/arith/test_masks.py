"""Every scalar handler leaves the lanes alone that its guard excludes."""

from __future__ import annotations

import numpy as np
import pytest

from testing.harness import lanewise

WORD = [
    "add.s32",
    "sub.s32",
    "mul.lo.s32",
    "mul.hi.u32",
    "min.s32",
    "max.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
    "shl.b32",
    "shr.s32",
    "add.f32",
    "sub.rz.f32",
    "mul.ftz.f32",
    "min.f32",
    "max.f32",
    "max.NaN.f32",
    "div.rn.f32",
    "div.full.f32",
    "copysign.f32",
    "add.f16x2",
    "mul.bf16x2",
    "cvt.rn.bf16x2.f32",
    "cvt.rn.f16x2.f32",
    "cvt.rz.f16x2.f32",
    "add.sat.s32",
    "add.u16x2",
    "min.s16x2",
    "div.u32",
    "rem.s32",
    "set.lt.u32.s32",
    "set.gt.f32.f32",
]
SINGLE = [
    "not.b32",
    "neg.s32",
    "abs.s32",
    "popc.b32",
    "clz.b32",
    "brev.b32",
    "bfind.u32",
    "neg.f32",
    "abs.ftz.f32",
    "ex2.approx.ftz.f32",
    "rcp.approx.f32",
    "rcp.rn.f32",
    "lg2.approx.f32",
    "sqrt.approx.f32",
    "sqrt.rm.f32",
    "rsqrt.approx.f32",
    "tanh.approx.f32",
    "mov.b32",
    "cvt.rzi.s32.f32",
    "cvt.rni.u32.f32",
    "cvt.rn.f32.s32",
    "cvt.rz.f32.u32",
    "cvt.rna.tf32.f32",
    "cvt.s32.s8",
    "tanh.approx.f16x2",
    "cnot.b32",
]
TRIPLE = [
    "fma.rn.f32",
    "fma.rm.ftz.f32",
    "max.f32",
    "mad.lo.s32",
    "mad.hi.u32",
    "fma.rn.bf16x2",
    "bfe.u32",
    "prmt.b32",
    "shf.l.wrap.b32",
    "sad.s32",
    "dp4a.u32.s32",
    "slct.b32.s32",
]
FORMS = [(f, 2) for f in WORD] + [(f, 1) for f in SINGLE] + [(f, 3) for f in TRIPLE]
MARK = 0xDEADBEEF
GUARD = 0x5A5AA5C3


@pytest.mark.parametrize(("form", "count"), FORMS, ids=[f for f, _ in FORMS])
def test_excluded_lanes_keep_their_value(form: str, count: int) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=32).astype(np.float32).view(np.uint32) for _ in range(3)]
    names = ", ".join(f"in{k}" for k in range(count))
    (free,) = lanewise(f"{form} out0, {names};", *inputs, out=np.uint32)
    body = (
        f"mov.u32 out0, {MARK}; mov.u32 %r40, %laneid; mov.u32 %r41, {GUARD}; "
        f"shr.u32 %r41, %r41, %r40; "
        f"and.b32 %r41, %r41, 1; setp.ne.u32 %q1, %r41, 0; @%q1 {form} out0, {names};"
    )
    (got,) = lanewise(body, *inputs, out=np.uint32)
    active = np.array([GUARD >> lane & 1 for lane in range(32)], bool)
    assert np.array_equal(got, np.where(active, free, MARK))


@pytest.mark.parametrize(
    "form",
    [
        "add.s64",
        "mul.lo.u64",
        "and.b64",
        "fma.rn.f32x2",
        "mul.rn.f32x2",
        "add.rm.f32x2",
        "sub.f32x2",
        "add.f64",
        "selp.b64",
    ],
)
def test_excluded_lanes_keep_both_words(form: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=64).astype(np.float32).view(np.uint64) for _ in range(2))
    tail = {"fma.rn.f32x2": ", in0", "selp.b64": ", %q2"}.get(form, "")
    setup = (
        "mov.u32 %r40, %laneid; and.b32 %r41, %r40, 5; setp.eq.u32 %q1, %r41, 4; "
        "setp.lt.u32 %q2, %r40, 9; "
    )
    (free,) = lanewise(setup + f"{form} out0, in0, in1{tail};", a, b, out=np.uint64)
    (got,) = lanewise(
        setup + f"mov.b64 out0, {MARK}; @%q1 {form} out0, in0, in1{tail};", a, b, out=np.uint64
    )
    active = np.array([lane & 5 == 4 for lane in range(32)])
    assert np.array_equal(got, np.where(active, free, np.uint64(MARK)))


def test_in_place_operands() -> None:
    """A destination that is also a source reads its old value."""
    x = np.arange(32, dtype=np.uint32)
    body = (
        "mov.b32 %r20, in0; add.u32 %r20, %r20, %r20; mad.lo.s32 %r20, %r20, %r20, %r20; "
        "prmt.b32 %r20, %r20, %r20, 0x0123; "
        "prmt.b32 %r20, %r20, %r20, 0x0123; shfl.sync.bfly.b32 %r20, %r20, 1, 31, -1; "
        "mov.b32 out0, %r20;"
    )
    (got,) = lanewise(body, x, out=np.uint32)
    doubled = 2 * (x ^ 1)
    assert np.array_equal(got, doubled * doubled + doubled)
