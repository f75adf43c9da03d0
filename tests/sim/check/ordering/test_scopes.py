"""Scopes of mbarrier operations, `Check.STRICT_SCOPE`: CTA scope orders no memory between CTAs."""

from __future__ import annotations

import pytest

from sm100sim.options import Check
from tests.sim.check.edges import CLUSTER, LOAD, MODES, RANKS, Edge, both_sides
from tests.sim.isa.memory.programs import wait

CHECKS = Check.RACES | Check.STRICT_SCOPE
WRITE_FAR = "st.shared::cluster.b32 [%r22+16], 7;"
WRITE = "st.shared.b32 [%r1+16], 7;"
READ = "ld.shared.b32 %r5, [%r1+16];"
READ_FAR = "ld.shared::cluster.b32 %r5, [%r24+16];"
"""From CTA 1."""
PEER = "mov.u32 %r23, 1; mapa.shared::cluster.u32 %r24, %r1, %r23;"


def arrive(order: str) -> str:
    """CTA 1 arrives at the barrier of CTA 0."""
    return f"mbarrier.arrive{order}.shared::cluster.b64 _, [%r22];"


def acquire(order: str) -> str:
    """Wait for the barrier of the own CTA."""
    return wait("%r1", 0, "W").replace("parity.", f"parity{order}.")


def two(first: str, second: str) -> str:
    """`first` in CTA 0 and `second` in CTA 1, between cluster barriers."""
    return (
        RANKS + PEER + CLUSTER + f"@%q1 bra PEER; {first} bra DONE; PEER: {second} DONE:" + CLUSTER
    )


def case(
    name: str,
    body: str,
    edge: str,
    broken: str,
    block: int = 1,
    says: str = "both of cluster scope",
) -> Edge:
    """A case of two CTAs."""
    return Edge(name, body, edge, broken=broken, says=(says,), block=block, ctas=2, checks=CHECKS)


WIDE = acquire(".acquire.cluster")
EDGES = (
    case(
        "a remote arrive",
        two(WIDE + READ, WRITE_FAR + "EDGE"),
        arrive(".release.cluster"),
        arrive(".release.cta"),
    ),
    case(
        "a remote arrive without a scope",
        two(WIDE + READ, WRITE_FAR + "EDGE"),
        arrive(".release.cluster"),
        arrive(""),
    ),
    case(
        "a wait for a remote arrive",
        two("EDGE" + READ, WRITE_FAR + arrive(".release.cluster")),
        WIDE,
        acquire(".acquire.cta"),
    ),
    case(
        "a wait without a scope",
        two("EDGE" + READ_FAR, WRITE + arrive(".release.cluster")),
        WIDE,
        acquire(""),
    ),
    case(
        "a fence before a remote arrive",
        two(WIDE + READ, WRITE_FAR + "fence.acq_rel.EDGE;" + arrive(".relaxed.cluster")),
        "cluster",
        "cta",
    ),
    case(
        "a relaxed remote arrive behind a fence",
        two(WIDE + READ, WRITE_FAR + "fence.acq_rel.cluster; EDGE"),
        arrive(".relaxed.cluster"),
        arrive(".relaxed.cta"),
    ),
    case(
        "a fence behind a relaxed wait",
        two(
            acquire(".relaxed.cluster") + "fence.acq_rel.EDGE;" + READ,
            WRITE_FAR + arrive(".release.cluster"),
        ),
        "cluster",
        "cta",
    ),
    case(
        "a relaxed wait before a fence",
        two("EDGE fence.acq_rel.cluster;" + READ, WRITE_FAR + arrive(".release.cluster")),
        acquire(".relaxed.cluster"),
        acquire(".relaxed.cta"),
    ),
)


@both_sides(EDGES)
def test_scopes_that_reach_the_other_cta(case: Edge, mode: str, seed: int) -> None:
    case.hold(mode, seed)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("case", EDGES[:4], ids=lambda case: case.name)
def test_only_the_strict_check_looks_at_scopes(case: Edge, mode: str, seed: int) -> None:
    """Shipped kernels signal other CTAs with CTA scope."""
    report = Edge(case.name, case.body, "", block=1, ctas=2).run(case.broken, mode, seed)
    assert report.verdict == "clean"


RELAY = (
    "setp.ge.u32 %q2, %r3, 32; @%q2 bra NEXT;"
    + WIDE
    + "mbarrier.arrive.release.cta.shared.b64 %rd9, [%r1+8]; bra DONE; NEXT:"
    + wait("%r1+8", 0, "V")
    + READ
)
CLEAN = (
    (
        "CTA scope within a CTA",
        two("mbarrier.arrive.shared.b64 %rd9, [%r1];" + acquire(".acquire.cta"), "")
        .replace("mbarrier.arrive", WRITE + "mbarrier.arrive", 1)
        .replace("bra DONE;", READ + "bra DONE;", 1),
        1,
    ),
    (
        "a thread passes on what it acquired",
        two(
            RELAY,
            "setp.ge.u32 %q2, %r3, 32; @%q2 bra DONE;" + WRITE_FAR + arrive(".release.cluster"),
        ),
        64,
    ),
    (
        "a copy that another CTA issued",
        two(
            "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 16;" + acquire("") + READ,
            LOAD[LOAD.index("cp.async") :]
            .replace("[%r1+16]", "[%r22+16]")
            .replace("[%r1]", "[%r22]"),
        ),
        1,
    ),
)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize(("name", "body", "block"), CLEAN, ids=[name for name, *_ in CLEAN])
def test_where_cta_scope_does(name: str, body: str, block: int, mode: str, seed: int) -> None:
    if block == 64:  # each CTA's barriers count one arrival of each of 32 threads
        counts = (
            "mbarrier.inval.shared.b64 [%r1]; mbarrier.inval.shared.b64 [%r1+8]; "
            "mbarrier.init.shared.b64 [%r1], 32; mbarrier.init.shared.b64 [%r1+8], 32;"
        )
        body = (
            f"setp.ne.u32 %q4, %r3, 0; @%q4 bra SIZED; "
            f"{counts} fence.mbarrier_init.release.cluster; SIZED: bar.sync 0;"
        ) + body
    report = Edge(name, body, "", block=block, ctas=2, checks=CHECKS).run("", mode, seed)
    assert (report.verdict, report.findings) == ("clean", ())
