"""Several threads leave behind and report what one does: values, counts, findings, faults."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sm100sim.crew import crew
from sm100sim.crew.results import merged
from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import run_ptx

CLUSTERS = 24
WORDS = 32 * CLUSTERS

HERE = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 32, %r2;
mul.wide.u32 %rd1, %r3, 4; add.u64 %rd2, %p0, %rd1;"""
"""%rd2: the thread's word; %r1: the CTA."""

OWN = HERE + "mul.lo.u32 %r4, %r3, 3; st.global.b32 [%rd2], %r4;"
TWICE = HERE + "ld.global.b32 %r4, [%rd2]; add.u32 %r4, %r4, %r3; st.global.b32 [%rd2], %r4;"
STRIDE = HERE + """
L: ld.global.b32 %r4, [%rd2]; xor.b32 %r4, %r4, %r3; st.global.b32 [%rd2], %r4;
mov.u32 %r5, %nctaid.x; mul.lo.u32 %r6, %r5, 32; mul.wide.u32 %rd3, %r6, 4;
add.u64 %rd2, %rd2, %rd3; add.u32 %r3, %r3, %r6; setp.lt.u32 %q1, %r3, 768; @%q1 bra L;"""
"""A persistent loop over the words, for grids smaller than 24."""

NEIGHBOUR = HERE + "st.global.b32 [%rd2], %r1; mov.u32 %r5, 7; st.global.b32 [%rd2+128], %r5;"
"""Also writes the words of the next cluster."""
READS = HERE + "ld.global.b32 %r5, [%rd2+128]; st.global.b32 [%rd2], %r5;"
ALL_ONE = HERE + "st.global.b32 [%p0], %r1;"
INDEX = HERE + "setp.eq.u32 %q1, %r1, {at}; @!%q1 bra GO; {body} GO:"
FAULT = INDEX.format(at=9, body="trap;") + "st.global.b32 [%rd2], %r1;"
FAULTS = "trap;"
NOBODY = INDEX.format(at=5, body="bar.sync 1, 64;") + "st.global.b32 [%rd2], %r1;"
POLL = INDEX.format(at=7, body="P: add.u32 %r9, %r9, 1; bra P;") + "st.global.b32 [%rd2], %r1;"
UNSET = (
    INDEX.format(at=3, body="\nadd.u32 %r10, %r11, 1;\n")
    + INDEX.format(at=6, body="\nadd.u32 %r12, %r13, 1;\n").replace("GO", "TO")
    + "\nadd.u32 %r14, %r15, 1;\nst.global.b32 [%rd2], %r14;"
)
PAIR = HERE + """
mov.u32 %r5, %cluster_ctarank; xor.b32 %r6, %r5, 1; mov.u64 %rd4, dyn;
cvta.to.shared.u64 %rd4, %rd4; cvt.u32.u64 %r7, %rd4; mul.lo.u32 %r8, %r2, 4; add.u32 %r7, %r7, %r8;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mapa.shared::cluster.u32 %r9, %r7, %r6; st.shared::cluster.b32 [%r9], %r3;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.shared.b32 %r10, [%r7]; st.global.b32 [%rd2], %r10;"""
DECLARED = """.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 form[4] = {37, 100, 32, 0};
"""
PRINTS = HERE + """.local .align 8 .b8 depot[8]; setp.ne.u32 %q1, %r2, 0; @%q1 exit;
st.local.b32 [depot], %r1; mov.b64 %rd4, depot; cvta.local.u64 %rd4, %rd4; mov.b64 %rd3, form;
{ .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd3; st.param.b64 [b], %rd4;
call.uni (r), vprintf, (a, b); ld.param.b32 %r9, [r]; }"""
SUM = HERE + "red.global.add.u32 [%p0], %r1;"
ORDERED = HERE + "atom.global.exch.b32 %r5, [%p0+3072], %r1; st.global.b32 [%rd2], %r5;"


@dataclass(frozen=True)
class Program:
    """A body, how it is launched, and the verdict that one thread gives."""

    body: str
    verdict: str = "clean"
    grid: int = CLUSTERS
    launch: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = (("checks", Check.ALL),)


def _with(**options: Any) -> tuple[tuple[str, Any], ...]:
    return tuple({"checks": Check.ALL, **options}.items())


PROGRAMS = {
    "dense": Program(OWN),
    "no checks": Program(OWN, options=()),
    "in place": Program(TWICE),
    "persistent": Program(STRIDE, grid=5),
    "random": Program(STRIDE, grid=5, options=_with(mode="random", seed=11)),
    "late": Program(STRIDE, grid=3, options=_with(mode="late", seed=2)),
    "pair": Program(
        PAIR, launch=(("cluster", (2, 1, 1)), ("smem", 256),
                      ("shared", ".extern .shared .align 1024 .b8 dyn[];")),
    ),
    "to the letter": Program(STRIDE, grid=5, options=_with(checks=Check.ALL | Check.TO_THE_LETTER)),
    "traced": Program(UNSET, "findings", options=_with(trace_cluster=6)),
    "neighbours write": Program(NEIGHBOUR, "findings"),
    "neighbours write, unwatched": Program(NEIGHBOUR, options=()),
    "neighbours read": Program(READS, "findings"),
    "all write one word": Program(ALL_ONE, "findings"),
    "one traps": Program(FAULT, "findings"),
    "all trap": Program(FAULTS, "findings"),
    "deadlock": Program(NOBODY, "findings"),
    "livelock": Program(POLL, "findings", options=_with(max_idle_instructions=5000)),
    "limit": Program(OWN, "findings", options=_with(max_instructions=99)),
    "three findings": Program(UNSET, "findings"),
    "two findings kept": Program(UNSET, "findings", options=_with(max_findings=2)),
    "no finding kept": Program(UNSET, "incomplete", options=_with(max_findings=0)),
    "prints": Program(PRINTS, launch=(("shared", DECLARED),), options=_with(print_to=len)),
    "sum": Program(SUM),
    "exchange": Program(ORDERED),
}  # fmt: skip
IGNORED = {"seconds", "prepare_seconds", "options", "places"}


WORDS_HERE = np.zeros(WORDS + 32, np.uint32)
"""Always the same, because messages name addresses."""


def launched(program: Program, threads: int) -> tuple[npt.NDArray[np.uint32], Report]:
    """The words that the program leaves, and its report."""
    words = WORDS_HERE
    words[:] = np.arange(words.size)
    report = run_ptx(
        program.body, words, grid=(program.grid, 1, 1), block=32, threads=threads,
        raise_on_fault=False, **dict(program.launch), **dict(program.options),
    )  # fmt: skip
    return words.copy(), report


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_nothing(name: str) -> None:
    program = PROGRAMS[name]
    words, report = launched(program, 1)
    assert report.verdict == program.verdict, report.summary()
    for threads in (2, 3):
        others, other = launched(program, threads)
        assert np.array_equal(words, others)
        for field in fields(report):
            if field.name not in IGNORED:
                assert getattr(other, field.name) == getattr(report, field.name), field.name


def test_clusters_print_in_their_order() -> None:
    _, report = launched(PROGRAMS["prints"], 2)
    assert report.output.split() == [str(k) for k in range(CLUSTERS)]


def test_the_traced_cluster_marks_only_what_was_first_seen_there() -> None:
    _, report = launched(PROGRAMS["traced"], 2)
    marks = [event for event in report.events if event.kind.name == "FINDING"]
    assert [report.findings[mark.a].ctaid for mark in marks] == [(6, 0, 0)]


def test_a_cluster_with_a_value_that_it_should_not_have_seen_does_not_run_for_ever() -> None:
    """In one thread the second cluster reads what the first one wrote, and stops."""
    body = HERE + """setp.eq.u32 %q1, %r1, 0; @!%q1 bra W;
    mov.u32 %r4, 0; D: add.u32 %r4, %r4, 1; setp.lt.u32 %q2, %r4, 200000; @%q2 bra D;
    st.global.b32 [%p0+3072], 7777; bra OUT;
    W: ld.global.b32 %r5, [%p0+3072]; setp.ne.u32 %q3, %r5, 7777;
    L: st.global.b32 [%rd2], %r4; @%q3 bra L;
    OUT:"""
    words, report = launched(Program(body, grid=2, options=()), 2)
    assert (report.verdict, report.clusters, words[768]) == ("clean", 2, 7777)


def test_a_launch_that_was_taken_back_stays_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters that met will meet again; one that trapped may not trap again."""
    tried = []
    together = crew.Crew._together

    def spy(self: crew.Crew, count: int) -> Any:
        tried.append(count)
        return together(self, count)

    monkeypatch.setattr(crew.Crew, "_together", spy)
    for body, expected in ((NEIGHBOUR, [2]), (FAULT, [2, 2])):
        tried.clear()
        for _ in range(2):
            launched(Program(body + "mov.u32 %r50, 1;"), 2)
        assert tried == expected


def test_clusters_run_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every machine gets a part of a long launch."""
    seen: list[list[int]] = []

    def spy(parts: Any, most: int) -> Any:
        seen.append([part.totals.clusters_done for part in parts])
        return merged(parts, most)

    monkeypatch.setattr(crew, "merged", spy)
    loop = "mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; setp.lt.u32 %q1, %r9, 20000; @%q1 bra L;"
    launched(Program(loop + OWN, options=()), 2)
    assert len(seen) == 1
    assert sum(seen[0]) == CLUSTERS
    assert all(part > 2 for part in seen[0])


def test_a_cluster_that_touches_many_pages_forgets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two clusters reads the other's word, and then 600 pages more."""
    kept: list[bool] = []
    together = crew.Crew._together

    def spy(self: crew.Crew, count: int) -> Any:
        results = together(self, count)
        kept.append(results is not None)
        return results

    monkeypatch.setattr(crew.Crew, "_together", spy)
    body = HERE + """st.global.b32 [%rd2], 7; xor.b32 %r4, %r1, 1; mul.wide.u32 %rd3, %r4, 128;
    add.u64 %rd3, %p0, %rd3; ld.global.b32 %r5, [%rd3]; mov.u32 %r6, 0; mov.u64 %rd4, %p0;
    L: add.u64 %rd4, %rd4, 4096; ld.global.b32 %r7, [%rd4]; add.u32 %r6, %r6, 1;
    setp.lt.u32 %q1, %r6, 600; @%q1 bra L;"""
    words = np.zeros(601 * 1024, np.uint32)
    report = run_ptx(body, words, grid=(2, 1, 1), block=32, threads=2)
    assert (report.verdict, kept) == ("clean", [False])
