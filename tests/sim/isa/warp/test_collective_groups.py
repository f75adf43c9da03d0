"""Warp operations of parts of a warp, and the reductions' results."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from sm100sim.report import SimulationFault
from testing.harness import lanewise, run_ptx
from tests.sim.isa.absent import refused

LANES = np.arange(32, dtype=np.uint32)
SPLIT = "setp.lt.u32 %q0, in0, 12; mov.u32 %r40, 0xFFF; @!%q0 mov.u32 %r40, 0xFFFFF000; "


def test_two_groups_at_one_instruction_do_not_mix() -> None:
    """Both halves of a diverged warp reach the same instruction, each with its own members."""
    body = (
        SPLIT + "@%q0 bra MEET; add.u32 in0, in0, 0; MEET: setp.ne.u32 %q1, in0, 99; "
        "vote.sync.ballot.b32 out0, %q1, %r40; activemask.b32 out1;"
    )
    ballot, active = lanewise(body, LANES, out=np.uint32, outputs=2)
    assert ballot.tolist() == [0xFFF if lane < 12 else 0xFFFFF000 for lane in range(32)]
    assert all(int(active[lane]) >> lane & 1 for lane in range(32))


def test_groups_in_different_branches() -> None:
    body = (
        SPLIT + "@%q0 bra FIRST; redux.sync.add.u32 out0, in0, 0xFFFFF000; "
        "shfl.sync.down.b32 out1, in0, 1, 31, 0xFFFFF000; bra DONE; "
        "FIRST: redux.sync.max.u32 out0, in0, 0xFFF; "
        "shfl.sync.idx.b32 out1, in0, 3, 31, 0xFFF; DONE:"
    )
    total, moved = lanewise(body, LANES, out=np.uint32, outputs=2)
    assert total.tolist() == [11] * 12 + [sum(range(12, 32))] * 20
    assert moved.tolist() == [3] * 12 + [*range(13, 32), 31]


def test_late_members_join_at_the_instruction() -> None:
    """A third of the warp arrives earlier and waits; the whole warp then votes once."""
    body = (
        "setp.lt.u32 %q0, in0, 10; setp.lt.u32 %q1, in0, 20; mov.u32 %r40, 0; "
        "@%q0 bra MEET; @%q1 bra MEET; "
        "LOOP: add.u32 %r40, %r40, 1; setp.lt.u32 %q2, %r40, 9; @%q2 bra LOOP; "
        "MEET: bar.warp.sync -1; setp.gt.u32 %q3, %r40, 0; vote.sync.ballot.b32 out0, %q3, -1;"
    )
    (ballot,) = lanewise(body, LANES, out=np.uint32)
    assert set(ballot.tolist()) == {0xFFF00000}


def test_lanes_that_name_different_members_are_refused() -> None:
    body = (
        "mov.u32 %r1, %laneid; setp.lt.u32 %q0, %r1, 16; selp.b32 %r2, -1, 0xFFFF, %q0; "
        "vote.sync.ballot.b32 %r3, 1, %r2;"
    )
    with pytest.raises(SimulationFault, match="membermask"):
        run_ptx(body)


def test_a_member_that_left_the_kernel_does_not_block() -> None:
    body = "setp.ge.u32 %q0, in0, 24; @%q0 exit; vote.sync.ballot.b32 out0, 1, -1;"
    (ballot,) = lanewise(body, LANES, out=np.uint32)
    assert set(ballot.tolist()[:24]) == {0x00FFFFFF}


REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda a, b: (a + b) % 2**32,
    "add.s32": lambda a, b: (a + b) % 2**32,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda a, b: min(a, b, key=lambda v: v ^ 2**31),
    "max.s32": lambda a, b: max(a, b, key=lambda v: v ^ 2**31),
}


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x00FF00F0, 0x80000000])
def test_reductions(op: str, members: int) -> None:
    value = np.random.default_rng(3).integers(0, 2**32, 32, dtype=np.uint64).astype(np.uint32)
    body = (
        f"mov.u32 out0, 7; mov.u32 %r40, %laneid; mov.u32 %r41, {members}; "
        f"shr.u32 %r41, %r41, %r40; and.b32 %r41, %r41, 1; "
        f"setp.eq.u32 %q0, %r41, 0; @%q0 bra SKIP; redux.sync.{op} out0, in0, {members}; SKIP:"
    )
    (got,) = lanewise(body, value, out=np.uint32)
    chosen = [int(value[k]) for k in range(32) if members >> k & 1]
    want = reduce(REDUCTIONS[op], chosen)
    assert got.tolist() == [want if members >> k & 1 else 7 for k in range(32)]


@pytest.mark.parametrize("op", ["min", "max"])
def test_float_reductions_by_magnitude(op: str) -> None:
    value = np.random.default_rng(5).normal(size=32).astype(np.float32)
    value[4] = np.nan
    (plain,) = lanewise(f"redux.sync.{op}.abs.f32 out0, in0, -1;", value, out=np.float32)
    (strict,) = lanewise(f"redux.sync.{op}.abs.NaN.f32 out0, in0, -1;", value, out=np.uint32)
    want = {"min": np.nanmin, "max": np.nanmax}[op](np.abs(value))
    assert set(plain.tolist()) == {float(want)}
    assert set(strict.tolist()) == {0x7FFFFFFF}
    (none,) = lanewise(
        f"redux.sync.{op}.f32 out0, in0, -1;", np.full(32, -np.nan, np.float32), out=np.uint32
    )
    assert set(none.tolist()) == {0x7FFFFFFF}


def test_zeros_are_ordered() -> None:
    value = np.where(LANES % 2 == 0, 0.0, -0.0).astype(np.float32)
    (low,) = lanewise("redux.sync.min.f32 out0, in0, -1;", value, out=np.uint32)
    (high,) = lanewise("redux.sync.max.f32 out0, in0, -1;", value, out=np.uint32)
    assert set(low.tolist()) == {0x80000000}
    assert set(high.tolist()) == {0}


@pytest.mark.parametrize("same", [True, False])
def test_match_all(same: bool) -> None:
    value = np.full(32, 2**40 + 5, np.uint64)
    value[17] += 0 if same else 2**33
    (mask, flag) = lanewise(
        "match.all.sync.b64 %r40|%q1, in0, -1; cvt.u64.u32 out0, %r40; selp.b64 out1, 1, 0, %q1;",
        value,
        out=np.uint64,
        outputs=2,
    )
    assert set(mask.tolist()) == {0xFFFFFFFF if same else 0}
    assert set(flag.tolist()) == {int(same)}
    (groups,) = lanewise(
        "match.any.sync.b64 %r40, in0, -1; cvt.u64.u32 out0, %r40;", value, out=np.uint64
    )
    others = 0xFFFFFFFF if same else 0xFFFFFFFF & ~(1 << 17)
    assert groups.tolist() == [1 << 17 if k == 17 and not same else others for k in range(32)]


test_forms_that_the_isa_does_not_have = refused(
    "shfl.idx.b32 %r1, %r2, 0, 31;",
    "shfl.sync.idx.b64 %rd1, %rd2, 0, 31, -1;",
    "vote.sync.ballot.pred %q1, %q2, -1;",
    "vote.any.pred %q1, %q2;",
    "elect.sync %r1, -1;",
    "redux.sync.add.f32 %f1, %f2, -1;",
    "redux.sync.and.u32 %r1, %r2, -1;",
    "redux.sync.min.abs.s32 %r1, %r2, -1;",
    "match.all.b32 %r1, %r2, -1;",
    "activemask.u32 %r1;",
)
