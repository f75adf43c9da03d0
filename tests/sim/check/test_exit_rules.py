"""What must be over when a warp, a CTA or a cluster ends, and before another CTA is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Finding
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.check.edges import (
    CLUSTER,
    LOAD,
    MODES,
    RANKS,
    STORE,
    WAIT,
    WRITE,
    Edge,
    both_sides,
)
from tests.sim.isa.memory.programs import SMEM, only, wait
from tests.sim.isa.tcgen05.programs import IMAGE_START, run_frame

STRICT = Check.PROTOCOL | Check.STRICT_EXIT
NEVER = "setp.ne.u32 %q7, %r3, %r3; @%q7 "
START_PEER = RANKS + CLUSTER
TOUCH = "@%q1 st.shared::cluster.b32 [%r22+16], 7;"
SMALL: dict[str, Any] = {"shared": SMEM, "smem": 256, "checks": Check.ALL, "raise_on_fault": False}

EDGES = (
    Edge(
        "cp.async at the end of the CTA",
        only(0, "cp.async.ca.shared.global [%r1+16], [%p0], 16; EDGE"),
        "cp.async.wait_all;",
        code="cp-async-not-waited",
        says=("the cp.async of warp 0",),
        block=32,
        checks=Check.PROTOCOL,
    ),
    Edge(
        "a remote access before the other CTA is known to run",
        RANKS + "EDGE" + TOUCH + CLUSTER,
        CLUSTER,
        code="cta-not-started",
        says=("warp 0 touches shared memory of CTA 0", "missing: a cluster barrier"),
        block=1,
        ctas=2,
        checks=Check.PROTOCOL,
    ),
    Edge(
        "a relaxed barrier shows that a CTA runs",
        RANKS + "EDGE" + TOUCH + CLUSTER,
        "barrier.cluster.arrive.relaxed; barrier.cluster.wait;",
        code="cta-not-started",
        block=1,
        ctas=2,
        checks=Check.PROTOCOL,
    ),
    Edge(
        "a named barrier that few have reached",
        "setp.lt.u32 %q1, %r3, 32; @%q1 bar.arrive 2, 64; @%q1 bra DONE; EDGE DONE:",
        "bar.sync 2, 64;",
        code="barrier-open-at-exit",
        says=("32 of 64 threads have arrived at named barrier 2",),
        checks=Check.PROTOCOL,
    ),
    Edge(
        "an mbarrier in the middle of a phase",
        only(
            0,
            (
                "mbarrier.init.shared.b64 [%r1+56], 2; "
                "mbarrier.arrive.shared.b64 %rd9, [%r1+56], EDGE;"
            ),
        ),
        "2",
        broken="1",
        code="mbarrier-open-at-exit",
        says=("pending arrivals 1 of 2",),
        block=32,
        checks=STRICT,
    ),
    Edge(
        "an mbarrier that still expects bytes",
        only(0, "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], EDGE;"),
        "0",
        broken="64",
        code="mbarrier-open-at-exit",
        says=("tx bytes 64",),
        block=32,
        checks=STRICT,
    ),
    Edge(
        "bytes that nobody expected",
        only(0, "mbarrier.complete_tx.shared.b64 [%r1], 16; EDGE"),
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 16;",
        code="mbarrier-open-at-exit",
        says=("tx bytes -16",),
        block=32,
        checks=Check.PROTOCOL,
    ),
)


@both_sides(EDGES)
def test_a_rule_is_kept_or_reported(case: Edge, mode: str, seed: int) -> None:
    case.hold(mode, seed)


EARLY = {
    "a bulk copy": (only(0, LOAD + "EDGE"), WAIT, 32, 1, "waited for the copy"),
    "an access of another CTA": (
        START_PEER + TOUCH + "EDGE",
        CLUSTER,
        1,
        2,
        "the last access of warp 0 of CTA 1",
    ),
    "an arrival of another CTA": (
        START_PEER
        + (
            "@%q0 bra HERE; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22]; "
            "bra DONE; HERE: EDGE DONE:"
        ),
        wait("%r1", 0, "W"),
        1,
        2,
        "the last signal of warp 0 of CTA 1",
    ),
}


BULK = {
    "not waited for": (STORE + "EDGE", "cp.async.bulk.wait_group.read 0;"),
    "in an open group": (
        STORE.replace("cp.async.bulk.commit_group;", "EDGE cp.async.bulk.wait_group 0;"),
        "cp.async.bulk.commit_group;",
    ),
}


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("name", BULK)
def test_a_thread_waits_for_its_bulk_stores(name: str, mode: str, seed: int) -> None:
    """Late, the copy is also told to read what has ended; it reads it all the same."""
    body, edge = BULK[name]
    case = Edge(
        name, only(0, WRITE + "fence.proxy.async;" + body), edge, block=32, checks=Check.PROTOCOL
    )
    assert case.run(edge, mode, seed).verdict == "clean"
    first, *rest = case.run("", mode, seed).findings
    assert first.code == "bulk-group-not-waited"
    assert "without cp.async.bulk.wait_group" in first.message
    assert all(not f.fatal and f.code == "exited-cta" for f in rest)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("name", EARLY)
def test_a_cta_outlives_what_is_aimed_at_it(name: str, mode: str, seed: int) -> None:
    """Reported as cta-exits-early, or, where the CTA is in fact gone by then, as a fault."""
    body, edge, block, ctas, words = EARLY[name]
    case = Edge(name, body, edge, block=block, ctas=ctas, checks=Check.PROTOCOL)
    assert case.run(edge, mode, seed).verdict == "clean"
    findings = case.run("", mode, seed).findings
    assert findings
    for finding in findings:
        early = finding.code == "cta-exits-early" and words in finding.message
        assert early or (finding.fatal and "has exited" in finding.message)


def test_an_access_to_a_cta_that_has_exited_is_reported_in_some_order() -> None:
    """Without the barrier the outcome depends on who is first; the rule must not."""
    body, _, block, ctas, _ = EARLY["an access of another CTA"]
    case = Edge("access", body, "", block=block, ctas=ctas, checks=Check.PROTOCOL)
    assert all(case.run("", "random", seed).verdict == "findings" for seed in range(16))


BARRIERS = {
    "counts differ": (
        "setp.lt.u32 %q1, %r3, 32; @%q1 bar.sync 1, 64; @%q1 bra DONE; bar.sync 1, {}; DONE:",
        "64",
        "32",
        "thread count",
    ),
    "more threads than there are": (
        "bar.sync 1, {};",
        "64",
        "96",
        "more than the CTA's 64 threads",
    ),
    "no multiple of a warp": ("bar.sync 1, {};", "64", "40", "not a positive multiple of 32"),
}


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("rule", BARRIERS)
def test_named_barriers_are_counted(rule: str, mode: str, seed: int) -> None:
    body, right, wrong, words = BARRIERS[rule]
    case = Edge(rule, body.replace("{}", "EDGE"), right, checks=Check.ALL)
    assert case.run(right, mode, seed).verdict == "clean"
    findings = case.run(wrong, mode, seed).findings
    text = "; ".join(finding.message for finding in findings)
    assert words in text or "32 of 64 threads arrived" in text


TWO_COMMITS = (
    "mov.b16 %h1, 3; @%q1 mbarrier.init.shared.b64 [%r31+8], 1; "
    "@%q1 fence.mbarrier_init.release.cluster;"
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; "
    "add.u32 %r50, %r31, 8; @!%q5 bra ISSUED;"
    f"mov.b64 %rd5, {SmemDescriptor(IMAGE_START, 16, 1024, Swizzle.B128).encode()};"
    "tcgen05.cp.cta_group::2.128x256b [%r30], %rd5; {commit} [%r50], %h1; "
    "{commit} [%r31], %h1; ISSUED:"
)
COMMIT = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"


@pytest.mark.parametrize("mode", ["fast", "late", "random"])
def test_each_commit_to_another_cta_is_waited_for(mode: str) -> None:
    """That a later commit of the same thread has arrived says nothing of this one."""
    both = TWO_COMMITS.replace("{commit}", COMMIT)
    image, tmem = [np.zeros(32768, np.uint8)] * 2, np.zeros((2, 128, 512), np.uint32)

    def findings(body: str, seed: int) -> tuple[Finding, ...]:
        frame = run_frame(
            body,
            image,
            tmem,
            group=2,
            mode=mode,
            seed=seed,
            checks=Check.PROTOCOL,
            raise_on_fault=False,
        )
        return frame[0].findings

    for seed in range(4):
        assert not findings(both + wait("%r50", 0, "OTHER"), seed)
        found = findings(both, seed)
        assert found
        for finding in found:
            early = finding.code == "cta-exits-early" and "tcgen05.commit" in finding.message
            assert early or (finding.fatal and "has exited" in finding.message)


def test_commits_arrive_in_another_cta_in_any_order() -> None:
    """Seen there without any observer: the other CTA reads the first barrier once the second is
    through."""
    body = TWO_COMMITS.replace("{commit}", COMMIT) + (
        wait("%r31", 0, "SECOND")
        + "mbarrier.test_wait.parity.shared.b64 %q14, [%r50], 0; selp.u32 %r51, 1, 0, %q14;"
        "mul.wide.u32 %rd9, %r1, 4; add.s64 %rd9, %rd9, %p3; @%q1 st.global.b32 [%rd9], %r51;"
        + wait("%r50", 0, "OTHER")
    )
    seen = []
    for seed in range(16):
        words = np.zeros(2, np.uint32)
        run_frame(
            body,
            [np.zeros(32768, np.uint8)] * 2,
            np.zeros((2, 128, 512), np.uint32),
            words,
            group=2,
            mode="random",
            seed=seed,
        )
        seen.append(words.tolist())
    assert {own for own, _ in seen} == {1}
    assert {other for _, other in seen} == {0, 1}
