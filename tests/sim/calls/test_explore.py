"""`sm100sim.explore`: schedules, their verdicts, and how the first that fails is repeated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sm100sim
from sm100sim.calls.explore import ExplorationError, orders
from sm100sim.calls.values import checksum
from sm100sim.options import Check
from testing.harness import SMEM, run_ptx

WHO = "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, dyn; add.u32 %r3, %r3, %r2;\n"
EXCHANGE = (
    WHO + "st.shared.u32 [%r3], %r1; BARRIER\n"
    "xor.b32 %r4, %r2, 252; mov.u32 %r3, dyn; add.u32 %r3, %r3, %r4; ld.shared.u32 %r5, [%r3];\n"
    "mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %p0; st.global.u32 [%rd1], %r5;"
)
"""Threads hand their numbers to the other warp through shared memory."""


def exchange(barrier: str = "bar.sync 0;") -> np.ndarray:
    out = np.zeros(64, np.uint32)
    current = sm100sim.options.current_options()
    names = ("mode", "seed", "checks", "suppressions", "raise_on_fault")
    run_ptx(
        EXCHANGE.replace("BARRIER", barrier), out, shared=SMEM, smem=256, block=64,
        **{name: getattr(current, name) for name in names},
    )  # fmt: skip
    return out


def test_a_correct_program_is_clean_under_all_schedules() -> None:
    found = sm100sim.explore(exchange, schedules=6)
    assert [(s.mode, s.seed) for s in found.schedules] == orders(6)
    assert [s.order for s in found.schedules][:4] == ["timed", "fast", "late", "random 1"]
    assert {s.verdict for s in found.schedules} == {found.verdict} == {"clean"}
    assert (found.findings, found.first_failing) == ((), None)
    assert len(found.reports) == 6
    assert len({s.values for s in found.schedules}) == 1
    assert found.schedules[0].values == checksum(np.arange(64, dtype=np.uint32)[::-1])
    assert repr(found) == "<Exploration: clean, 6 of 6 schedules clean, 0 findings>"


def test_findings_are_merged_and_the_first_schedule_is_repeatable() -> None:
    found = sm100sim.explore(lambda: exchange(""), schedules=5, checks="races")
    assert found.verdict == "findings"
    places = [(m.finding.code, m.finding.line, m.finding.line2) for m in found.findings]
    assert len(set(places)) == len(places)
    assert any(len(merged.schedules) > 1 for merged in found.findings)
    first = found.first_failing
    assert first is not None
    with sm100sim.run_options(**found.repeating(first)), sm100sim.record() as again:
        exchange("")
    assert [r.findings for r in again] == [r.findings for r in first.reports]
    shown = found.summary()
    assert f"  repeat the first: run_options(mode={first.mode!r}, seed={first.seed}, " in shown
    assert "checks='races')" in shown
    assert "race-shared: " in shown
    assert "race-shared" in found._repr_html_()


def test_values_that_depend_on_the_order_are_seen_without_checks() -> None:
    found = sm100sim.explore(lambda: exchange(""), schedules=18, checks=Check.NONE)
    assert {s.verdict for s in found.schedules} == {"clean", "differs"}
    assert found.schedules[0].verdict == "clean"


def test_exploration_raises_on_request_and_stops_at_the_first() -> None:
    with pytest.raises(ExplorationError, match="race-shared") as caught:
        sm100sim.explore(
            lambda: exchange(""), stop_at_first=True, raise_on_findings=True, checks="races"
        )
    ran = caught.value.exploration.schedules
    assert ran[-1].verdict == "findings"
    assert {s.verdict for s in ran[:-1]} <= {"clean"}


def test_faults_errors_and_silence_have_verdicts() -> None:
    def stopping() -> None:
        run_ptx("trap;")

    def wrong() -> None:
        assert exchange()[0] == 5

    def failing() -> None:
        raise KeyError("no launch")

    assert sm100sim.explore(stopping, schedules=2).verdict == "fault"
    found = sm100sim.explore(wrong, schedules=2)
    assert found.verdict == "error"
    assert "its error: AssertionError" in found.summary()
    assert sm100sim.explore(lambda: None, schedules=2).verdict == "incomplete"
    with pytest.raises(KeyError):
        sm100sim.explore(failing)
    with pytest.raises(ValueError, match="schedules: 0"):
        sm100sim.explore(exchange, schedules=0)
    with pytest.raises(TypeError, match="mood: no such option"):
        sm100sim.explore(exchange, mood="late")


def test_suppressions_and_their_use() -> None:
    used = sm100sim.Suppression("race-shared", "tested", ptx="shared")
    spare = sm100sim.Suppression("race-global", "tested")
    found = sm100sim.explore(
        lambda: exchange("").sum(), schedules=2, checks="races", suppressions=[used, spare]
    )
    assert found.findings == ()
    assert found.unused == (spare,)
    assert "suppression without use: race-global: tested" in found.summary()


def test_checksums_tell_bits_types_and_shapes_apart() -> None:
    values = [
        np.zeros(4), np.zeros((2, 2)), np.zeros(8, np.float32), np.array([0.0, 0.0, 0.0, -0.0]),
        torch.zeros(4, dtype=torch.bfloat16), b"", 1, 1.0, True, "1", [1, 2], {"a": 1}, (1, [3]),
    ]  # fmt: skip
    assert len({checksum(value) for value in values}) == len(values)
    assert checksum([np.zeros(4)]) == checksum(np.zeros(4))
    assert checksum(torch.ones(3).double()) == checksum(torch.ones(3).double())
    assert checksum(None) == checksum([object()]) == ""
