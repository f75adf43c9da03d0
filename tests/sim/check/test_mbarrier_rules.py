"""Rules of mbarriers: life, phases, parity, arrivals and transaction bytes; each with both
sides."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sm100sim.options import Check
from testing.harness import run_ptx
from tests.sim.check.edges import (
    ARRIVE,
    CLUSTER,
    FENCE_INIT,
    LOAD,
    MODES,
    RANKS,
    Edge,
    both_sides,
)
from tests.sim.isa.memory.programs import SMEM, only, wait

PROTOCOL = Check.PROTOCOL
TAIL = "mbarrier.init.shared.b64 [%r1+48], 2; mbarrier.init.shared.b64 [%r1+56], 1;"
"""Two more barriers for programs that make their own."""


DELAY = "mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; setp.lt.u32 %q5, %r6, 4000; @%q5 bra L;"
"""Long enough for the other warp to go on: nothing but luck."""


def w(offset: int, parity: int, label: str) -> str:
    return wait(f"%r1+{offset}", parity, label)


def arrive(offset: int) -> str:
    return f"mbarrier.arrive.shared.b64 %rd9, [%r1+{offset}];"


EDGES = (
    Edge(
        "initialisation and use by another warp",
        only(0, TAIL + "st.relaxed.cta.shared.b32 [%r1+40], 1;", "T")
        + "EDGE"
        + only(
            32,
            "SPIN: ld.relaxed.cta.shared.b32 %r5, [%r1+40]; setp.ne.u32 %q8, %r5, 1; @%q8 bra SPIN;"
            + arrive(56)
            + w(56, 0, "X"),
            "B",
        ),
        "bar.sync 0;",
        code="mbarrier-init-unordered",
        says=("missing: a barrier between its initialisation by warp 0",),
        lines=("mbarrier.arrive", "mbarrier.init"),
        checks=PROTOCOL,
    ),
    Edge(
        "fence.mbarrier_init before a copy",
        only(
            0,
            TAIL
            + "EDGE"
            + LOAD.replace("[%r1];", "[%r1+56];").replace("[%r1], 16", "[%r1+56], 16")
            + w(56, 0, "X"),
        ),
        FENCE_INIT,
        code="mbarrier-init-not-fenced",
        says=("asynchronous work", "fence.mbarrier_init"),
        block=32,
        checks=PROTOCOL,
    ),
    Edge(
        "fence.mbarrier_init before a remote arrival",
        RANKS
        + "@%q0 mbarrier.init.shared.b64 [%r1+56], 1; EDGE"
        + CLUSTER
        + "@%q1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22+56]; @%q1 bra DONE;"
        + w(56, 0, "X")
        + "DONE:"
        + CLUSTER,
        FENCE_INIT,
        code="mbarrier-init-not-fenced",
        says=("a thread of another CTA",),
        block=1,
        ctas=2,
        checks=PROTOCOL,
    ),
    Edge(
        "a relaxed cluster barrier carries fenced initialisations",
        RANKS + "@%q0 mbarrier.init.shared.b64 [%r1+56], 1; EDGE barrier.cluster.arrive.relaxed; "
        "barrier.cluster.wait;"
        "@%q1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22+56]; @%q1 bra DONE;"
        + w(56, 0, "X")
        + "DONE:"
        + CLUSTER,
        FENCE_INIT,
        code="mbarrier-init-unordered",
        says=("a thread of another CTA",),
        block=1,
        ctas=2,
        checks=PROTOCOL,
    ),
    Edge(
        "a phase that nobody waits for",
        only(0, ARRIVE + "EDGE" + ARRIVE + w(0, 1, "Y")),
        w(0, 0, "X"),
        code="mbarrier-phase-unobserved",
        says=("no wait has seen phase 0 end",),
        block=32,
        checks=PROTOCOL,
    ),
    Edge(
        "a second arrival in the phase of the first",
        only(0, TAIL, "T")
        + "bar.sync 0;"
        + only(0, arrive(48) + "EDGE" + arrive(48), "A")
        + only(32, arrive(48) + w(48, 0, "X") + arrive(48) + w(48, 1, "Y"), "B"),
        w(48, 0, "E"),
        broken=DELAY,
        code="mbarrier-early-arrival",
        says=("which could come in phase 0", "missing: a wait for that phase"),
        lines=("mbarrier.arrive", "mbarrier.arrive"),
        checks=PROTOCOL,
    ),
    Edge(
        "a producer that does not wait for its consumer",
        only(32, ARRIVE + "EDGE" + w(0, 0, "P") + ARRIVE, "A")
        + only(0, w(0, 0, "X") + arrive(8) + w(0, 1, "Y"), "B"),
        w(8, 0, "E"),
        broken=DELAY,
        code="mbarrier-phase-overrun",
        says=("warp 0 of CTA 0", "a slower warp misses it", "missing: an arrive after that wait"),
        lines=("mbarrier.try_wait", "mbarrier.arrive"),
        checks=PROTOCOL,
    ),
    Edge(
        "the end of an invalidated barrier",
        only(32, ARRIVE + "st.relaxed.cta.shared.b32 [%r1+40], 1;", "A")
        + "EDGE"
        + only(
            0,
            (
                "SPIN: ld.relaxed.cta.shared.b32 %r5, [%r1+40]; setp.ne.u32 %q8, %r5, 1; "
                "@%q8 bra SPIN; mbarrier.inval.shared.b64 [%r1];"
            ),
            "B",
        ),
        "bar.sync 0;",
        code="mbarrier-inval-unordered",
        says=("warp 1 of CTA 0", "missing: a wait for phase 0"),
        checks=PROTOCOL,
    ),
)


@both_sides(EDGES)
def test_a_rule_is_kept_or_reported(case: Edge, mode: str, seed: int) -> None:
    case.hold(mode, seed)


def faulted(body: str, mode: str, seed: int, **options: Any) -> str:
    """The message of the fault that stops `body`, or an empty string."""
    report = run_ptx(
        body,
        mode=mode,
        seed=seed,
        shared=SMEM,
        smem=256,
        raise_on_fault=False,
        checks=Check.ALL,
        **options,
    )
    return "; ".join(finding.message for finding in report.findings)


INIT_2 = "mov.u32 %r1, dyn; mbarrier.init.shared.b64 [%r1], 2;"
BOTH_ARRIVE = "mbarrier.arrive.shared.b64 %rd1, [%r1], 2;"
FAULTS = {
    "init over a live object": (
        INIT_2 + "mbarrier.inval.shared.b64 [%r1]; mbarrier.init.shared.b64 [%r1], 1;",
        INIT_2 + BOTH_ARRIVE.replace("], 2", "], 1") + "mbarrier.init.shared.b64 [%r1], 1;",
    ),
    "more arrivals in this phase than its count allows": (
        INIT_2 + BOTH_ARRIVE + wait("%r1", 0, "W"),
        INIT_2 + BOTH_ARRIVE.replace("], 2", "], 3"),
    ),
    "no live mbarrier": (
        INIT_2 + BOTH_ARRIVE + wait("%r1", 0, "W") + "mbarrier.inval.shared.b64 [%r1];",
        INIT_2
        + BOTH_ARRIVE
        + wait("%r1", 0, "W")
        + "mbarrier.inval.shared.b64 [%r1];"
        + BOTH_ARRIVE,
    ),
    "tx bytes -16": (
        INIT_2
        + "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 16;"
        + BOTH_ARRIVE
        + "mbarrier.complete_tx.shared.b64 [%r1], 16;"
        + wait("%r1", 0, "W"),
        INIT_2
        + BOTH_ARRIVE.replace("arrive.shared", "arrive.noComplete.shared").replace("], 2", "], 1")
        + "mbarrier.complete_tx.shared.b64 [%r1], 16;"
        + BOTH_ARRIVE.replace("], 2", "], 1"),
    ),
    "transaction count leaves its range": (
        INIT_2
        + (
            "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1048560; "
            "mbarrier.complete_tx.shared.b64 [%r1], 1048560;"
        )
        + BOTH_ARRIVE
        + wait("%r1", 0, "W"),
        INIT_2
        + (
            "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1048560; "
            "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1048560;"
        ),
    ),
    "neither of the current nor of the preceding phase": (
        INIT_2
        + (
            "mbarrier.arrive.shared.b64 %rd1, [%r1]; mbarrier.arrive.shared.b64 %rd2, [%r1]; "
            "mbarrier.test_wait.shared.b64 %q0, [%r1], %rd1;"
        ),
        INIT_2
        + "mbarrier.arrive.shared.b64 %rd1, [%r1]; mbarrier.arrive.shared.b64 %rd2, [%r1];"
        + wait("%r1", 0, "W")
        + "mbarrier.arrive.shared.b64 %rd2, [%r1], 2;"
        + wait("%r1", 1, "V")
        + "mbarrier.test_wait.shared.b64 %q0, [%r1], %rd1;",
    ),
}


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("rule", FAULTS)
def test_a_broken_state_stops_the_run(rule: str, mode: str, seed: int) -> None:
    correct, broken = FAULTS[rule]
    assert faulted(correct, mode, seed, block=1) == ""
    assert rule in faulted(broken, mode, seed, block=1)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize(("expected", "words"), [(16, ""), (32, "tx bytes 16"), (0, "")])
def test_bytes_of_a_phase_are_balanced(expected: int, words: str, mode: str, seed: int) -> None:
    """A copy of 16 bytes against what was announced: too much or too little never ends the
    phase."""
    body = only(0, LOAD.replace("[%r1], 16;", f"[%r1], {expected};") + wait("%r1", 0, "W"))
    case = Edge("bytes", body, "", block=32, checks=Check.ALL)
    report = case.run("", mode, seed)
    assert report.verdict == ("clean" if expected == 16 else "findings")
    assert words in "; ".join(finding.message for finding in report.findings)


def test_thousands_of_barriers_cost_time_in_proportion() -> None:
    """Shared memory has room for 28,000; all checkers watch. Time in their square would be 64."""

    def seconds(count: int) -> float:
        body = f"""mov.u32 %r1, 1024; L: mbarrier.init.shared.b64 [%r1], 1;
            add.u32 %r1, %r1, 8; setp.lt.u32 %q1, %r1, {1024 + 8 * count}; @%q1 bra L;"""
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            run_ptx(body, block=1, smem=8 * count, checks=Check.ALL)
            best = min(best, time.perf_counter() - start)
        return best

    least = seconds(1)
    assert seconds(28_000) - least < 30 * (seconds(3_500) - least) + 0.5
