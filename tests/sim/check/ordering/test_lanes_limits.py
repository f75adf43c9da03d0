"""Lanes as threads: clusters that have finished, limits of what is remembered, correct programs."""

from __future__ import annotations

import numpy as np
import pytest

from testing.harness import run_ptx
from tests.sim.check.edges import MODES, Edge
from tests.sim.check.ordering.test_lanes import (
    ARRIVE,
    CHECKS,
    LD,
    LD_NEXT,
    MEET,
    PLACE,
    ST,
    WAIT,
    WAIT_BACK,
    one,
    warp,
)
from tests.sim.isa.memory.programs import aligned, only, wait

FINISHED = (
    "mov.u32 %r1, %ctaid.x; mov.u32 %r3, %tid.x; mul.wide.u32 %rd7, %r3, 4; "
    "add.s64 %rd7, %rd7, %p0; setp.ne.u32 %q4, %r1, 0; @%q4 bra LATER;"
    "st.global.b32 [%rd7], 3; EDGE elect.sync %r7|%q1, -1; "
    "@%q1 red.release.gpu.global.add.u32 [%p0+128], 1; bra DONE;"
    "LATER: ld.acquire.gpu.global.b32 %r5, [%p0+128]; ld.global.b32 %r6, [%rd7]; DONE:"
)


@pytest.mark.parametrize(("edge", "codes"), [(MEET, set()), ("", {"race-global"})])
def test_lanes_of_a_cluster_that_has_finished(edge: str, codes: set[str]) -> None:
    """One lane releases a flag in global memory; a later cluster acquires it."""
    body, out = FINISHED.replace("EDGE", edge).replace(";", ";\n"), aligned(64, np.uint32)
    report = run_ptx(body, out, grid=(2, 1, 1), checks=CHECKS, raise_on_fault=False)
    assert {finding.code for finding in report.findings} == codes


APART = (
    "and.b32 %r8, %r3, 1; shl.b32 %r8, %r8, 3; add.u32 %r9, %r1, %r8; "
    "mbarrier.arrive.shared.b64 %rd9, [%r9];"
)
COUNT_512 = (
    "mbarrier.inval.shared.b64 [%r1]; mbarrier.inval.shared.b64 [%r1+8]; "
    "mbarrier.init.shared.b64 [%r1], 512; mbarrier.init.shared.b64 [%r1+8], 512;"
)


@pytest.mark.parametrize(("block", "verdict"), [(768, "clean"), (1024, "incomplete")])
def test_more_lanes_that_signal_one_by_one_than_are_remembered(block: int, verdict: str) -> None:
    """Even and odd lanes of a warp arrive at different barriers; 768 lanes have a dimension."""
    body = only(0, COUNT_512, "RESIZED") + "bar.sync 0;" + APART
    assert Edge("many", body, "", block=block, checks=CHECKS).run("", "fast", 0).verdict == verdict


COUNT_32 = (
    "mbarrier.inval.shared.b64 [%r1]; mbarrier.init.shared.b64 [%r1], 32; "
    "fence.mbarrier_init.release.cluster;"
)
CLEAN = (
    ("each lane arrives", warp(0, ST + ARRIVE, "A") + warp(1, WAIT + LD, "B")),
    (
        "halves arrive one after the other",
        warp(
            0, ST + "setp.lt.u32 %q5, %r8, 16; @%q5 bra LOW;" + ARRIVE + "bra A; LOW:" + ARRIVE, "A"
        )
        + warp(1, WAIT + LD, "B"),
    ),
    (
        "every lane waits by itself",
        warp(0, ST + ARRIVE, "A")
        + warp(
            1,
            PLACE
            + "setp.lt.u32 %q5, %r8, 16; @%q5 bra LOW;"
            + WAIT
            + "ld.shared.b32 %r5, [%r6+64]; bra B; LOW:"
            + wait("%r1", 0, "W2")
            + "ld.shared.b32 %r5, [%r6+64];",
            "B",
        ),
    ),
    (
        "a lane publishes what it wrote itself",
        warp(
            0,
            PLACE
            + "setp.eq.u32 %q4, %r8, 7; @!%q4 bra A; st.shared.b32 [%r1+64], 3;"
            + ARRIVE.replace("arrive.", "arrive.release.cta.").replace("[%r1]", "[%r1], 32"),
            "A",
        )
        + warp(1, WAIT + "ld.shared.b32 %r5, [%r1+64];", "B"),
    ),
    (
        "each lane rereads its own word",
        warp(0, ST + "ld.shared.b32 %r5, [%r6+64];" + ST + MEET, "A"),
    ),
    ("a barrier of the CTA is a meeting", warp(0, ST, "A") + "bar.sync 0;" + warp(0, LD_NEXT, "B")),
    (
        "one lane waits and signals for itself",
        warp(0, ST + ARRIVE, "A")
        + warp(1, one(WAIT + "mbarrier.arrive.shared.b64 %rd9, [%r1+8];", "X"), "B")
        + warp(0, WAIT_BACK + ST, "C"),
    ),
    ("lanes store one word at once", warp(0, "st.shared.b32 [%r1+64], 1;", "A")),
)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize(("name", "body"), CLEAN, ids=[name for name, _ in CLEAN])
def test_lanes_that_need_not_meet(name: str, body: str, mode: str, seed: int) -> None:
    start = only(0, COUNT_32, "RESIZED") + "bar.sync 0;"
    report = Edge(name, start + body, "", checks=CHECKS).run("", mode, seed)
    assert (report.verdict, report.findings) == ("clean", ())
