"""The less frequent integer forms against Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testing.harness import lanewise, run_ptx
from tests.sim.isa.absent import refused

EDGES = {
    bits: [0, 1, 2, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2**bits - 1] for bits in (16, 32, 64)
}


def operands(bits: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(bits)
    edges = np.array(EDGES[bits], np.uint64)
    grid = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    random = rng.integers(0, 2**bits, (count, 100), dtype=np.uint64)
    rows = [np.concatenate([grid[min(k, 1)], random[k]]) for k in range(count)]
    return [row.astype(np.dtype(f"u{bits // 8}")) for row in rows]


def read(value: int, kind: str) -> int:
    bits = int(kind[1:])
    return value - 2**bits if kind[0] == "s" and value >> (bits - 1) else value


def clamp(value: int) -> int:
    return min(max(value, -(2**31)), 2**31 - 1) % 2**32


@pytest.mark.parametrize("op", ["add", "sub"])
def test_saturating_sums(op: str) -> None:
    a, b = operands(32, 2)
    (got,) = lanewise(f"{op}.sat.s32 out0, in0, in1;", a, b, out=np.uint32)
    sign = 1 if op == "add" else -1
    want = [
        clamp(read(x, "s32") + sign * read(y, "s32"))
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert got.tolist() == want


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_mad_hi_and_sad(kind: str) -> None:
    bits = int(kind[1:])
    a, b, c = operands(bits, 3)
    (high,) = lanewise(f"mad.hi.{kind} out0, in0, in1, in2;", a, b, c, out=a.dtype)
    (sad,) = lanewise(f"sad.{kind} out0, in0, in1, in2;", a, b, c, out=a.dtype)
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    assert high.tolist() == [
        ((read(x, kind) * read(y, kind) >> bits) + z) % 2**bits for x, y, z in rows
    ]
    assert sad.tolist() == [(abs(read(x, kind) - read(y, kind)) + z) % 2**bits for x, y, z in rows]


def test_saturating_mad_hi() -> None:
    a, b, c = operands(32, 3)
    (got,) = lanewise("mad.hi.sat.s32 out0, in0, in1, in2;", a, b, c, out=np.uint32)
    rows = zip(*([read(v, "s32") for v in x.tolist()] for x in (a, b, c)), strict=True)
    assert got.tolist() == [clamp((x * y >> 32) + z) for x, y, z in rows]


def halves(value: int, kind: str) -> list[int]:
    return [read(value >> shift & 0xFFFF, kind) for shift in (0, 16)]


@pytest.mark.parametrize(
    "form",
    [
        "add.u16x2",
        "add.s16x2",
        "min.u16x2",
        "max.u16x2",
        "min.s16x2",
        "max.s16x2",
        "min.relu.s16x2",
        "max.relu.s16x2",
    ],
)
def test_packed_halves(form: str) -> None:
    a, b = operands(32, 2)
    op, kind = form[:3], form[-5:-2]
    (got,) = lanewise(f"{form} out0, in0, in1;", a, b, out=np.uint32)
    functions: dict[str, Callable[[int, int], int]] = {"add": int.__add__, "min": min, "max": max}
    function = functions[op]
    for x, y, out in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        parts = [function(p, q) for p, q in zip(halves(x, kind), halves(y, kind), strict=True)]
        if "relu" in form:
            parts = [max(p, 0) for p in parts]
        assert out == parts[0] % 2**16 | parts[1] % 2**16 << 16


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields_of_both_widths(kind: str) -> None:
    bits = int(kind[1:])
    rng = np.random.default_rng(7)
    a, b = (x[:100] for x in operands(bits, 2))
    pos, size = (
        rng.choice([0, 1, 5, 31, 32, 33, 63, 64, 200, 256 + 3], 100).astype(np.uint32)
        for _ in range(2)
    )
    (field,) = lanewise(f"bfe.{kind} out0, in0, in1, in2;", a, pos, size, out=a.dtype)
    (merged,) = lanewise(f"bfi.b{bits} out0, in0, in1, in2, in3;", a, b, pos, size, out=a.dtype)
    for x, y, p, n, got, inserted in zip(
        *(v.tolist() for v in (a, b, pos, size, field, merged)), strict=True
    ):
        # Of 32-bit fields the low byte counts, of 64-bit ones the whole operand (H200 record).
        at, length = (p, n) if bits == 64 else (p & 255, n & 255)
        # The bits above the register repeat its sign bit (or are zero), then `length` bits are cut
        # out.
        endless = read(x, kind) if kind[0] == "s" else x
        value = (endless >> at) & (2**length - 1)
        if kind[0] == "s" and length and value >> (length - 1):
            value -= 2**length
        assert got == value % 2**bits
        mask = ((2**length - 1) << at) % 2**bits
        assert inserted == (y & ~mask) | (x << at) & mask


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_the_highest_significant_bit(kind: str) -> None:
    bits = int(kind[1:])
    (a,) = operands(bits, 1)
    (place,) = lanewise(f"bfind.{kind} out0, in0;", a, out=np.uint32)
    (shift,) = lanewise(f"bfind.shiftamt.{kind} out0, in0;", a, out=np.uint32)
    for x, at, distance in zip(a.tolist(), place.tolist(), shift.tolist(), strict=True):
        value = read(x, kind)
        length = (value if value >= 0 else ~value).bit_length()
        assert at == (length - 1) % 2**32
        assert distance == (bits - length if length else 2**32 - 1)


@pytest.mark.parametrize("left", ["u32", "s32"])
@pytest.mark.parametrize("right", ["u32", "s32"])
def test_dot_product_of_bytes(left: str, right: str) -> None:
    a, b, c = operands(32, 3)
    (got,) = lanewise(f"dp4a.{left}.{right} out0, in0, in1, in2;", a, b, c, out=np.uint32)
    for x, y, z, out in zip(*(v.tolist() for v in (a, b, c, got)), strict=True):
        xs, ys = (
            [
                byte - 256 if kind == "s32" and byte > 127 else byte
                for byte in value.to_bytes(4, "little")
            ]
            for value, kind in ((x, left), (y, right))
        )
        assert out == (z + sum(p * q for p, q in zip(xs, ys, strict=True))) % 2**32


test_forms_that_the_isa_does_not_have = refused(
    "add.sat.u32 %r1, %r2, %r3;",
    "mul.wide.u64 %rd1, %rd2, %rd3;",
    "mad.lo.sat.s32 %r1, %r2, %r3, %r4;",
    "mul.s32 %r1, %r2, %r3;",
    "neg.u32 %r1, %r2;",
    "sub.u16x2 %r1, %r2, %r3;",
    "min.relu.u32 %r1, %r2, %r3;",
    "bfe.b32 %r1, %r2, 0, 8;",
    "popc.u32 %r1, %r2;",
    "dp4a.u32 %r1, %r2, %r3, %r4;",
    "shl.s32 %r1, %r2, 1;",
    "and.s32 %r1, %r2, %r3;",
    "prmt.b32.f5e %r1, %r2, %r3, 1;",
    "mul.lo.s32 %rd1, %r2, %r3;",
)


def test_trap_and_breakpoint_stop_the_run() -> None:
    from sm100sim.report import SimulationFault

    for statement in ("trap;", "brkpt;"):
        with pytest.raises(SimulationFault, match="trap"):
            run_ptx(statement)
    assert run_ptx("nanosleep.u32 100; pmevent 3;").verdict == "clean"


def test_clocks_advance() -> None:
    body = (
        "mov.u64 %rd1, %clock64; mov.u32 %r1, %clock; add.f32 %f1, %f1, %f1; "
        "mov.u64 %rd2, %clock64; mov.u32 %r2, %clock; "
        "sub.u64 %rd3, %rd2, %rd1; cvt.u32.u64 %r3, %rd3; sub.u32 %r4, %r2, %r1; "
        "add.u32 out0, in0, %r3; mov.u32 out1, %r4;"
    )
    wide, narrow = lanewise(
        body.replace("add.f32 %f1, %f1, %f1;", "nanosleep.u32 5;"),
        np.zeros(32, np.uint32),
        out=np.uint32,
        outputs=2,
    )
    assert (wide > 30).all()
    assert (narrow > 30).all()
