"""Clusters that wait for one another through global memory run, in turns, and are watched."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import run_ptx

CLUSTERS = 12
Words = npt.NDArray[np.uint32]

START = """mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %p0, %rd1;
mov.u32 %r2, %nctaid.x; mov.u32 %r40, %tid.x; setp.ne.u32 %q15, %r40, 0; @%q15 exit;
"""
"""One thread of each CTA goes on; %rd2: its word of the values, %p1: flags."""

REVERSE = START + """
sub.u32 %r3, %r2, 1; setp.eq.u32 %q1, %r1, %r3; mov.u32 %r4, 1; add.u64 %rd3, %p1, %rd1;
@%q1 bra GO;
W: ld.{acquire}.gpu.global.b32 %r5, [%rd3+4]; setp.eq.u32 %q2, %r5, 0; @%q2 bra W;
ld.global.b32 %r4, [%rd2+4]; add.u32 %r4, %r4, 1;
GO: st.global.b32 [%rd2], %r4;
st.{release}.gpu.global.b32 [%rd3], 1;
"""
"""Each cluster waits for the one after it: a chain against the order of their start."""

BARRIER = START + """
st.global.b32 [%rd2], %r1;
atom.{both}.gpu.global.add.u32 %r5, [%p1], 1;
W: ld.{acquire}.gpu.global.b32 %r5, [%p1]; setp.lt.u32 %q2, %r5, %r2; @%q2 bra W;
mov.u32 %r7, 0; mov.u32 %r8, 0; mov.u64 %rd4, %p0;
S: ld.global.b32 %r9, [%rd4]; add.u32 %r8, %r8, %r9; add.u64 %rd4, %rd4, 4; add.u32 %r7, %r7, 1;
setp.lt.u32 %q3, %r7, %r2; @%q3 bra S;
add.u64 %rd5, %p2, %rd1; st.global.b32 [%rd5], %r8;
"""
"""A barrier of the whole grid: then each adds up what all have written."""

ROUNDS = START + """
mov.u32 %r6, 0; setp.eq.u32 %q4, %r1, 1;
R: shl.b32 %r7, %r6, 1; selp.b32 %r8, 1, 0, %q4; add.u32 %r7, %r7, %r8;
W: ld.acquire.gpu.global.b32 %r5, [%p1]; setp.ne.u32 %q2, %r5, %r7; @%q2 bra W;
ld.global.b32 %r9, [%p0]; add.u32 %r9, %r9, 1; st.global.b32 [%p0], %r9;
add.u32 %r7, %r7, 1; {release} [%p1], %r7;
add.u32 %r6, %r6, 1; setp.lt.u32 %q3, %r6, 100; @%q3 bra R;
"""
"""Two clusters in turns, a hundred times: more releases than there are dimensions for."""

TICKETS = START + """
T: atom.relaxed.gpu.global.add.u32 %r5, [%p1], 1; setp.ge.u32 %q2, %r5, 40; @%q2 bra OUT;
mul.wide.u32 %rd4, %r5, 4; add.u64 %rd4, %p2, %rd4; st.global.b32 [%rd4], %r5; bra T; OUT:
"""
"""A persistent scheduler: whoever is free takes the next piece."""

LAST = START + """
st.global.b32 [%rd2], %r1; fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 %r5, [%p1], 1;
fence.acq_rel.gpu;
sub.u32 %r3, %r2, 1; setp.ne.u32 %q2, %r5, %r3; @%q2 exit;
mov.u32 %r7, 0; mov.u32 %r8, 0; mov.u64 %rd4, %p0;
S: ld.global.b32 %r9, [%rd4]; add.u32 %r8, %r8, %r9; add.u64 %rd4, %rd4, 4; add.u32 %r7, %r7, 1;
setp.lt.u32 %q3, %r7, %r2; @%q3 bra S;
st.global.b32 [%p2], %r8;
"""
"""Split-K: who comes last adds up the parts of all."""

NEVER = START + "W: ld.acquire.gpu.global.b32 %r5, [%p1]; setp.eq.u32 %q2, %r5, 0; @%q2 bra W;"

BOTH = {"acquire": "acquire", "release": "release", "both": "acq_rel"}
NO_ACQUIRE = {**BOTH, "acquire": "relaxed", "both": "relaxed"}
NO_RELEASE = {**BOTH, "release": "relaxed", "both": "relaxed"}


def launched(body: str, clusters: int = CLUSTERS, **options: Any) -> tuple[Report, Words, Words]:
    """The report, and the first and the third buffer."""
    values, flags, sums = (np.zeros(128, np.uint32) for _ in range(3))
    report = run_ptx(
        body, values, flags, sums, grid=(clusters, 1, 1), checks=Check.ALL, raise_on_fault=False,
        **options,
    )  # fmt: skip
    return report, values, sums


def codes(report: Report) -> list[str]:
    return sorted({finding.code for finding in report.findings})


@pytest.mark.parametrize("mode", ["fast", "late", "random"])
def test_a_chain_against_the_order_of_the_clusters(mode: str) -> None:
    report, values, _ = launched(REVERSE.format(**BOTH), mode=mode)
    assert (report.verdict, report.clusters) == ("clean", CLUSTERS), report.summary()
    assert list(values[:CLUSTERS]) == list(range(CLUSTERS, 0, -1))


def test_a_barrier_of_the_whole_grid() -> None:
    report, _, sums = launched(BARRIER.format(**BOTH), 40)
    assert report.verdict == "clean", report.summary()
    assert set(sums[:40]) == {40 * 39 // 2}


def test_more_clusters_than_the_checker_follows_are_no_finding() -> None:
    """What it does not follow it does not accuse; the report says that it is incomplete."""
    report, _, sums = launched(BARRIER.format(**BOTH), 90)
    assert (report.verdict, report.ended) == ("incomplete", True), report.summary()
    assert set(sums[:90]) == {90 * 89 // 2}


@pytest.mark.parametrize("strengths", [NO_ACQUIRE, NO_RELEASE])
@pytest.mark.parametrize("body", [REVERSE, BARRIER])
def test_a_weak_flag_is_a_race(body: str, strengths: dict[str, str]) -> None:
    report, _, _ = launched(body.format(**strengths))
    assert codes(report) == ["race-global"], report.summary()


@pytest.mark.parametrize(
    "release", ["st.release.gpu.global.b32", "red.release.gpu.global.max.u32"]
)
def test_two_clusters_in_turns(release: str) -> None:
    report, values, _ = launched(ROUNDS.replace("{release}", release), 2)
    assert report.verdict == "clean", report.summary()
    assert values[0] == 200


SECOND = START + """
setp.eq.u32 %q4, %r1, 1; @%q4 bra B;
red.release.gpu.global.add.u32 [%p1], 1;
A: ld.relaxed.gpu.global.b32 %r5, [%p1+4]; setp.eq.u32 %q2, %r5, 0; @%q2 bra A;
st.global.b32 [%p0], 1; red.release.gpu.global.add.u32 [%p1], 1;
st.relaxed.gpu.global.b32 [%p1+8], 1; exit;
B: ld.acquire.gpu.global.b32 %r5, [%p1]; setp.eq.u32 %q2, %r5, 0; @%q2 bra B;
st.relaxed.gpu.global.b32 [%p1+4], 1;
C: ld.relaxed.gpu.global.b32 %r5, [%p1+8]; setp.eq.u32 %q2, %r5, 0; @%q2 bra C;
{again} ld.global.b32 %r6, [%p0]; st.global.b32 [%p2], %r6;
"""
"""The value is written between two releases of one flag; the reader has waited for the first."""


def test_who_waited_for_a_release_knows_nothing_of_the_next() -> None:
    report, _, sums = launched(SECOND.format(again="ld.acquire.gpu.global.b32 %r5, [%p1];"), 2)
    assert (report.verdict, sums[0]) == ("clean", 1), report.summary()
    report, _, _ = launched(SECOND.format(again=""), 2)
    assert codes(report) == ["race-global"], report.summary()


def test_a_persistent_scheduler() -> None:
    report, _, pieces = launched(TICKETS, 3)
    assert report.verdict == "clean", report.summary()
    assert list(pieces[:40]) == list(range(40))


def test_the_last_cluster_adds_up_the_parts() -> None:
    report, _, sums = launched(LAST)
    assert report.verdict == "clean", report.summary()
    assert sums[0] == CLUSTERS * (CLUSTERS - 1) // 2
    broken, _, _ = launched(LAST.replace("fence.acq_rel.gpu;", ""))
    assert codes(broken) == ["race-global"]


def test_a_flag_that_nobody_sets_is_a_livelock() -> None:
    report, _, _ = launched(NEVER, max_idle_instructions=200_000)
    (finding,) = report.findings
    assert (finding.code, finding.ctaid) == ("livelock", (0, 0, 0))


def test_no_more_clusters_are_alive_than_fit_on_the_chip() -> None:
    """A barrier of more never opens; CTAs of 1024 threads are two for each of 148 SMs."""
    one = np.zeros(1, np.uint32)
    body = """mov.u32 %r2, %nctaid.x; mov.u32 %r40, %tid.x; setp.ne.u32 %q15, %r40, 0; @%q15 exit;
    atom.acq_rel.gpu.global.add.u32 %r5, [%p0], 1;
    W: ld.acquire.gpu.global.b32 %r5, [%p0]; setp.lt.u32 %q2, %r5, %r2; @%q2 bra W;"""
    report = run_ptx(body, one, grid=(298, 1, 1), block=1024, raise_on_fault=False)
    assert codes(report) == ["livelock"]
    assert one[0] == 296
