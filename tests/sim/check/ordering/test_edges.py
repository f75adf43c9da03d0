"""Ordering by barriers: every edge with a program that has it and one that lacks it.

A correct program is clean at once, late and in random order; a broken one is reported in each of
them, since the order of events does not depend on when they land. The edges of the ISA and where
they are tested:

| edge | module |
|---|---|
| mbarrier arrive and wait, named barriers, __syncthreads, cluster barriers | here |
| relaxed signals, fences, scopes, flags in global and shared memory | test_flags |
| complete_tx, bulk groups, cp.async, st.async, proxy fences | test_copies |
| tcgen05 commit, wait::st, wait::ld, fences, alloc and dealloc, pipelining | test_tcgen05 |
| initialisation, phases, parity, transaction bytes of mbarriers | test_mbarrier_rules |
| what must be over at the exit of a warp, CTA or cluster | test_exit_rules |
"""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.check.edges import (
    ARRIVE,
    CLUSTER,
    MODES,
    RANKS,
    READ,
    WAIT,
    WRITE,
    Edge,
    both_sides,
)
from tests.sim.isa.memory.programs import aligned, only, wait

BY_BARRIER = ("warp 1 of CTA 0", "warp 0 of CTA 0", "arrive (release)", "wait (acquire)")
EDGES = (
    Edge(
        "mbarrier arrive and wait",
        only(0, WRITE + ARRIVE, "A") + only(32, "EDGE" + READ, "B"),
        WAIT,
        says=BY_BARRIER,
        lines=("ld.shared", "st.shared"),
    ),
    Edge(
        "mbarrier, read then write",
        only(0, READ + ARRIVE, "A") + only(32, "EDGE" + WRITE, "B"),
        WAIT,
        says=BY_BARRIER,
        lines=("st.shared", "ld.shared"),
    ),
    Edge(
        "named barrier, write then read",
        only(0, WRITE, "A") + "EDGE" + only(32, READ, "B"),
        "barrier.sync 3, 64;",
    ),
    Edge(
        "named barrier, read then write",
        only(0, READ, "A") + "EDGE" + only(32, WRITE, "B"),
        "barrier.sync 3, 64;",
    ),
    Edge(
        "named barrier, arrive and sync",
        only(0, WRITE, "A")
        + "setp.lt.u32 %q1, %r3, 32; @%q1 bra FIRST; EDGE"
        + only(32, READ, "B")
        + "bra DONE; FIRST: barrier.arrive 2, 64; DONE:",
        "barrier.sync 2, 64;",
        broken="barrier.arrive 2, 64;",
        says=BY_BARRIER,
    ),
    Edge(
        "__syncthreads",
        only(0, WRITE, "A") + "EDGE" + only(32, READ, "B"),
        "bar.sync 0;",
        says=BY_BARRIER,
    ),
    Edge(
        "cluster barrier over distributed shared memory",
        RANKS
        + CLUSTER
        + "@%q0 st.shared.b32 [%r1+16], 7; EDGE @%q1 ld.shared::cluster.b32 %r6, [%r22+16];"
        + CLUSTER,
        CLUSTER,
        says=("warp 0 of CTA 1", "warp 0 of CTA 0"),
        block=1,
        ctas=2,
    ),
    Edge(
        "cluster barrier over global memory",
        RANKS + "@%q0 st.global.b32 [%p1], 7; EDGE @%q1 ld.global.b32 %r6, [%p1];" + CLUSTER,
        CLUSTER,
        code="race-global",
        block=1,
        ctas=2,
    ),
    Edge(
        "cluster barrier, relaxed arrival",
        RANKS + CLUSTER + "@%q0 st.shared.b32 [%r1+16], 7; EDGE barrier.cluster.arrive.relaxed; "
        "barrier.cluster.wait;"
        "@%q1 ld.shared::cluster.b32 %r6, [%r22+16];" + CLUSTER,
        "fence.acq_rel.cluster;",
        block=1,
        ctas=2,
    ),
    Edge(
        "remote arrival",
        RANKS
        + CLUSTER
        + "@%q1 bra PEER;"
        + wait("%r1", 0, "W")
        + "ld.shared.b32 %r6, [%r1+16]; bra DONE;"
        "PEER: st.shared::cluster.b32 [%r22+16], 7; "
        "mbarrier.arrive.EDGE.cluster.shared::cluster.b64 _, [%r22]; DONE:" + CLUSTER,
        "release",
        broken="relaxed",
        says=("warp 0 of CTA 0", "warp 0 of CTA 1"),
        block=1,
        ctas=2,
    ),
    Edge(
        "global memory inside a CTA",
        only(0, "st.global.b32 [%p1], 7;", "A")
        + "EDGE"
        + only(32, "ld.global.b32 %r6, [%p1];", "B"),
        "bar.sync 0;",
        code="race-global",
    ),
)


@both_sides(EDGES)
def test_an_edge_orders_and_its_absence_is_a_race(case: Edge, mode: str, seed: int) -> None:
    case.hold(mode, seed)


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_reads_of_many_warps_do_not_alarm(mode: str, seed: int) -> None:
    """Each of eight readers must be remembered: the last barrier leaves out one of them."""
    body = only(0, WRITE, "A") + "bar.sync 0;" + READ + "EDGE" + only(32, WRITE, "B")
    some = "setp.lt.u32 %q1, %r3, 224; @%q1 bar.sync 1, 224;"
    Edge("broadcast", body, "bar.sync 0;", broken=some, block=256).hold(mode, seed)


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_halves_of_a_word_are_told_apart(mode: str, seed: int) -> None:
    """Two warps write a half each; a third one that is ordered after the second only is found."""
    body = (
        "cvt.u16.u32 %h1, %r3;"
        + only(0, "st.shared.b16 [%r1+16], %h1;", "A")
        + "EDGE"
        + only(32, "st.shared.b16 [%r1+18], %h1;", "B")
        + "setp.ge.u32 %q1, %r3, 32; @%q1 bar.sync 1, 64;"
        + only(64, READ, "C")
    )
    Edge("halves", body, "bar.sync 0;", block=96).hold(mode, seed)


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_a_generation_of_a_barrier_has_its_own_members(mode: str, seed: int) -> None:
    """Warp 3 meets warp 2 at the barrier at which warp 2 met nobody else; warp 0 was there
    earlier."""
    roles = (
        "shr.u32 %r4, %r3, 5; setp.eq.u32 %q0, %r4, 0; setp.eq.u32 %q1, %r4, 1; "
        "setp.eq.u32 %q2, %r4, 2;"
    )
    body = (
        roles + "@%q0 bra W0; @%q1 bra W1; @%q2 bra W2; ld.volatile.shared.b32 %r6, [%r1+64];"
        "bar.sync 2, 64;"
        + only(96, READ, "R")
        + "bra DONE; W0:"
        + only(0, WRITE, "A")
        + "bar.arrive 2, 64; bra DONE; W1: bar.sync 2, 64;"
        + only(32, "atom.relaxed.cta.shared.exch.b32 %r7, [%r1+64], 1;", "F")
        + "bra DONE; W2: SPIN: ld.relaxed.cta.shared.b32 %r6, [%r1+64]; "
        "setp.ne.u32 %q3, %r6, 1; @%q3 bra SPIN;"
        "EDGE bar.arrive 2, 64; DONE:"
    )
    start = only(0, "st.shared.b32 [%r1+64], 0;", "Z") + "bar.sync 0;"
    body = body.replace(
        "ld.volatile.shared.b32 %r6, [%r1+64];",
        "SPIN3: ld.relaxed.cta.shared.b32 %r6, [%r1+64]; setp.ne.u32 %q3, %r6, 1; @%q3 bra SPIN3;",
    )
    report = Edge("members", start + body, "", block=128).run("", mode, seed)
    assert {finding.code for finding in report.findings} == {"race-shared"}


@pytest.mark.parametrize(("where", "expected"), [("%r20", "clean"), ("0", "findings")])
def test_clusters_of_a_grid_are_not_ordered(where: str, expected: str) -> None:
    """Each cluster writes its own word, or all of them the same one."""
    out = aligned(64, np.uint32)
    body = (
        f"mov.u32 %r20, %ctaid.x; mov.u32 %r21, {where}; mul.wide.u32 %rd1, %r21, 64;"
        "add.s64 %rd1, %rd1, %p0; st.global.b32 [%rd1], %r20;"
    )
    report = run_ptx(body, out, checks=Check.RACES, block=1, grid=(4, 1, 1))
    assert report.verdict == expected
    assert {f.code for f in report.findings} <= {"race-global"}
    assert all("another cluster" in f.message for f in report.findings)
