"""Relaxed signals, fences with scopes, flags in memory: what synchronises and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.check.edges import (
    CLUSTER,
    MODES,
    RANKS,
    READ,
    WRITE,
    Edge,
    both_sides,
)
from tests.sim.isa.memory.programs import aligned, only, wait

RELAXED_ARRIVE = "mbarrier.arrive.relaxed.cta.shared.b64 %rd9, [%r1];"
RELAXED_WAIT = wait("%r1", 0, "W").replace("parity.shared", "parity.relaxed.cta.shared")
ACQUIRE_WAIT = wait("%r1", 0, "W")
DATA, FLAG = "st.global.b32 [%p1], 7;", "[%p1+64]"
USE = "ld.global.b32 %r6, [%p1];"


def spin(load: str, label: str) -> str:
    return f"{label}: {load} %r5, {FLAG}; setp.ne.u32 %q2, %r5, 1; @%q2 bra {label};"


def flag_edge(name: str, signal: str, poll: str, edge: str, broken: str, **more: Any) -> Edge:
    """Warp 0 writes data and signals by a flag; warp 1 polls it and reads; EDGE in either of
    them."""
    body = only(0, DATA + signal, "A") + only(32, poll + USE, "B")
    return Edge(name, body, edge, code="race-global", broken=broken, **more)


EDGES: tuple[Edge, ...] = (
    Edge(
        "relaxed arrival after a release fence",
        only(0, WRITE + "EDGE" + RELAXED_ARRIVE, "A") + only(32, ACQUIRE_WAIT + READ, "B"),
        "fence.acq_rel.cta;",
        says=("write by warp 0", "arrive (release)"),
    ),
    Edge(
        "a fence.acquire releases nothing",
        only(0, WRITE + "EDGE" + RELAXED_ARRIVE, "A") + only(32, ACQUIRE_WAIT + READ, "B"),
        "fence.release.cluster;",
        broken="fence.acquire.cluster;",
    ),
    Edge(
        "relaxed wait before an acquire fence",
        only(0, WRITE + "mbarrier.arrive.shared.b64 %rd9, [%r1];", "A")
        + only(32, RELAXED_WAIT + "EDGE" + READ, "B"),
        "fence.acquire.cluster;",
    ),
    Edge(
        "membar.cta",
        only(0, WRITE + "EDGE" + RELAXED_ARRIVE, "A")
        + only(32, RELAXED_WAIT + "membar.cta;" + READ, "B"),
        "membar.cta;",
    ),
    flag_edge(
        "st.release and ld.acquire",
        f"st.EDGE.gpu.global.b32 {FLAG}, 1;",
        spin("ld.acquire.gpu.global.b32", "P"),
        "release",
        "relaxed",
        says=("write by warp 0", "read by warp 1"),
    ),
    flag_edge(
        "ld.acquire of a released flag",
        f"st.release.gpu.global.b32 {FLAG}, 1;",
        spin("ld.EDGE.gpu.global.b32", "P"),
        "acquire",
        "relaxed",
    ),
    flag_edge(
        "fence and volatile flag",
        f"EDGE st.volatile.global.b32 {FLAG}, 1;",
        spin("ld.volatile.global.b32", "P") + "fence.acq_rel.gpu;",
        "membar.gl;",
        "",
    ),
    flag_edge(
        "volatile poll before a fence",
        f"membar.gl; st.volatile.global.b32 {FLAG}, 1;",
        spin("ld.volatile.global.b32", "P") + "EDGE",
        "fence.acq_rel.gpu;",
        "",
    ),
    flag_edge(
        "atom.release and atom.acquire",
        f"atom.EDGE.gpu.global.add.u32 %r7, {FLAG}, 1;",
        f"P: atom.acquire.gpu.global.or.b32 %r5, {FLAG}, 0; setp.ne.u32 %q2, %r5, 1; @%q2 bra P;",
        "acq_rel",
        "relaxed",
    ),
    flag_edge(
        "red after a fence",
        f"EDGE red.global.add.u32 {FLAG}, 1;",
        spin("ld.acquire.gpu.global.b32", "P"),
        "fence.acq_rel.gpu;",
        "",
    ),
    Edge(
        "scope of a fence between CTAs",
        RANKS
        + "@%q1 bra PEER;"
        + DATA
        + f"fence.acq_rel.EDGE; st.relaxed.gpu.global.b32 {FLAG}, 1; bra DONE;"
        "PEER:" + spin("ld.acquire.gpu.global.b32", "P") + USE + "DONE:" + CLUSTER,
        "cluster",
        broken="cta",
        code="race-global",
        block=1,
        ctas=2,
    ),
    Edge(
        "scope of a flag between CTAs",
        RANKS + "@%q1 bra PEER;" + DATA + f"st.release.EDGE.global.b32 {FLAG}, 1; bra DONE;"
        "PEER:" + spin("ld.acquire.gpu.global.b32", "P") + USE + "DONE:" + CLUSTER,
        "cluster",
        broken="cta",
        code="race-global",
        block=1,
        ctas=2,
    ),
    Edge(
        "flag in shared memory",
        "st.shared.b32 [%r1+64], 0; bar.sync 0;"
        + only(0, WRITE + "st.EDGE.cta.shared.b32 [%r1+64], 1;", "A")
        + only(
            32,
            "P: ld.acquire.cta.shared.b32 %r5, [%r1+64]; setp.ne.u32 %q2, %r5, 1; @%q2 bra P;"
            + READ,
            "B",
        ),
        "release",
        broken="relaxed",
        block=64,
    ),
)
EDGES = tuple(
    replace(
        e,
        body=e.body.replace(
            "st.shared.b32 [%r1+64], 0;", only(0, "st.shared.b32 [%r1+64], 0;", "Z")
        ),
    )
    for e in EDGES
)


@both_sides(EDGES)
def test_a_flag_orders_as_far_as_its_semantics_and_scope_go(
    case: Edge, mode: str, seed: int
) -> None:
    case.hold(mode, seed)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize(
    ("store", "load", "expected"),
    [
        ("st.relaxed.gpu", "ld.relaxed.gpu", "clean"),
        ("st", "ld.relaxed.gpu", "findings"),
        ("st.relaxed.gpu", "ld", "findings"),
        ("st.volatile", "ld.volatile", "clean"),
    ],
)
def test_strong_accesses_do_not_race_with_one_another(
    store: str, load: str, expected: str, mode: str, seed: int
) -> None:
    body = only(0, f"{store}.global.b32 [%p1], 7;", "A") + only(
        32, f"{load}.global.b32 %r6, [%p1];", "B"
    )
    assert Edge("strong", body, "").run("", mode, seed).verdict == expected


def last_block(order: str) -> str:
    """Every CTA writes its word and counts itself; the last one adds all words up."""
    return (
        "mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 4, %p0; add.u32 %r2, %r1, 10; "
        "st.global.b32 [%rd1], %r2;"
        f"atom.{order}.gpu.global.add.u32 %r3, [%p0+64], 1; setp.ne.u32 %q0, %r3, 3; @%q0 bra DONE;"
        "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%p0]; add.u32 %r4, %r4, %r5; "
        "add.u32 %r6, %r6, %r7;"
        "add.u32 %r4, %r4, %r6; st.global.b32 [%p0+128], %r4; DONE:"
    )


@pytest.mark.parametrize(("order", "verdict"), [("acq_rel", "clean"), ("relaxed", "findings")])
def test_a_counter_orders_the_clusters_of_a_grid(order: str, verdict: str) -> None:
    out = aligned(64, np.uint32)
    report = run_ptx(last_block(order), out, checks=Check.RACES, block=1, grid=(4, 1, 1))
    assert out[32] == 10 + 11 + 12 + 13
    assert report.verdict == verdict
    assert all("a flag in global memory" in f.message for f in report.findings)
