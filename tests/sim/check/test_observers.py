"""Observers look on: they change neither values nor the course of a run; a seed repeats a run."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned

RACY = (
    "mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mov.u32 %r7, 0; LOOP: ld.shared.b32 %r3, [%r1];"
    "mad.lo.u32 %r3, %r3, 5, %r2; st.shared.b32 [%r1], %r3; add.u32 %r7, %r7, 1;"
    "setp.lt.u32 %q0, %r7, 8; @%q0 bra LOOP;"
    "mad.wide.u32 %rd1, %r2, 4, %p0; st.global.b32 [%rd1], %r3;"
)
"""Its result depends on the order of the warps, so that any disturbance shows."""
STRICT = Check.ALL | Check.STRICT_FENCE | Check.STRICT_LANES | Check.STRICT_SCOPE


def outcome(checks: Check, mode: str, seed: int) -> tuple[bytes, int, Report]:
    out = aligned(256, np.uint32)
    report = run_ptx(
        RACY, out, block=256, shared=SMEM, smem=256, checks=checks, mode=mode, seed=seed
    )
    return out.tobytes(), report.instructions, report


@pytest.mark.parametrize(("mode", "seed"), [("fast", 0), ("late", 0), ("random", 3), ("random", 4)])
@pytest.mark.parametrize(
    "checks", [Check.STRICT_LD, Check.RACES, Check.PROTOCOL, Check.UNINITIALISED, Check.ALL, STRICT]
)
def test_watching_changes_nothing(checks: Check, mode: str, seed: int) -> None:
    assert outcome(checks, mode, seed)[:2] == outcome(Check.NONE, mode, seed)[:2]


def test_a_seed_repeats_a_run_and_seeds_differ() -> None:
    runs = [outcome(Check.ALL, "random", seed) for seed in range(8)]
    again = [outcome(Check.ALL, "random", seed) for seed in range(8)]
    assert [r[:2] for r in runs] == [r[:2] for r in again]
    assert [r[2].findings for r in runs] == [r[2].findings for r in again]
    assert len({r[0] for r in runs}) > 1
