"""Divergence and reconvergence: nested branches, loops, early exits, lanes that wait for one
another."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.report import SimulationFault
from testing.harness import lanewise, run_ptx

LANES = np.arange(32, dtype=np.uint32)


def test_nested_branches_meet_again() -> None:
    body = """
    mov.u32 out0, 0; setp.lt.u32 %q1, in0, 16; @!%q1 bra ELSE;
      setp.lt.u32 %q2, in0, 8; @%q2 bra DEEP; add.u32 out0, out0, 2; bra DONE_INNER;
      DEEP: add.u32 out0, out0, 1; DONE_INNER:
      activemask.b32 out1; bra JOIN;
    ELSE: mov.u32 out0, 7; activemask.b32 out1;
    JOIN: activemask.b32 out2;
    """
    value, inner, outer = lanewise(body, LANES, out=np.uint32, outputs=3)
    assert value.tolist() == [1] * 8 + [2] * 8 + [7] * 16
    assert inner.tolist() == [0x0000FFFF] * 16 + [0xFFFF0000] * 16
    assert set(outer.tolist()) == {0xFFFFFFFF}


def test_loops_with_different_trip_counts() -> None:
    body = """
    mov.u32 out0, 0; mov.u32 %r40, 0;
    LOOP: setp.ge.u32 %q1, %r40, in0; @%q1 bra DONE; add.u32 out0, out0, %r40;
    add.u32 %r40, %r40, 1; bra LOOP;
    DONE: activemask.b32 out1;
    """
    total, mask = lanewise(body, LANES, out=np.uint32, outputs=2)
    assert total.tolist() == [k * (k - 1) // 2 for k in range(32)]
    assert set(mask.tolist()) == {0xFFFFFFFF}


def test_early_exit_inside_a_branch_does_not_hold_up_the_others() -> None:
    out = np.zeros(32, np.uint32)
    body = """
    mov.u32 %r1, %tid.x; setp.lt.u32 %q1, %r1, 5; @!%q1 bra KEEP; setp.lt.u32 %q2, %r1, 3;
    @%q2 exit; KEEP:
    vote.sync.ballot.b32 %r2, 1, 0xFFFFFFF8;
    mad.wide.u32 %rd1, %r1, 4, %p0; st.global.b32 [%rd1], %r2;
    """
    run_ptx(body, out)
    assert out.tolist() == [0] * 3 + [0xFFFFFFF8] * 29


def test_lanes_of_one_warp_can_hand_over_through_memory() -> None:
    """One lane polls what another lane of its warp writes: both sides of a branch must make
    progress."""
    flag, out = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    body = """
    mov.u32 %r1, %tid.x; setp.eq.u32 %q1, %r1, 0; @!%q1 bra WRITER;
    POLL: ld.volatile.global.b32 %r2, [%p0]; setp.ne.u32 %q2, %r2, 31; @%q2 bra POLL; bra JOIN;
    WRITER: setp.ne.u32 %q3, %r1, 31; @%q3 bra JOIN; st.volatile.global.b32 [%p0], %r1;
    JOIN: mad.wide.u32 %rd1, %r1, 4, %p1; st.global.b32 [%rd1], %r1;
    """
    run_ptx(body, flag, out)
    assert out.tolist() == list(range(32))


def test_endless_polling_is_a_livelock() -> None:
    flag = np.zeros(1, np.uint32)
    body = "POLL: ld.volatile.global.b32 %r2, [%p0]; setp.eq.u32 %q2, %r2, 0; @%q2 bra POLL;"
    with pytest.raises(SimulationFault, match="livelock"):
        run_ptx(body, flag, max_idle_instructions=20_000)


def test_lanes_meet_behind_an_assertion_in_one_arm_of_a_branch() -> None:
    body = """
    setp.lt.u32 %q1, in0, 9; @!%q1 bra OUT; setp.gt.u32 %q2, in0, 40; @%q2 bra BAD;
    activemask.b32 %r40; bra OUT;
    BAD: trap;
    OUT: activemask.b32 out0;
    """
    (mask,) = lanewise(body, LANES, out=np.uint32)
    assert set(mask.tolist()) == {0xFFFFFFFF}


def test_trap_names_its_line() -> None:
    with pytest.raises(SimulationFault, match="trap") as caught:
        run_ptx("mov.u32 %r1, 1;\ntrap;")
    assert caught.value.report.findings[0].source.strip() == "trap;"


@pytest.mark.parametrize("mode", ["fast", "random", "late"])
def test_results_do_not_depend_on_the_order_of_warps(mode: str) -> None:
    out = np.zeros(256, np.uint32)
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 1;
    LOOP: mul.lo.u32 %r3, %r3, 1664525; add.u32 %r3, %r3, %r1; add.u32 %r2, %r2, 1;
    setp.lt.u32 %q1, %r2, 100; @%q1 bra LOOP;
    mad.wide.u32 %rd1, %r1, 4, %p0; st.global.b32 [%rd1], %r3;
    """
    run_ptx(body, out, block=256, mode=mode, seed=3)
    want = []
    for thread in range(256):
        x = 1
        for _ in range(100):
            x = (x * 1664525 + thread) % 2**32
        want.append(x)
    assert out.tolist() == want


def test_special_registers() -> None:
    out = np.zeros(2 * 3 * 64, np.uint32)
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %ntid.x;
    mad.lo.u32 %r6, %r3, %r4, %r2; mad.lo.u32 %r6, %r6, %r5, %r1; mov.u32 %r7, %laneid;
    mov.u32 %r8, %cluster_ctarank;
    shl.b32 %r8, %r8, 8; or.b32 %r7, %r7, %r8; mad.wide.u32 %rd1, %r6, 4, %p0;
    st.global.b32 [%rd1], %r7;
    """
    run_ptx(body, out, grid=(2, 3, 1), cluster=(2, 1, 1), block=64)
    want = [(lane % 32) | (x << 8) for _ in range(3) for x in range(2) for lane in range(64)]
    assert out.tolist() == want
