"""Findings in the engine: counted where they are the same, apart where code or severity differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import SimulationFault
from testing.harness import aligned, run_ptx

READ_UNSET = "add.u32 %r1, %r0, 1;"


def test_one_finding_counts_what_is_the_same() -> None:
    body = "mov.u32 %r5, 0;\nAGAIN:\nadd.u32 %r1, %r0, 1;\nadd.u32 %r5, %r5, 1;\n"
    body += "setp.lt.u32 %q0, %r5, 3;\n@%q0 bra AGAIN;"
    report = run_ptx(body, checks=Check.REGISTERS)
    (found,) = report.findings
    assert (found.code, found.count, found.fatal) == ("uninitialised-register", 3, False)


def test_a_fault_has_its_own_entry_and_severity() -> None:
    report = run_ptx(READ_UNSET + "\ntrap;", checks=Check.REGISTERS, raise_on_fault=False)
    assert [(f.code, f.fatal, f.count) for f in report.findings] == [
        ("uninitialised-register", False, 1),
        ("trap", True, 1),
    ]
    assert report.findings[1].message == "the kernel executed trap"


def test_a_fault_is_kept_when_there_is_no_room_for_more_findings() -> None:
    with pytest.raises(SimulationFault, match="the kernel executed trap") as caught:
        run_ptx(READ_UNSET + "\ntrap;", checks=Check.REGISTERS, max_findings=1)
    assert [f.fatal for f in caught.value.report.findings] == [False, True]


def test_dropped_findings_make_a_run_incomplete() -> None:
    body = "add.u32 %r1, %r0, 1;\nadd.u32 %r2, %r3, 1;"
    report = run_ptx(body, np.zeros(1, np.uint32), checks=Check.REGISTERS, max_findings=1)
    assert len(report.findings) == 1
    assert not report.complete


SEVENTY = "\n".join(f".reg .b32 %u{k}; add.s32 %u{k}, %u{k}, 1;" for k in range(70))


@pytest.mark.parametrize("room", [0, 1, 64])
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("mov.b64 %rd1, 0; st.global.b32 [%rd1], %r1;", "global-address"),
        (
            "mov.u32 %r2, %tid.x; setp.lt.u32 %q1, %r2, 32; "
            "@%q1 bar.sync 1, 64; @!%q1 bar.sync 2, 64;",
            "deadlock",
        ),
        ("L: bra L;", "livelock"),
        ("L: st.global.b32 [%p0], 1; bra L;", "too-many-instructions"),
    ],
)
def test_no_fault_is_lost_behind_many_findings(room: int, end: str, code: str) -> None:
    limits: dict[str, Any] = {"max_idle_instructions": 2_000, "max_instructions": 200_000}
    with pytest.raises(SimulationFault, match=code) as caught:
        run_ptx(
            SEVENTY + end, np.zeros(1, np.uint32), block=64, checks=Check.ALL, max_findings=room,
            **limits,
        )  # fmt: skip
    report = caught.value.report
    assert [f.code for f in report.findings if f.fatal] == [code]
    assert len(report.findings) == room + 1
    assert not report.complete


@pytest.mark.parametrize(
    "loop",
    [
        "atom.acquire.gpu.global.or.b32 %r5, [%p0], 0;",
        "atom.global.cas.b32 %r5, [%p0], 9, 9;",
        "mov.b64 %rd1, 0; mov.b128 %x, {%rd1, %rd1}; atom.global.cas.b128 %x, [%p0], %x, %x;",
    ],
)
def test_a_loop_that_polls_with_an_atomic_is_a_livelock(loop: str) -> None:
    with pytest.raises(SimulationFault, match=r"livelock: [0-9]+ warp .* changed nothing"):
        run_ptx(
            f"L: {loop} bra L;", aligned(8, np.uint32), regs=".reg .b128 %x;",
            max_idle_instructions=20_000,
        )  # fmt: skip


@pytest.mark.parametrize(
    "step", ["add.u32 %r5, %r5, 1;", "mov.u32 %r6, %clock; ld.global.b32 %r5, [%p0];"]
)
@pytest.mark.parametrize("rounds", [10_000, 1_000_000])
def test_a_loop_that_computes_has_more_time(step: str, rounds: int) -> None:
    """Nobody else can change what it waits for, so it is not a poll."""
    loop = f"L: add.u32 %r1, %r1, 1; {step} setp.lt.u32 %q1, %r1, {rounds}; @%q1 bra L;"
    given: dict[str, Any] = {"max_idle_instructions": 5_000}
    if rounds > 100_000:
        with pytest.raises(SimulationFault, match="livelock"):
            run_ptx("mov.u32 %r1, 0;" + loop, np.zeros(1, np.uint32), **given)
        return
    run_ptx("mov.u32 %r1, 0;" + loop, np.zeros(1, np.uint32), **given)
    poll = loop.replace("setp", "ld.relaxed.gpu.global.b32 %r5, [%p0]; setp")
    with pytest.raises(SimulationFault, match="livelock"):
        run_ptx("mov.u32 %r1, 0;" + poll, np.zeros(1, np.uint32), **given)


def test_an_atomic_that_changes_memory_is_progress() -> None:
    out = np.zeros(1, np.uint32)
    with pytest.raises(SimulationFault, match="too-many-instructions"):
        run_ptx(
            "L: atom.global.add.u32 %r5, [%p0], 1; bra L;", out,
            max_idle_instructions=5_000, max_instructions=200_000,
        )  # fmt: skip
    assert out[0] > 32 * 50_000


def test_the_number_of_instructions_may_be_limited() -> None:
    body = "mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1; st.global.b32 [%p0], %r1;\n"
    body += "setp.lt.u32 %q0, %r1, 1000; @%q0 bra L;"
    out = np.zeros(1, np.uint32)
    report = run_ptx(body, out, max_instructions=5_000)
    assert (report.verdict, out[0]) == ("clean", 1000)
    with pytest.raises(SimulationFault, match="max_instructions allows 3000"):
        run_ptx(body, out, grid=(2, 1, 1), max_instructions=3_000)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("add.s64 %rd1, %p0, 4100;", r"; it starts 6 bytes past the end of `uint8\[4094\]` \(4094"),
        (
            "add.s64 %rd1, %p0, 4092;",
            r"; its last 2 bytes are past the end of `uint8\[4094\]` \(4094",
        ),
        ("add.s64 %rd1, %p0, -12;", r"; it starts 12 bytes before `uint8\[4094\]` \(4094 b"),
        ("mov.b64 %rd1, 16;", r"outside of every known allocation \[CTA"),
    ],
)
def test_a_wild_address_is_placed_beside_the_nearest_buffer(address: str, words: str) -> None:
    with pytest.raises(SimulationFault, match=words):
        run_ptx(f"{address} ld.global.b32 %r1, [%rd1];", np.zeros(4094, np.uint8))


@pytest.mark.parametrize("space", ["param", "local"])
def test_no_part_of_a_wide_address_is_dropped(space: str) -> None:
    with pytest.raises(SimulationFault, match=f"{space}-address: .* offset 18446603336221196288"):
        run_ptx(
            f"mov.b64 %rd1, 0xffff800000000000; ld.{space}.b32 %r1, [%rd1];", np.zeros(8, np.uint8),
            regs=".local .b8 own[64];",
        )  # fmt: skip
