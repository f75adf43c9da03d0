"""Tensor Memory: MMAs, copies, loads and stores, and what orders them (PTX ISA, "Memory
Consistency Model for tcgen05").

Programs run in the frame of tcgen05_programs: 128 threads, 512 columns allocated and filled, %r30
the
base, %r31 an mbarrier of count 1, %r2 the shared-memory image, %q5 thread 0, %r12 the warp's own
part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from testing.layouts.instr_desc import InstrDescriptor
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.check.edges import MODES
from tests.sim.isa.memory.programs import wait
from tests.sim.isa.tcgen05.programs import IMAGE_START, run_frame

DESC = SmemDescriptor(IMAGE_START, 16, 1024, Swizzle.B128)
IDESC = InstrDescriptor("f16", 128, 128, "bf16", "bf16").encode()
START = (
    f"mov.b64 %rd5, {DESC.encode()}; mov.b32 %r53, {IDESC}; or.b32 %r12, %r30, %r10; "
    f"add.u32 %r50, %r31, 8;"
    "setp.ne.u32 %q8, %r9, 0; setp.ne.u32 %q9, %r9, 1; setp.eq.u32 %q10, %r0, 32;"
    "@%q1 mbarrier.init.shared.b64 [%r50], 1; @%q1 mbarrier.init.shared.b64 [%r31+24], 128;"
    "add.u32 %r54, %r31, 32; @%q1 mbarrier.init.shared.b64 [%r54], 1;"
    "@%q1 fence.mbarrier_init.release.cluster; bar.sync 0;"
)
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r30], %rd5, %rd5, %r53, 0;"
MMA_TS = "tcgen05.mma.cta_group::1.kind::f16 [%r30+256], [%r30], %rd5, %r53, 0;"
COPY = "tcgen05.cp.cta_group::1.128x256b [%r30], %rd5;"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r31];"
COMMIT_2 = COMMIT.replace("%r31", "%r50")
DONE = wait("%r31", 0, "DONE")
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r13}, [%r12];"
USE = "add.u32 %r14, %r13, 1;"
ST = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%r0};"
WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
BEFORE = "tcgen05.fence::before_thread_sync;"
ALL_ARRIVE = "mbarrier.arrive.EDGE.cta.shared.b64 %rd9, [%r31+24];"
ALL_DONE = wait("%r31+24", 0, "ALL")
TMA = (
    "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r50], 16;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%p0], 16, [%r50];"
)
FILLED = wait("%r50", 0, "FILLED")


def one(text: str, label: str) -> str:
    """For thread 0."""
    return f"@!%q5 bra {label}; {text} {label}: bar.warp.sync -1;"


def warp(n: int, text: str, label: str) -> str:
    """For all threads of a warp."""
    return f"@%q{8 + n} bra {label}; {text} {label}:"


@dataclass(frozen=True)
class Rule:
    """A program, the edge that stands for EDGE, and what its absence is reported as."""

    name: str
    body: str
    edge: str
    code: str = "race-tmem"
    says: str = ""
    broken: str = ""

    def run(self, edge: str, mode: str, seed: int, checks: Check = Check.ALL) -> Report:
        tmem = np.zeros((1, 128, 512), np.uint32)
        image = np.zeros(32768, np.uint8)
        text = (START + self.body.replace("EDGE", edge)).replace(";", ";\n")
        return run_frame(
            text,
            [image],
            tmem,
            np.zeros(64, np.uint32),
            wait=False,
            checks=checks,
            mode=mode,
            seed=seed,
        )[0]


RULES = (
    Rule(
        "mma, ld of D",
        one(MMA + COMMIT, "I") + "EDGE" + LD + WAIT_LD + DONE,
        DONE.replace("DONE", "D1"),
        says="missing: a tcgen05.commit after it and a wait on that mbarrier",
    ),
    Rule(
        "mma, st over D",
        one(MMA + COMMIT, "I") + "EDGE" + ST + WAIT_ST + DONE,
        DONE.replace("DONE", "D1"),
    ),
    Rule(
        "cp, ld",
        one(COPY + COMMIT, "I") + "EDGE" + LD + WAIT_LD + DONE,
        DONE.replace("DONE", "D1"),
        says="tcgen05.commit",
    ),
    Rule(
        "commit before the mma",
        one("EDGE", "I") + DONE + LD + WAIT_LD + wait("%r50", 0, "D2"),
        MMA + COMMIT + COMMIT_2,
        broken=COMMIT + MMA + COMMIT_2,
    ),
    Rule(
        "st, ld by the same warp",
        ST + "EDGE" + LD + WAIT_LD + WAIT_ST,
        WAIT_ST,
        says="missing: a tcgen05.wait::st",
    ),
    Rule(
        "st, mma reads A",
        ST + "EDGE bar.sync 0;" + one(MMA_TS + COMMIT, "I") + DONE + WAIT_ST,
        WAIT_ST,
        says="missing: a tcgen05.wait::st before the signal",
    ),
    Rule(
        "st, barrier, mma reads A",
        ST + WAIT_ST + "EDGE" + one(MMA_TS + COMMIT, "I") + DONE,
        "bar.sync 0;",
        says="missing: a",
    ),
    Rule(
        "ld, mma overwrites",
        LD + "EDGE bar.sync 0;" + one(MMA + COMMIT, "I") + DONE + WAIT_LD,
        WAIT_LD,
        says="missing: a tcgen05.wait::ld, or a use of the loaded registers",
    ),
    Rule(
        "ld used, mma overwrites",
        LD + "EDGE bar.sync 0;" + one(MMA + COMMIT, "I") + DONE + USE,
        USE,
        says="use of the loaded registers",
    ),
    Rule(
        "ld, st by the same warp",
        LD + "EDGE" + ST + WAIT_ST + WAIT_LD,
        WAIT_LD,
        says="tcgen05.wait::ld",
    ),
    Rule(
        "relaxed signal after a tcgen05.fence",
        ST
        + WAIT_ST
        + "EDGE"
        + ALL_ARRIVE.replace("EDGE", "relaxed")
        + ALL_DONE
        + one(MMA_TS + COMMIT, "I")
        + DONE,
        BEFORE,
    ),
    Rule(
        "a tcgen05.fence waits for no store",
        ST
        + "EDGE"
        + BEFORE
        + ALL_ARRIVE.replace("EDGE", "relaxed")
        + ALL_DONE
        + one(MMA_TS + COMMIT, "I")
        + DONE
        + WAIT_ST,
        WAIT_ST,
    ),
    Rule(
        "a tcgen05.fence orders no shared memory",
        "@%q10 st.shared.b32 [%r2], %r0; fence.proxy.async;"
        + BEFORE
        + ALL_ARRIVE
        + ALL_DONE
        + one(MMA + COMMIT, "I")
        + DONE,
        "release",
        code="race-shared",
        broken="relaxed",
    ),
    Rule(
        "release arrival",
        ST + WAIT_ST + ALL_ARRIVE + ALL_DONE + one(MMA_TS + COMMIT, "I") + DONE,
        "release",
        broken="relaxed",
    ),
    Rule(
        "generic write, mma operand",
        "@%q1 st.shared.b32 [%r2], %r0; EDGE bar.sync 0;" + one(MMA + COMMIT, "I") + DONE,
        "fence.proxy.async.shared::cta;",
        code="race-shared",
        says="fence.proxy.async.shared::cta",
    ),
    Rule(
        "stores of several lanes, mma operand by one",
        (
            "@%q8 bra STORED; mul.lo.u32 %r14, %r0, 4; add.u32 %r14, %r2, %r14; "
            "st.shared.b32 [%r14], %r0; fence.proxy.async; EDGE STORED:"
        )
        + one(MMA + COMMIT, "I")
        + DONE,
        "bar.warp.sync -1;",
        code="race-shared",
        says="missing: a bar.warp.sync",
    ),
    Rule(
        "tma refill of an operand",
        one(MMA + COMMIT + "EDGE" + TMA + FILLED, "I") + DONE,
        DONE.replace("DONE", "D1"),
        code="race-shared",
    ),
    Rule(
        "tma load, mma operand",
        one(
            "fence.proxy.async;" + TMA + "EDGE" + MMA + COMMIT + FILLED.replace("FILLED", "F2"), "I"
        )
        + DONE,
        FILLED,
        code="race-shared",
        says="mbarrier",
    ),
    Rule(
        "mmas of two warps",
        one(MMA + COMMIT, "I")
        + "EDGE @!%q10 bra SECOND;"
        + MMA
        + COMMIT_2
        + "SECOND: bar.warp.sync -1;"
        + DONE
        + FILLED,
        "bar.sync 0;",
    ),
    Rule(
        "what one warp waited for, another did not",
        one("fence.proxy.async;" + TMA + FILLED + MMA + COMMIT, "I")
        + "@!%q10 bra SECOND; EDGE"
        + MMA.replace("[%r30]", "[%r30+128]")
        + COMMIT_2.replace("%r50", "%r54")
        + "SECOND: bar.warp.sync -1;"
        + DONE
        + wait("%r54", 0, "OTHER"),
        FILLED.replace("FILLED", "F2"),
        code="race-shared",
        says="mbarrier",
    ),
)
CASES = [
    pytest.param(rule, mode, seed, id=f"{rule.name}-{mode}{seed}")
    for rule in RULES
    for mode, seed in MODES
]


@pytest.mark.parametrize(("rule", "mode", "seed"), CASES)
def test_an_edge_orders_and_its_absence_is_a_race(rule: Rule, mode: str, seed: int) -> None:
    correct = rule.run(rule.edge, mode, seed)
    assert (correct.verdict, correct.findings) == ("clean", ())
    broken = rule.run(rule.broken, mode, seed)
    assert {finding.code for finding in broken.findings} == {rule.code}
    finding = broken.findings[0]
    assert rule.says in finding.message
    assert finding.source
    assert finding.source2


PIPELINED = (
    ("mma, mma on one accumulator", MMA + MMA),
    ("cp, mma that reads it", COPY + MMA_TS),
    ("mma, mma over its A", MMA_TS + MMA),
)


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize(("name", "work"), PIPELINED, ids=[name for name, _ in PIPELINED])
def test_work_of_one_thread_is_executed_in_order(
    name: str, work: str, mode: str, seed: int
) -> None:
    """The ISA promises it for the pairs of 5.3; shipped kernels rely on it for all MMAs."""
    report = Rule(name, one(work + COMMIT, "I") + DONE + LD + WAIT_LD, "").run("", mode, seed)
    assert (report.verdict, report.findings) == ("clean", ())
