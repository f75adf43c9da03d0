"""Asynchronous copies and proxies: TMA and bulk copies, cp.async, st.async, fence.proxy.async."""

from __future__ import annotations

import pytest

from tests.sim.check.edges import (
    CLUSTER,
    LOAD,
    MODES,
    RANKS,
    READ,
    REFILL,
    STORE,
    WRITE,
    Edge,
    both_sides,
)
from tests.sim.isa.memory.programs import only, wait

WAIT = wait("%r1", 0, "W")
LAST = wait("%r1", 0, "V")
CP_ASYNC = "cp.async.ca.shared.global [%r1+16], [%p0], 16;"
NOINC = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];"
DRAIN = "cp.async.bulk.wait_group 0;"
ST_ASYNC = (
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r22+16], 7, [%r22]; bra DONE;"
)

EDGES = (
    Edge(
        "bulk load, read",
        only(0, LOAD + "EDGE" + READ + LAST),
        WAIT,
        block=32,
        says=("the asynchronous copy issued by warp 0 of CTA 0", "mbarrier"),
        lines=("cp.async.bulk", "ld.shared"),
    ),
    Edge(
        "bulk load, refill before the slot is released",
        only(0, LOAD, "A")
        + WAIT
        + only(32, READ, "B")
        + "EDGE"
        + only(0, REFILL, "C")
        + wait("%r1+8", 0, "V"),
        "bar.sync 0;",
        lines=("cp.async.bulk", "ld.shared"),
    ),
    Edge(
        "bulk load, two fills of one slot",
        only(0, LOAD + "EDGE" + REFILL + LAST + wait("%r1+8", 0, "V8")),
        WAIT,
        block=32,
        lines=("cp.async.bulk", "cp.async.bulk"),
    ),
    Edge(
        "generic write, bulk store",
        only(0, WRITE + "EDGE" + STORE + DRAIN),
        "fence.proxy.async.shared::cta;",
        block=32,
        says=("fence.proxy.async.shared::cta", "generic proxy then async proxy"),
        lines=("cp.async.bulk.global", "st.shared.b32"),
    ),
    Edge(
        "the space of a proxy fence",
        only(0, WRITE + "fence.proxy.async.EDGE;" + STORE + DRAIN),
        "shared::cta",
        broken="global",
        says=("fence.proxy.async.shared::cta",),
        block=32,
    ),
    Edge(
        "a proxy fence before the write",
        only(0, "EDGE" + STORE + DRAIN),
        WRITE + "fence.proxy.async;",
        broken="fence.proxy.async;" + WRITE,
        block=32,
    ),
    Edge(
        "a barrier is no proxy fence",
        only(32, WRITE + "EDGE", "A") + "bar.sync 0;" + only(0, STORE + DRAIN, "B"),
        "fence.proxy.async;",
        says=("fence.proxy.async.shared::cta", "warp 1 of CTA 0"),
    ),
    Edge(
        "a proxy fence is no barrier",
        only(32, WRITE + "fence.proxy.async;", "A") + "EDGE" + only(0, STORE + DRAIN, "B"),
        "bar.sync 0;",
    ),
    Edge(
        "bulk store, reuse of its source",
        only(0, STORE + "EDGE" + WRITE + DRAIN),
        "cp.async.bulk.wait_group.read 0;",
        block=32,
        says=("cp.async.bulk.wait_group.read",),
        lines=("st.shared", "cp.async.bulk.global"),
    ),
    Edge(
        "a store in no committed group",
        only(
            0,
            STORE.replace("cp.async.bulk.commit_group;", "EDGE cp.async.bulk.wait_group.read 0;")
            + WRITE
            + "cp.async.bulk.commit_group;"
            + DRAIN,
        ),
        "cp.async.bulk.commit_group;",
        says=("wait_group.read",),
        block=32,
    ),
    Edge(
        "the newest group may be pending",
        only(0, STORE + "cp.async.bulk.wait_group.read EDGE;" + WRITE + DRAIN),
        "0",
        broken="1",
        block=32,
    ),
    Edge(
        "a wait by another thread",
        "setp.eq.u32 %q1, %r3, 0; setp.eq.u32 %q2, %r3, EDGE;"
        + "@!%q1 bra NEXT;"
        + STORE
        + (
            "NEXT: bar.warp.sync -1; @!%q2 bra LATER; cp.async.bulk.wait_group.read 0; "
            "LATER: bar.warp.sync -1;"
        )
        + only(0, WRITE + DRAIN),
        "0",
        broken="1",
        block=32,
    ),
    Edge(
        "bulk store, read of its destination",
        only(0, STORE + "cp.async.bulk.wait_group.read 0; EDGE ld.global.b32 %r6, [%p1];" + DRAIN),
        DRAIN,
        code="race-global",
        says=("cp.async.bulk.wait_group by the issuing thread",),
        block=32,
    ),
    Edge(
        "generic write to global, bulk load",
        only(0, "st.global.b32 [%p0], 3; EDGE" + LOAD + WAIT),
        "fence.proxy.async.global;",
        code="race-global",
        says=("fence.proxy.async.global",),
        broken="fence.proxy.async.shared::cta;",
        block=32,
    ),
    Edge(
        "cp.async, wait_group",
        only(0, CP_ASYNC + "cp.async.commit_group; EDGE" + READ + "cp.async.wait_all;"),
        "cp.async.wait_group 0;",
        says=("cp.async of warp 0", "cp.async.wait_group"),
        lines=("ld.shared", "cp.async.ca"),
        block=32,
    ),
    Edge(
        "cp.async, the newest group pending",
        only(
            0,
            CP_ASYNC
            + "cp.async.commit_group; cp.async.wait_group EDGE;"
            + READ
            + "cp.async.wait_all;",
        ),
        "0",
        broken="1",
        block=32,
    ),
    Edge(
        "cp.async, wait_all",
        only(0, CP_ASYNC + "EDGE" + READ + "cp.async.wait_all;"),
        "cp.async.wait_all;",
        block=32,
    ),
    Edge(
        "cp.async, two copies to one place",
        only(0, CP_ASYNC + "EDGE" + CP_ASYNC + "cp.async.wait_all;"),
        "cp.async.wait_all;",
        lines=("cp.async.ca", "cp.async.ca"),
        block=32,
    ),
    Edge(
        "cp.async.mbarrier.arrive",
        only(0, CP_ASYNC + "EDGE", "A")
        + only(32, WAIT + READ, "B")
        + only(0, "cp.async.wait_all;", "C"),
        NOINC,
        broken="mbarrier.arrive.shared.b64 %rd9, [%r1];",
        says=("cp.async of warp 0", "cp.async.mbarrier.arrive"),
    ),
    Edge(
        "cp.async, a slot of a ring filled again",
        only(0, CP_ASYNC + NOINC, "A")
        + only(32, WAIT + READ + "mbarrier.arrive.shared.b64 %rd9, [%r1+8];", "B")
        + only(0, "EDGE" + CP_ASYNC + "cp.async.wait_all;", "C"),
        wait("%r1+8", 0, "V"),
    ),
    Edge(
        "cp.async, lanes of one instruction",
        (
            "mad.lo.s32 %r6, %r3, EDGE, %r1; cp.async.ca.shared.global [%r6+16], [%p0], 4; "
            "cp.async.wait_all;"
        ),
        "4",
        broken="0",
        says=("write by cp.async of warp 0", "after the write by cp.async of warp 0"),
        lines=("cp.async.ca", "cp.async.ca"),
        block=32,
    ),
    Edge(
        "cp.async, asynchronous reader",
        only(0, CP_ASYNC + "cp.async.wait_all; EDGE" + STORE + DRAIN),
        "fence.proxy.async;",
        says=("fence.proxy.async.shared::cta",),
        block=32,
    ),
    Edge(
        "st.async",
        RANKS
        + CLUSTER
        + "@%q1 bra PEER; mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 4; EDGE"
        + READ
        + LAST
        + "bra DONE; PEER:"
        + ST_ASYNC
        + "DONE:"
        + CLUSTER,
        WAIT,
        says=("warp 0 of CTA 1",),
        lines=("st.async", "ld.shared"),
        block=1,
        ctas=2,
    ),
    Edge(
        "bulk copy to another CTA, reuse of its source",
        RANKS
        + "mov.u32 %r23, 1; mapa.shared::cluster.u32 %r24, %r1, %r23;"
        + CLUSTER
        + "@%q1 bra PEER;"
        "st.shared.b32 [%r1+16], 1; st.shared.b32 [%r1+20], 1; "
        "st.shared.b32 [%r1+24], 1; st.shared.b32 [%r1+28], 1; fence.proxy.async;"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
        "[%r24+16], [%r1+16], 16, [%r24]; EDGE"
        + WRITE
        + "bra DONE; PEER: mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 16;"
        + WAIT
        + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22+8]; DONE:"
        + CLUSTER,
        wait("%r1+8", 0, "V"),
        lines=("st.shared", "cp.async.bulk"),
        block=1,
        ctas=2,
    ),
)


@both_sides(EDGES)
def test_an_edge_orders_and_its_absence_is_a_race(case: Edge, mode: str, seed: int) -> None:
    case.hold(mode, seed)


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_several_threads_that_issue_one_copy_are_named(mode: str, seed: int) -> None:
    """The ISA carries out one copy per thread; electing one is meant."""
    body = WRITE + "fence.proxy.async; bar.warp.sync -1; EDGE" + STORE + DRAIN + "DONE:"
    case = Edge("store", body.replace(WRITE, only(0, WRITE)), "", block=32)
    elect = "elect.sync %r7|%q1, -1; @!%q1 bra DONE;"
    assert case.run(elect, mode, seed).verdict == "clean"
    codes = {finding.code for finding in case.run("", mode, seed).findings}
    assert codes == {"repeated-copy"}
