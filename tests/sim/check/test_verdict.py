"""Verdicts: what had to be dropped, or did not end, is never called clean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import SimulationFault
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned

TWO_RACES = (
    "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x;\nst.shared.b32 [%r1], %r3;"
    "\nst.shared.b32 [%r1+64], %r3;"
)
SHAPE: dict[str, Any] = {"block": 64, "shared": SMEM, "smem": 256, "checks": Check.RACES}


@pytest.mark.parametrize(
    ("cap", "verdict", "complete"),
    [(8, "findings", True), (1, "findings", False), (0, "incomplete", False)],
)
def test_dropped_findings_are_told_of(cap: int, verdict: str, complete: bool) -> None:
    report = run_ptx(TWO_RACES, max_findings=cap, **SHAPE)
    assert (report.verdict, report.complete) == (verdict, complete)
    assert len(report.findings) == min(cap, 2)


BARRIER = (
    "mov.u32 %r1, dyn; mov.u32 %r2, 0; L: mbarrier.init.shared.b64 [%r1], 1; "
    "mbarrier.inval.shared.b64 [%r1];"
    "add.u32 %r2, %r2, 1; setp.lt.u32 %q0, %r2, {}; @%q0 bra L;"
)


@pytest.mark.parametrize(("count", "verdict"), [(500, "clean"), (600, "incomplete")])
def test_more_barriers_than_are_told_apart(count: int, verdict: str) -> None:
    report = run_ptx(BARRIER.format(count), block=1, shared=SMEM, smem=64, checks=Check.RACES)
    assert (report.verdict, report.findings) == (verdict, ())


REDUCE = (
    "mov.u32 %r1, dyn; mov.u32 %r2, 0; st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2}; "
    "fence.proxy.async;"
    "L: cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p0], [%r1], 16; "
    "add.u32 %r2, %r2, 1;"
    "setp.lt.u32 %q0, %r2, {}; @%q0 bra L; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
)


def test_reductions_of_one_thread_need_no_history_of_their_own() -> None:
    text = REDUCE.replace("{}", "200")
    report = run_ptx(text, aligned(4, np.uint32), block=1, shared=SMEM, smem=64, checks=Check.ALL)
    assert (report.verdict, report.complete) == ("clean", True)


def counters(ctas: int) -> str:
    """Each cluster counts itself; the last one has learnt of all."""
    return "atom.acq_rel.gpu.global.add.u32 %r3, [%p0], 1; ld.global.b32 %r4, [%p0+64];"


@pytest.mark.parametrize(("ctas", "verdict"), [(60, "clean"), (80, "incomplete")])
def test_more_finished_clusters_than_can_be_learnt_of(ctas: int, verdict: str) -> None:
    out = aligned(64, np.uint32)
    report = run_ptx(counters(ctas), out, checks=Check.RACES, block=1, grid=(ctas, 1, 1))
    assert (report.verdict, report.findings) == (verdict, ())
    assert out[0] == ctas


def test_reads_of_every_warp_and_word_of_a_cell_are_told_apart() -> None:
    """A cell of the history is 16 bytes: four words that 32 warps read one after the other."""
    words = "".join(f"ld.global.b32 %r{i}, [%p0+{4 * i}];" for i in range(4))
    loop = f"mov.u32 %r5, 0; L: {words} add.u32 %r5, %r5, 1; setp.lt.u32 %q0, %r5, 3; @%q0 bra L;"
    report = run_ptx(loop, aligned(64, np.uint32), checks=Check.RACES, block=1024)
    assert (report.verdict, report.complete) == ("clean", True)


def test_a_run_that_stops_is_not_clean() -> None:
    body = "mov.u32 %r1, dyn; mbarrier.init.shared.b64 [%r1], 1;" + (
        "W: mbarrier.try_wait.parity.shared.b64 %q0, [%r1], 0, 100; @!%q0 bra W;"
    )
    shape: dict[str, Any] = {"block": 1, "shared": SMEM, "smem": 64}
    report = run_ptx(body, raise_on_fault=False, **shape)
    assert (report.verdict, report.complete) == ("findings", False)
    assert report.findings[-1].fatal
    with pytest.raises(SimulationFault, match="deadlock"):
        run_ptx(body, **shape)
