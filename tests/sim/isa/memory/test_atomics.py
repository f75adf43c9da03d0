"""atom and red against Python arithmetic, lane after lane."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of

REG = {
    "u32": "%r",
    "s32": "%r",
    "b32": "%r",
    "u64": "%rd",
    "s64": "%rd",
    "b64": "%rd",
    "f32": "%f",
    "f64": "%fd",
}
DTYPE = {
    "u32": np.uint32,
    "s32": np.int32,
    "b32": np.uint32,
    "u64": np.uint64,
    "s64": np.int64,
    "b64": np.uint64,
    "f32": np.float32,
    "f64": np.float64,
}
INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}
FORMS = [(op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64", "s64")]
FORMS += [(op, kind) for op in ("and", "or", "xor", "exch") for kind in ("b32", "b64")]
FORMS += [("inc", "u32"), ("dec", "u32")]


@pytest.mark.parametrize(("op", "kind"), FORMS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_integer_atomics(op: str, kind: str, space: str) -> None:
    dtype, reg = DTYPE[kind], REG[kind]
    size = np.dtype(dtype).itemsize
    rng = np.random.default_rng(5)
    values = np.frombuffer(rng.bytes(32 * size), dtype).copy()
    if op in ("inc", "dec"):
        values = rng.integers(0, 4, 32).astype(dtype)
    cell, old = aligned(2, dtype), aligned(32, dtype)
    cell[0] = start = values[7]
    where = "%p0" if space == "global" else "%r2"
    before = (
        f"mov.u32 %r2, dyn; ld.global.b{8 * size} {reg}3, [%p0]; "
        f"st.shared.b{8 * size} [%r2], {reg}3; bar.warp.sync -1;"
    )
    run_ptx(
        f"""mov.u32 %r0, %tid.x; mad.wide.u32 %rd10, %r0, {size}, %p1;
        mad.wide.u32 %rd11, %r0, {size}, %p2; {before}
        ld.global.b{8 * size} {reg}4, [%rd10];
        atom.relaxed.gpu.{space}.{op}.{kind} {reg}5, [{where}], {reg}4;
        st.global.b{8 * size} [%rd11], {reg}5; bar.warp.sync -1;
        ld.{space}.b{8 * size} {reg}6, [{where}]; st.global.b{8 * size} [%p0], {reg}6;""",
        cell,
        values,
        old,
        shared=SMEM,
        smem=64,
    )
    state = int(start)
    for lane in range(32):
        assert int(old[lane]) == state
        state = int(
            np.array(INTEGER[op](state, int(values[lane])) & (1 << 8 * size) - 1, np.uint64)
            .astype(f"u{size}")
            .view(dtype)
        )
    assert int(cell[0]) == state


def test_cas_writes_only_on_a_match() -> None:
    cell = aligned(1, np.uint32)
    old = aligned(32, np.uint32)
    run_ptx(
        "mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %p1; add.s32 %r2, %r0, 1;"
        "atom.global.cas.b32 %r3, [%p0], %r0, %r2; st.global.b32 [%rd1], %r3;",
        cell,
        old,
    )
    assert old.tolist() == list(range(32))
    assert cell[0] == 32


def test_b128_exchange_and_cas() -> None:
    cell = aligned(2, np.uint64)
    out = aligned(4, np.uint64)
    run_ptx(
        "mov.b64 %rd1, 5; mov.b64 %rd2, 6; mov.b128 %x0, {%rd1, %rd2}; mov.b128 %x1, {%rd2, %rd1};"
        "atom.global.exch.b128 %x2, [%p0], %x0; "
        "atom.global.cas.b128 %x3, [%p0], %x1, %x1; "
        "atom.global.cas.b128 %x3, [%p0], %x0, %x1;"
        "st.global.b128 [%p1], %x2; st.global.b128 [%p1+16], %x3;",
        cell,
        out,
        regs=".reg .b128 %x<4>;",
        block=1,
    )
    assert out.tolist() == [0, 0, 5, 6]
    assert cell.tolist() == [6, 5]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_float_add_rounds_once_per_lane(kind: str) -> None:
    dtype, reg = DTYPE[kind], REG[kind]
    values = np.random.default_rng(1).standard_normal(32).astype(dtype)
    cell = aligned(1, dtype)
    size = values.itemsize
    run_ptx(
        (
            f"mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, {size}, %p1; "
            f"ld.global.{kind} {reg}1, [%rd1]; red.global.add.{kind} [%p0], {reg}1;"
        ),
        cell,
        values,
    )
    state = dtype(0)
    for value in values:
        state = dtype(state + value)
    assert cell[0] == state


def test_f32_add_flushes_subnormals_in_global_memory_only() -> None:
    cell = aligned(2, np.uint32)
    run_ptx(
        "mov.b32 %r1, 0x00000001; mov.b32 %f1, %r1; red.global.add.f32 [%p0], %f1; "
        "mov.u32 %r2, dyn; st.shared.b32 [%r2], 0;"
        "red.shared.add.f32 [%r2], %f1; ld.shared.b32 %r3, [%r2]; st.global.b32 [%p0+4], %r3;",
        cell,
        block=1,
        shared=SMEM,
        smem=16,
    )
    assert cell.tolist() == [0, 1]


def bf16(value: float) -> int:
    bits = int(np.float32(value).view(np.uint32))
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


def test_packed_halves_are_added_one_by_one() -> None:
    cell = aligned(2, np.uint32)
    cell[0] = int(np.float16(1.5).view(np.uint16)) | int(np.float16(-2.0).view(np.uint16)) << 16
    cell[1] = bf16(1.0) | bf16(256.0) << 16
    run_ptx(
        f"mov.b32 %r1, {int(np.float16(0.25).view(np.uint16)) * 0x10001}; "
        f"red.global.add.noftz.f16x2 [%p0], %r1;"
        f"mov.b32 %r2, {bf16(1.0) * 0x10001}; red.global.add.noftz.bf16x2 [%p0+4], %r2;",
        cell,
        block=1,
    )
    assert cell.view(np.float16)[:2].tolist() == [1.75, -1.75]
    assert cell[1] == bf16(2.0) | bf16(256.0) << 16  # 257 is halfway and goes to even


def test_vector_reduction_adds_each_element() -> None:
    cell = aligned(4, np.float32)
    run_ptx(
        (
            "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; "
            "red.global.v4.f32.add [%p0], {%f1, %f2, %f1, %f2};"
        ).replace("v4.f32.add", "add.v4.f32"),
        cell,
    )
    assert cell.tolist() == [32.0, 64.0, 32.0, 64.0]


def test_nan_result_is_canonical() -> None:
    cell = aligned(1, np.float32)
    cell[0] = math.inf
    run_ptx("mov.f32 %f1, 0fFF800000; red.global.add.f32 [%p0], %f1;", cell, block=1)
    assert cell.view(np.uint32)[0] == 0x7FFFFFFF


@pytest.mark.parametrize(
    "form",
    [
        "red.global.add.b32 [%p0], %r1;",
        "red.global.min.f32 [%p0], %f1;",
        "atom.global.inc.s32 %r2, [%p0], %r1;",
        "red.shared.add.v2.f32 [%r1], {%f1, %f2};",
        "atom.global.and.f32 %f1, [%p0], %f2;",
    ],
)
def test_pairs_outside_of_the_table_stop(form: str) -> None:
    with pytest.raises(PtxError):
        run_ptx(form, aligned(4, np.uint32))


def test_atomics_check_their_address() -> None:
    assert "misaligned" in fault_of(
        "red.global.add.u64 [%p0+4], %rd1;", aligned(4, np.uint64), block=1
    )
    assert "global-address" in fault_of(
        "red.global.add.u32 [%p0+8192], 1;", aligned(4, np.uint64), block=1
    )
