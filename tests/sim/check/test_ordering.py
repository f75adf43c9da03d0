"""Every ordering edge with a program that has it and one that lacks it.

A correct program must be clean at once, late and in random order; a broken one must be reported by
the race checker in each of them, since the order of events does not depend on when they land.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from tests.sim.harness import run_ptx
from tests.sim.isa.memory_programs import SMEM, aligned, only, wait

MODES = (("fast", 0), ("late", 0), ("random", 1), ("random", 2))
INIT = only(
    0,
    "mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;",
    "INITIALISED",
)
SETUP = "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x; mad.lo.u32 %r2, %r3, 4, %r1;" + INIT + "bar.sync 0;"
CLUSTER = "barrier.cluster.arrive; barrier.cluster.wait;"
LOAD = (
    "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 16;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+16], [%p0], 16, [%r1];"
)
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r1+16], 16; cp.async.bulk.commit_group;"
READ = "ld.shared.b32 %r5, [%r1+16];"
WRITE = "st.shared.b32 [%r1+16], 7;"
RANKS = (
    "mov.u32 %r20, %cluster_ctarank; mov.u32 %r21, 0; mapa.shared::cluster.u32 %r22, %r1, %r21;"
    "setp.eq.u32 %q0, %r20, 0; setp.ne.u32 %q1, %r20, 0;"
)


@dataclass(frozen=True)
class Edge:
    """`body` holds EDGE where `edge` goes; without it `code` must be found."""

    name: str
    body: str
    edge: str
    code: str = "race-shared"
    block: int = 64
    ctas: int = 1

    def run(self, edge: str, mode: str, seed: int) -> Report:
        source, out = aligned(64, np.uint32), aligned(64, np.uint32)
        source[:] = np.arange(64)
        size = (self.ctas, 1, 1)
        return run_ptx(
            SETUP + self.body.replace("EDGE", edge), source, out, checks=Check.RACES, mode=mode,
            seed=seed, shared=SMEM, smem=1024, block=self.block, grid=size, cluster=size,
        )  # fmt: skip


EDGES = (
    Edge(
        "mbarrier arrive and wait",
        only(0, WRITE + "mbarrier.arrive.shared.b64 %rd9, [%r1];", "A") + only(32, "EDGE" + READ, "B"),
        wait("%r1", 0, "W"),
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
    Edge("bulk load, read", only(0, LOAD + "EDGE" + READ), wait("%r1", 0, "W"), block=32),
    Edge(
        "bulk load, refill before the slot is released",
        only(0, LOAD, "A") + wait("%r1", 0, "W") + only(32, READ, "B") + "EDGE" + only(0, LOAD, "C")
        + wait("%r1", 1, "V"),
        "bar.sync 0;",
    ),
    Edge(
        "generic write, bulk store",
        only(0, WRITE + "EDGE" + STORE + "cp.async.bulk.wait_group 0;"),
        "fence.proxy.async.shared::cta;",
        block=32,
    ),
    Edge(
        "bulk store, reuse of its source",
        only(0, STORE + "EDGE" + WRITE + "cp.async.bulk.wait_group 0;"),
        "cp.async.bulk.wait_group.read 0;",
        block=32,
    ),
    Edge(
        "bulk store, read of its destination",
        only(0, STORE + "cp.async.bulk.wait_group.read 0; EDGE ld.global.b32 %r6, [%p1];"),
        "cp.async.bulk.wait_group 0;",
        code="race-global",
        block=32,
    ),
    Edge(
        "cp.async",
        only(0, "cp.async.ca.shared.global [%r1+16], [%p0], 16; cp.async.commit_group; EDGE" + READ),
        "cp.async.wait_group 0;",
        block=32,
    ),
    Edge(
        "cluster barrier over distributed shared memory",
        RANKS + CLUSTER + "@%q0 st.shared.b32 [%r1+16], 7; EDGE @%q1 ld.shared::cluster.b32 %r6, [%r22+16];"
        + CLUSTER,
        CLUSTER,
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
        "global memory inside a CTA",
        only(0, "st.global.b32 [%p1], 7;", "A") + "EDGE" + only(32, "ld.global.b32 %r6, [%p1];", "B"),
        "bar.sync 0;",
        code="race-global",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("case", EDGES, ids=lambda case: case.name)
def test_an_edge_orders_and_its_absence_is_a_race(case: Edge, mode: str, seed: int) -> None:
    correct = case.run(case.edge, mode, seed)
    assert (correct.verdict, correct.findings) == ("clean", ())
    broken = case.run("", mode, seed)
    assert broken.verdict == "findings"
    assert {finding.code for finding in broken.findings} == {case.code}


def test_a_finding_names_both_accesses_and_the_missing_edge() -> None:
    case = next(c for c in EDGES if c.name == "generic write, bulk store")
    (finding,) = case.run("", "fast", 0).findings
    assert {"st.shared.b32", "cp.async.bulk.global"} <= {
        word for source in (finding.source, finding.source2) for word in
        ("st.shared.b32", "cp.async.bulk.global") if word in source
    } and finding.line and finding.line2  # fmt: skip
    assert "fence.proxy.async" in finding.message


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_reads_of_many_warps_do_not_alarm(mode: str, seed: int) -> None:
    body = only(0, WRITE, "A") + "bar.sync 0;" + READ + "bar.sync 0;" + only(32, WRITE, "B")
    report = Edge("broadcast", body, "", block=256).run("", mode, seed)
    assert report.verdict == "clean"


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
