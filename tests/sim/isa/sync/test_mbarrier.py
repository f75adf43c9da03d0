"""mbarrier: each rule with a program that keeps it and one that breaks it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.ptx.errors import PtxError
from testing.harness import aligned_copy, run_ptx
from tests.sim.isa.memory.programs import DYN, SMEM, aligned, fault_of, only, wait

OPTIONS: dict[str, Any] = {"shared": SMEM, "smem": 256}
BAR = "mov.u32 %r1, dyn;"


def init(count: int, offset: int = 0) -> str:
    return (
        BAR
        + only(0, f"mbarrier.init.shared.b64 [%r1+{offset}], {count};", f"INIT{offset}")
        + "bar.sync 0;"
    )


@pytest.mark.parametrize("mode", ["fast", "random", "late"])
def test_arrivals_of_all_threads_end_a_phase(mode: str) -> None:
    out = aligned(128, np.uint32)
    run_ptx(
        init(128) + "mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 2; add.s32 %r3, %r1, %r2; "
        "st.shared.b32 [%r3+64], %r0;"
        "mbarrier.arrive.shared.b64 %rd1, [%r1];"
        + wait("%r1", 0, "W")
        + "xor.b32 %r4, %r2, 508; add.s32 %r4, %r4, %r1; ld.shared.b32 %r5, [%r4+64];"
        "mad.wide.u32 %rd2, %r0, 4, %p0; st.global.b32 [%rd2], %r5;",
        out,
        block=128,
        shared=SMEM,
        smem=1024,
        mode=mode,
    )
    assert out.tolist() == list(range(127, -1, -1))


def test_phases_alternate_parity_and_state_tokens_work() -> None:
    out = aligned(6, np.uint32)
    body = (
        BAR
        + """
    mbarrier.init.shared.b64 [%r1], 2;
    mbarrier.test_wait.parity.shared.b64 %q0, [%r1], 1;
    mbarrier.test_wait.parity.shared.b64 %q1, [%r1], 0;
    mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], 1;
    mbarrier.test_wait.shared.b64 %q2, [%r1], %rd1;
    mbarrier.pending_count.b64 %r5, %rd1;
    mbarrier.arrive.shared.b64 %rd2, [%r1];
    mbarrier.test_wait.shared.b64 %q3, [%r1], %rd1;
    mbarrier.test_wait.parity.shared.b64 %q4, [%r1], 0;
    selp.u32 %r6, 1, 0, %q0; selp.u32 %r7, 2, 0, %q1; selp.u32 %r8, 4, 0, %q2;
    selp.u32 %r9, 8, 0, %q3; selp.u32 %r10, 16, 0, %q4;
    add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; add.u32 %r6, %r6, %r9; add.u32 %r6, %r6, %r10;
    st.global.b32 [%p0], %r6; st.global.b32 [%p0+4], %r5;
    """
    )
    run_ptx(body.replace("selp.u32", "selp.b32"), out, block=1, **OPTIONS)
    assert out[0] == 1 | 8 | 16
    assert out[1] == 2


def test_transactions_may_complete_before_they_are_expected() -> None:
    """The sum is signed: complete_tx first, expect_tx later (PTX ISA, "mbarrier")."""
    body = BAR + (
        "mbarrier.init.shared.b64 [%r1], 1; mbarrier.complete_tx.shared.b64 [%r1], 8192;"
        "mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], 32768; "
        "mbarrier.test_wait.parity.shared.b64 %q0, [%r1], 0;"
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 16; "
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 24592;"
        "mbarrier.test_wait.parity.shared.b64 %q1, [%r1], 0; selp.b32 %r2, 1, 0, %q0; "
        "selp.b32 %r3, 2, 0, %q1;"
        "add.u32 %r2, %r2, %r3; st.global.b32 [%p0], %r2;"
    )
    out = aligned(1, np.uint32)
    run_ptx(body, out, block=1, **OPTIONS)
    assert out[0] == 2


def test_arrive_drop_lowers_the_next_phase() -> None:
    body = BAR + (
        (
            "mbarrier.init.shared.b64 [%r1], 3; "
            "mbarrier.arrive_drop.shared.b64 %rd1, [%r1], 2; "
            "mbarrier.arrive.shared.b64 %rd1, [%r1];"
        )
        + wait("%r1", 0, "A")
        + "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];"
        + wait("%r1", 1, "B")
    )
    run_ptx(body, block=1, **OPTIONS)


def test_lanes_may_wait_on_different_barriers() -> None:
    out = aligned(32, np.uint32)
    body = (
        init(1)
        + init(1, 8)
        + (
            "mov.u32 %r0, %tid.x; and.b32 %r2, %r0, 1; shl.b32 %r3, %r2, 3; add.s32 %r3, %r3, %r1;"
            + only(0, "mbarrier.arrive.shared.b64 %rd1, [%r1];", "A1")
            + "mbarrier.test_wait.parity.shared.b64 %q0, [%r3], 0; selp.b32 %r4, 1, 0, %q0;"
            "mad.wide.u32 %rd2, %r0, 4, %p0; st.global.b32 [%rd2], %r4;"
            + only(1, "mbarrier.arrive.shared.b64 %rd1, [%r1+8];", "A2")
            + wait("%r3", 0, "W")
        )
    )
    run_ptx(body, out, **OPTIONS)
    assert out.tolist() == [1, 0] * 16


def test_try_wait_sleeps_until_another_warp_arrives() -> None:
    body = init(1) + only(32, "mbarrier.arrive.shared.b64 %rd1, [%r1];", "A") + wait("%r1", 0, "W")
    report = run_ptx(body, block=64, **OPTIONS)
    assert report.opcode_counts["MBAR_WAIT"] <= 4


def test_a_suspended_wait_answers_false_when_nothing_else_moves() -> None:
    """A program may give up after a failed try_wait: the time limit is up to the system."""
    out = aligned(1, np.uint32)
    body = init(1) + (
        "mbarrier.try_wait.parity.shared.b64 %q0, [%r1], 0; selp.b32 %r2, 1, 2, %q0; "
        "st.global.b32 [%p0], %r2;"
    )
    run_ptx(body, out, block=1, **OPTIONS)
    assert out[0] == 2


def test_a_wait_without_arrival_is_a_deadlock_that_names_the_barrier() -> None:
    text = fault_of(
        init(2) + only(0, "mbarrier.arrive.shared.b64 %rd1, [%r1];", "A") + wait("%r1", 0, "W"),
        **OPTIONS,
    )
    assert "deadlock" in text
    assert f"0x{DYN:x}" in text
    assert "pending arrivals 1 of 2" in text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            (
                "mbarrier.init.shared.b64 [%r1], 2; mbarrier.arrive.shared.b64 %rd1, [%r1]; "
                "mbarrier.init.shared.b64 [%r1], 1;"
            ),
            "init over a live object",
        ),
        ("mbarrier.init.shared.b64 [%r1], 0;", "count 0"),
        ("mov.b32 %r2, 0x100000; mbarrier.init.shared.b64 [%r1], %r2;", "2^20 - 1"),
        ("mbarrier.init.shared.b64 [%r1+4], 1;", "not a multiple of 8"),
        ("mbarrier.arrive.shared.b64 %rd1, [%r1];", "no live mbarrier"),
        (
            (
                "mbarrier.init.shared.b64 [%r1], 1; mbarrier.inval.shared.b64 [%r1]; "
                "mbarrier.arrive.shared.b64 %rd1, [%r1];"
            ),
            "no live mbarrier",
        ),
        (
            "mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.shared.b64 %rd1, [%r1+8];",
            "no live mbarrier",
        ),
        ("mbarrier.inval.shared.b64 [%r1];", "no live mbarrier"),
        (
            "mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.shared.b64 %rd1, [%r1], 2;",
            "more arrivals",
        ),
        (
            (
                "mbarrier.init.shared.b64 [%r1], 1; mov.b32 %r2, 0; "
                "mbarrier.arrive.shared.b64 %rd1, [%r1], %r2;"
            ),
            "count 0",
        ),
        (
            (
                "mbarrier.init.shared.b64 [%r1], 1; "
                "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1048576;"
            ),
            "transaction count",
        ),
        (
            "mbarrier.init.shared.b64 [%r1], 1; mbarrier.complete_tx.shared.b64 [%r1], 1048576;",
            "transaction count",
        ),
        (
            (
                "mbarrier.init.shared.b64 [%r1], 1; "
                "mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], 1;"
            ),
            "noComplete",
        ),
        (
            "mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive_drop.shared.b64 %rd1, [%r1], 2;",
            "arrive_drop",
        ),
        (
            (
                "mbarrier.init.shared.b64 [%r1], 1; mov.b64 %rd1, 0x500000; "
                "mbarrier.test_wait.shared.b64 %q0, [%r1], %rd1;"
            ),
            "neither of the current",
        ),
        ("mov.u32 %r1, 64; mbarrier.init.shared.b64 [%r1], 1;", "belong to the system"),
        ("mbarrier.init.shared.b64 [%r1+256], 1;", "the end of the CTA's shared memory"),
    ],
)
def test_broken_rules_fault(body: str, reason: str) -> None:
    assert reason in fault_of(BAR + body, block=1, **OPTIONS)


def test_a_fault_names_offset_counts_and_phase() -> None:
    text = fault_of(
        BAR
        + (
            "mbarrier.init.shared.b64 [%r1+24], 1; "
            "mbarrier.arrive.shared.b64 %rd1, [%r1+24]; "
            "mbarrier.arrive.shared.b64 %rd1, [%r1+24], 5;"
        ),
        block=1,
        **OPTIONS,
    )
    assert "CTA 0 + 0x418" in text
    assert "phase 1, pending arrivals 1 of 1, tx bytes 0" in text
    assert "mbarrier.arrive.shared.b64 %rd1, [%r1+24], 5" in text


@pytest.mark.parametrize(
    "body",
    [
        "mbarrier.arrive.shared::cluster.b64 %rd1, [%r1];",
        "mbarrier.try_wait.parity.shared::cluster.b64 %q0, [%r1], 0;",
        "mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1];",
        "mbarrier.init.b64 [%r1], 1;",
    ],
)
def test_forms_that_do_not_exist_stop(body: str) -> None:
    with pytest.raises(PtxError):
        run_ptx(BAR + body, block=1, **OPTIONS)


def test_waiting_takes_time_of_the_runs_own_clock() -> None:
    slow = "mov.u32 %r9, 0; LOOP: add.u32 %r9, %r9, 1; setp.lt.u32 %q3, %r9, 500; @%q3 bra LOOP;"
    body = (
        init(1)
        + only(32, slow + "mbarrier.arrive.shared.b64 %rd1, [%r1];", "A")
        + wait("%r1", 0, "W")
    )
    quick = init(1) + only(32, "mbarrier.arrive.shared.b64 %rd1, [%r1];", "A") + wait("%r1", 0, "W")
    late, soon = (
        run_ptx(text, block=64, **{**OPTIONS, "trace_cluster": 0}) for text in (body, quick)
    )
    ends = [max(event.end for event in report.events) for report in (late, soon)]
    assert ends[0] > ends[1] + 500


def test_several_lanes_may_initialise_one_mbarrier_alike_but_are_reported() -> None:
    """FA4's backward kernel does so; lanes that disagree on the count stop the run."""
    report = run_ptx(BAR + "mbarrier.init.shared.b64 [%r1], 3;", block=32, **OPTIONS)
    assert [f.code for f in report.findings] == ["mbarrier-init-lanes"]
    differ = BAR + "mov.u32 %r2, %tid.x; add.u32 %r2, %r2, 1; mbarrier.init.shared.b64 [%r1], %r2;"
    assert "live object" in fault_of(differ, block=32, **OPTIONS)


def test_a_barrier_initialised_again_between_phases_begins_anew_and_is_reported() -> None:
    """CUTLASS's primitives 05 and 10 and Mojo's puzzle 29 do so."""
    out = aligned(1, np.uint32)
    body = (
        init(1)
        + "mbarrier.arrive.shared.b64 %rd1, [%r1]; mbarrier.init.shared.b64 [%r1], 2; "
        + "mbarrier.arrive.shared.b64 %rd1, [%r1]; mbarrier.arrive.shared.b64 %rd1, [%r1];"
        + wait("%r1", 0, "W")
        + "mov.u32 %r2, 7; st.global.b32 [%p0], %r2;"
    )
    report = run_ptx(body, out, block=1, **OPTIONS)
    assert [f.code for f in report.findings] == ["mbarrier-init-again"]
    assert out[0] == 7


@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
def test_of_a_parity_in_a_register_the_lowest_bit_counts_and_is_reported(wait: str) -> None:
    """An H200 does so, and quack's pingpong relies on it. Phase 0 is under way, then phase 1."""
    parities, out = np.arange(4, dtype=np.uint32), aligned(8, np.uint32)
    asked = "".join(
        f"ld.global.b32 %r5, [%p0+{4 * k}]; mbarrier.{wait}.parity.shared.b64 %q0, [%r1], %r5;"
        f"selp.b32 %r6, 1, 0, %q0; st.global.b32 [%rd3+{4 * k}], %r6;"
        for k in parities
    )
    body = BAR + "mbarrier.init.shared.b64 [%r1], 1; mov.b64 %rd3, %p1;" + asked
    body += "mbarrier.arrive.shared.b64 %rd1, [%r1]; add.s64 %rd3, %rd3, 16;" + asked
    report = run_ptx(body, aligned_copy(parities), out, block=1, **OPTIONS)
    assert out.reshape(2, 4).tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert [f.code for f in report.findings] == ["mbarrier-parity"]
    assert "names parity 2; the ISA knows 0 and 1" in str(report.findings[0])


def test_an_immediate_parity_is_0_or_1() -> None:
    """As of ptxas."""
    with pytest.raises(PtxError, match="parity 2"):
        run_ptx(BAR + "mbarrier.test_wait.parity.shared.b64 %q0, [%r1], 2;", block=1, **OPTIONS)
