"""Lanes of one warp, `Check.STRICT_LANES`: each signals and waits for itself until they meet."""

from __future__ import annotations

from typing import Any

import pytest

from sm100sim.options import Check
from tests.sim.check.edges import CLUSTER, MODES, RANKS, Edge, both_sides
from tests.sim.isa.memory.programs import wait

CHECKS = Check.RACES | Check.STRICT_LANES
MEET = "bar.warp.sync -1;"
PLACE = "and.b32 %r8, %r3, 31; shl.b32 %r6, %r8, 2; add.u32 %r6, %r6, %r1;"
"""%r8: the lane; %r6+64: a word of its own behind the barriers."""
ST = PLACE + "st.shared.b32 [%r6+64], 7;"
LD = PLACE + "ld.shared.b32 %r5, [%r6+64];"
LD_NEXT = "xor.b32 %r9, %r6, 4; ld.shared.b32 %r5, [%r9+64];"
"""The word of the neighbour."""
ARRIVE = "mbarrier.arrive.shared.b64 %rd9, [%r1];"
RELAXED = ARRIVE.replace("arrive.", "arrive.relaxed.cta.")
WAIT = wait("%r1", 0, "W")
WAIT_BACK = wait("%r1+8", 0, "V")
FILL = (
    "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1+8], 128;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+64], "
    "[%p0], 128, [%r1+8];"
)
DUMP = (
    "cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r1+64], 128; cp.async.bulk.commit_group;"
)
PROXY = "fence.proxy.async.shared::cta;"
LEFT = "cp.async.bulk.wait_group 0;"
GLOBAL = PLACE + "mul.wide.u32 %rd7, %r8, 4; add.s64 %rd7, %rd7, %p1;"


def warp(number: int, body: str, label: str) -> str:
    """`body` for one warp of the CTA (uses %q12 and %r41)."""
    return (
        f"shr.u32 %r41, %r3, 5; setp.ne.u32 %q12, %r41, {number}; @%q12 bra {label}; "
        f"{body} {label}:"
    )


def one(body: str, label: str) -> str:
    """`body` for one elected lane of the warp (uses %q1 and %r7)."""
    return f"elect.sync %r7|%q1, -1; @!%q1 bra {label}; {body} {label}:"


def pair(before: str, after: str) -> str:
    """Warp 0 up to its lanes' meeting and one lane's arrival; warp 1 behind the wait."""
    return warp(0, before + "EDGE" + one(ARRIVE, "X"), "A") + warp(1, WAIT + after, "B")


def case(
    name: str, body: str, edge: str = MEET, *, says: str = "bar.warp.sync", **more: Any
) -> Edge:
    """A program in which lanes have to meet."""
    return Edge(name, body, edge, says=(says,), **{"checks": CHECKS, **more})


SPIN = "SPIN: ld.acquire.{0} %r5, {1}; setp.ne.u32 %q6, %r5, 1; @%q6 bra SPIN;"
PUBLISHED = (
    case(
        "writes of all, arrive of one",
        pair(ST, LD),
        says="between the accesses of several lanes of that warp and the signal",
        lines=("st.shared", "ld.shared"),
    ),
    case("reads of all, arrive of one", pair(LD, ST), lines=("st.shared", "ld.shared")),
    case(
        "a word read by all, arrive of one",
        pair("ld.shared.b32 %r5, [%r1+64];", "st.shared.b32 [%r1+64], 1;"),
    ),
    case(
        "a write of lane 5, arrive of lane 0",
        pair(
            PLACE + "setp.eq.u32 %q4, %r8, 5; @%q4 st.shared.b32 [%r1+64], 1;",
            "ld.shared.b32 %r5, [%r1+64];",
        ),
    ),
    case(
        "elect, vote and shfl order no memory",
        pair(ST, LD),
        broken=(
            "setp.eq.u32 %q4, %r8, 0; vote.sync.ballot.b32 %r9, %q4, -1; "
            "shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;"
        ),
    ),
    case(
        "a meeting of half the warp",
        pair(ST + "setp.lt.u32 %q5, %r8, 16;", LD),
        broken="@%q5 bar.warp.sync 0xffff;",
    ),
    case("a meeting before the writes", pair("", LD), ST + MEET, broken=MEET + ST),
    case(
        "a fence of one lane, a relaxed arrive",
        warp(0, ST + "EDGE" + one("fence.acq_rel.cta;" + RELAXED, "X"), "A")
        + warp(1, WAIT + LD, "B"),
    ),
    case(
        "a fence of all lanes, a relaxed arrive of one",
        warp(0, ST + "EDGE" + one(RELAXED, "X"), "A") + warp(1, WAIT + LD, "B"),
        MEET + "fence.acq_rel.cta;",
        broken="fence.acq_rel.cta;" + MEET,
    ),
    case(
        "st.release of one",
        warp(
            0,
            ST + "EDGE" + one("mov.u32 %r5, 1; st.release.cta.shared.b32 [%r1+32], %r5;", "X"),
            "A",
        )
        + warp(1, SPIN.format("cta.shared.b32", "[%r1+32]") + LD, "B"),
        checks=CHECKS,
    ),
    case(
        "red.release of one, writes to global",
        warp(
            0,
            GLOBAL
            + "st.global.b32 [%rd7], 3; EDGE"
            + one("red.release.gpu.global.add.u32 [%p1+128], 1;", "X"),
            "A",
        )
        + warp(
            1,
            SPIN.format("gpu.global.b32", "[%p1+128]") + GLOBAL + "ld.global.b32 %r5, [%rd7];",
            "B",
        ),
        code="race-global",
    ),
    case(
        "lanes reach a cluster barrier one after the other",
        RANKS + CLUSTER + "@%q1 bra PEER;" + ST + "setp.ne.u32 %q4, %r8, 0; @%q4 bra REST;"
        "barrier.cluster.arrive; bra MET; REST: barrier.cluster.arriveEDGE; "
        "MET: barrier.cluster.wait; bra DONE; PEER:"
        + CLUSTER
        + PLACE
        + "shl.b32 %r9, %r8, 2; add.u32 %r9, %r9, %r22; ld.shared::cluster.b32 %r5, [%r9+64]; DONE:"
        + CLUSTER,
        "",
        broken=".relaxed",
        block=32,
        ctas=2,
    ),
    case(
        "a remote arrive of one",
        RANKS
        + CLUSTER
        + "@%q1 bra PEER;"
        + WAIT
        + LD
        + "bra DONE; PEER:"
        + PLACE
        + "shl.b32 %r9, %r8, 2; add.u32 %r9, %r9, %r22;"
        "st.shared::cluster.b32 [%r9+64], 7; EDGE"
        + one("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];", "X")
        + "DONE:"
        + CLUSTER,
        block=32,
        ctas=2,
    ),
)
ACQUIRED = (
    case(
        "a wait of one, reads of all",
        warp(0, ST + MEET + one(ARRIVE, "X"), "A") + warp(1, one(WAIT, "Y") + "EDGE" + LD, "B"),
        says="bar.warp.sync after the wait, which another lane of this warp did",
        lines=("st.shared", "ld.shared"),
    ),
    case(
        "a copy waited for by one",
        warp(0, one(FILL + WAIT_BACK, "X") + "EDGE" + LD, "A"),
        block=32,
        says="bar.warp.sync after the wait",
    ),
    case(
        "a store read, which only its thread knows",
        warp(0, one(DUMP, "X") + "cp.async.bulk.wait_group.read 0; EDGE" + ST + LEFT, "A"),
        block=32,
        says="bar.warp.sync after the wait",
    ),
    case(
        "a flag read by one",
        warp(
            0, ST + MEET + one("mov.u32 %r5, 1; st.release.cta.shared.b32 [%r1+32], %r5;", "X"), "A"
        )
        + warp(1, one(SPIN.format("cta.shared.b32", "[%r1+32]"), "Y") + "EDGE" + LD, "B"),
        says="bar.warp.sync after the wait",
    ),
    case(
        "a fence of a lane that read no flag",
        warp(
            0, ST + MEET + one("mov.u32 %r5, 1; st.release.cta.shared.b32 [%r1+32], %r5;", "X"), "A"
        )
        + warp(
            1,
            one(SPIN.format("cta.shared.b32", "[%r1+32]").replace("acquire", "relaxed"), "Y")
            + "EDGE"
            + LD,
            "B",
        ),
        "fence.acq_rel.cta;" + MEET,
        says="an arrive (release)",
        broken=MEET + PLACE + "setp.ne.u32 %q4, %r8, 0; @%q4 fence.acq_rel.cta;",
    ),
)
ISSUED = (
    case(
        "reads of all, copy of one",
        warp(0, LD + "EDGE" + one(FILL + WAIT_BACK, "X"), "A"),
        block=32,
        says="bar.warp.sync between the loads of several lanes and the one that issues",
    ),
    case(
        "writes of all, copy of one",
        warp(0, ST + PROXY + "EDGE" + one(DUMP + LEFT, "X"), "A"),
        block=32,
        says="bar.warp.sync between the stores of several lanes",
    ),
    case(
        "a proxy fence of one before the meeting",
        warp(0, ST + "EDGE" + one(DUMP + LEFT, "X"), "A"),
        PROXY + MEET,
        broken=one(PROXY, "P") + MEET,
        block=32,
    ),
)
WITHIN = (
    case(
        "a lane reads its neighbour's word",
        ST + "EDGE" + LD_NEXT,
        block=32,
        says="bar.warp.sync between the lanes",
        lines=("st.shared", "ld.shared"),
    ),
    case(
        "a lane overwrites its neighbour's word",
        LD + "EDGE xor.b32 %r9, %r6, 4; st.shared.b32 [%r9+64], 1;",
        block=32,
    ),
    case(
        "neighbours in one word",
        "shl.b32 %r6, %r3, 1; add.u32 %r6, %r6, %r1; cvt.u16.u32 %h1, %r3; "
        "st.shared.b16 [%r6+64], %h1; EDGE"
        "xor.b32 %r9, %r6, 2; ld.shared.b16 %h2, [%r9+64];",
        block=32,
    ),
    case(
        "half the warp meets",
        "setp.ge.u32 %q5, %r3, 16; @%q5 bra X;" + ST + "EDGE" + LD_NEXT + "X:",
        "bar.warp.sync 0xffff;",
        block=32,
    ),
    case(
        "a word that one lane wrote",
        PLACE
        + (
            "setp.eq.u32 %q4, %r8, 3; @%q4 st.shared.b32 [%r1+64], 1; "
            "EDGE ld.shared.b32 %r5, [%r1+64];"
        ),
        block=32,
    ),
    case(
        "ldmatrix of rows that lanes wrote",
        "shl.b32 %r6, %r3, 4; add.u32 %r6, %r6, %r1; "
        "st.shared.v4.b32 [%r6+64], {%r1, %r1, %r1, %r1}; EDGE"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r6+64];",
        block=32,
    ),
)


@both_sides(PUBLISHED + ACQUIRED + ISSUED + WITHIN)
def test_lanes_have_to_meet(case: Edge, mode: str, seed: int) -> None:
    case.hold(mode, seed)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("case", PUBLISHED + ACQUIRED + WITHIN, ids=lambda case: case.name)
def test_only_the_strict_check_looks_at_lanes(case: Edge, mode: str, seed: int) -> None:
    report = Edge(case.name, case.body, "", block=case.block, ctas=case.ctas).run(
        case.broken, mode, seed
    )
    assert report.verdict == "clean"
