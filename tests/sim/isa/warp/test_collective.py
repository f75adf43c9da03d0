"""Shuffles, votes, elections: every lane's result against the ISA's formulas."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.report import SimulationFault
from testing.harness import lanewise, run_ptx

LANES = np.arange(32, dtype=np.uint32)


def shuffle(mode: str, value: np.ndarray, b: int, c: int) -> tuple[list[int], list[bool]]:
    """Pseudo-code of shfl.sync, written lane by lane."""
    segment, clamp = c >> 8 & 31, c & 31
    out, valid = [], []
    for lane in range(32):
        top = (lane & segment) | (clamp & ~segment & 31)
        bottom = lane & segment
        source = {
            "up": lane - b,
            "down": lane + b,
            "bfly": lane ^ b,
            "idx": bottom | (b & ~segment & 31),
        }[mode]
        good = source >= top if mode == "up" else source <= top
        out.append(int(value[source if good else lane]))
        valid.append(good)
    return out, valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(
    ("b", "c"), [(0, 31), (1, 31), (5, 31), (1, 0), (3, 0x1807), (2, 0x1C03), (16, 31), (31, 31)]
)
def test_shuffle(mode: str, b: int, c: int) -> None:
    value = np.random.default_rng(b + c).integers(0, 2**32, 32, dtype=np.uint64).astype(np.uint32)
    body = f"shfl.sync.{mode}.b32 out0|%q0, in0, {b}, {c}, -1; selp.b32 out1, 1, 0, %q0;"
    got, predicate = lanewise(body, value, out=np.uint32, outputs=2)
    out, valid = shuffle(mode, value, b, c)
    assert got.tolist() == out
    assert predicate.tolist() == [int(v) for v in valid]


def test_votes() -> None:
    value = np.array([1, 0, 1, 1] * 8, np.uint32)
    body = (
        "setp.ne.u32 %q0, in0, 0; vote.sync.ballot.b32 out0, %q0, -1; "
        "vote.sync.any.pred %q1, %q0, -1; "
        "vote.sync.all.pred %q2, %q0, -1; vote.sync.uni.pred %q3, %q0, -1; "
        "vote.sync.all.pred %q4, !%q0, -1; "
        "selp.b32 %r40, 1, 0, %q1; selp.b32 %r41, 2, 0, %q2; selp.b32 %r42, 4, 0, %q3; "
        "selp.b32 %r43, 8, 0, %q4; "
        "or.b32 %r40, %r40, %r41; or.b32 %r40, %r40, %r42; or.b32 out1, %r40, %r43;"
    )
    ballot, flags = lanewise(body, value, out=np.uint32, outputs=2)
    assert set(ballot.tolist()) == {sum(int(v) << k for k, v in enumerate(value))}
    assert set(flags.tolist()) == {1}


@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x80000000, 0x0000FF00, 0x00010010])
def test_elect_takes_the_lowest_member(members: int) -> None:
    body = (
        f"mov.u32 out0, 0; mov.u32 out1, 99; mov.u32 %r40, {members}; "
        f"shr.u32 %r41, %r40, in0; and.b32 %r41, %r41, 1; "
        f"setp.eq.u32 %q0, %r41, 1; @!%q0 bra SKIP; elect.sync out1|%q1, {members}; "
        f"selp.b32 out0, 1, 0, %q1; SKIP:"
    )
    elected, leader = lanewise(body, LANES, out=np.uint32, outputs=2)
    lowest = (members & -members).bit_length() - 1
    assert [k for k in range(32) if elected[k]] == [lowest]
    assert all(leader[k] == (lowest if members >> k & 1 else 99) for k in range(32))


def test_redux_and_match() -> None:
    value = np.random.default_rng(1).integers(0, 5, 32).astype(np.uint32)
    body = "redux.sync.add.u32 out0, in0, -1; match.any.sync.b32 out1, in0, -1;"
    total, mask = lanewise(body, value, out=np.uint32, outputs=2)
    assert set(total.tolist()) == {int(value.sum())}
    assert mask.tolist() == [sum(1 << k for k in range(32) if value[k] == v) for v in value]


@pytest.mark.parametrize("op", ["min", "max"])
def test_redux_of_floats_ignores_nan_unless_asked(op: str) -> None:
    value = np.random.default_rng(2).normal(size=32).astype(np.float32)
    value[3] = np.nan
    (plain,) = lanewise(f"redux.sync.{op}.f32 out0, in0, -1;", value, out=np.uint32)
    (strict,) = lanewise(f"redux.sync.{op}.NaN.f32 out0, in0, -1;", value, out=np.uint32)
    want = np.float32(np.nanmin(value) if op == "min" else np.nanmax(value))
    assert set(plain.tolist()) == {int(want.view(np.uint32))}
    assert set(strict.tolist()) == {0x7FFFFFFF}


def test_members_must_contain_the_executing_lane() -> None:
    with pytest.raises(SimulationFault, match="membermask"):
        run_ptx("vote.sync.ballot.b32 %r1, 1, 0xFFFF;")


def test_members_that_never_arrive_are_a_deadlock() -> None:
    """PTX ISA, "vote.sync": a thread waits for "all non-exited threads" of the mask."""
    body = (
        "mov.u32 %r1, %laneid; setp.lt.u32 %q1, %r1, 16; @%q1 bra OTHER; "
        "vote.sync.ballot.b32 %r2, 1, -1; OTHER:"
    )
    run_ptx(body)  # the other lanes exit
    body = body.replace("OTHER:", "bra END; OTHER: bar.warp.sync -1; END:")
    with pytest.raises(SimulationFault, match="deadlock") as caught:
        run_ptx(body)
    assert any("lanes" in f.message for f in caught.value.report.findings)


def test_reading_a_lane_that_takes_no_part_is_reported() -> None:
    body = (
        "mov.u32 %r1, %laneid; setp.lt.u32 %q1, %r1, 16; @!%q1 bra DONE; "
        "shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xFFFF; DONE:"
    )
    report = run_ptx(body)
    assert [f.code for f in report.findings] == ["shuffle-from-inactive-lane"]
    assert run_ptx(body.replace("20, 31", "2, 31")).verdict == "clean"
