"""Shares of pipes as a profiler counts them, the steady state, and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.timing import blackwell, ladder
from benchmarks.timing.claims.table import CLAIMS
from sm100sim.timing.chips import load_chip
from sm100sim.timing.model import run_cluster
from sm100sim.timing.records import LaunchTrace
from testing.clocked import Program, op

STEP = [op("MUFU.EX2 R0, R1"), op("FFMA2 R0, R2, R4, R6"), op("IADD3 R0, R2, R3, R4"), op("NOP")]
STEPS = (blackwell.LONG - blackwell.SHORT) // blackwell.KEYS


def launch(steps: int) -> LaunchTrace:
    """Four warps, one a sub-partition, that execute so many steps."""
    program = Program()
    for warp in range(4):
        program.warp(warp, *STEP * steps)
    trace = program.trace()
    kernel = replace(trace.kernel, arch="sm_100a")
    return LaunchTrace((1, 1, 1), (128, 1, 1), (1, 1, 1), 0, (replace(trace, kernel=kernel),))


def test_instructions_count_at_the_best_rate_of_their_pipe() -> None:
    """A packed one counts once, though it takes two cycles."""
    (trace,) = launch(100).traces
    found = blackwell.shares(trace, run_cluster(trace, load_chip("b200").draw()))
    assert (found["XU"], found["ALU"], found["FMA"]) == (800, 200, 100)
    assert found["issue"] == 400
    assert 800 < found["cycles"] < 900


def test_the_steady_state_is_what_more_steps_cost() -> None:
    found = blackwell.steady(launch(10), launch(10 + STEPS), load_chip("b200").draw())
    assert found["XU"] == 8
    assert found["issue"] == 4
    assert found["cycles"] == pytest.approx(8, abs=0.5)


def test_registers_are_given_back_to_who_spilled() -> None:
    ptx = "setmaxnreg.inc.sync.aligned.u32 \t184;\nsetmaxnreg.dec.sync.aligned.u32 80; mov.u32 80"
    assert blackwell.spilling(ptx) == (
        "setmaxnreg.inc.sync.aligned.u32 \t176;\nsetmaxnreg.dec.sync.aligned.u32 88; mov.u32 80"
    )


def test_the_page_compares_draw_by_draw() -> None:
    pair = (launch(10), launch(10 + STEPS))
    slower = (launch(10), launch(10 + 2 * STEPS))
    text = blackwell.page({"FA4": pair, "FA4 176/88/72": slower}).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text]
    found = {row[0]: row[1:] for row in rows if len(row) == 6}
    assert found["FA4"][2:] == ["1.00", "1.00 (1.00–1.00)", "at most 2,335"]
    assert float(found["FA4 176/88/72"][2]) == pytest.approx(2, abs=0.02)
    assert float(found["FA4 176/88/72"][3].partition(" ")[0]) == pytest.approx(2, abs=0.02)
    assert float(found["FA4 176/88/72"][0]) == pytest.approx(2 * float(found["FA4"][0]), abs=1)
    shares = {row[1]: row[2:] for row in rows if len(row) == 7}
    assert float(shares["XU"][0]) == pytest.approx(100, abs=8)
    assert shares["XU"][2] == "71.9"
    assert float(shares["XU"][3]) == pytest.approx(float(shares["XU"][0]) - 71.9, abs=0.11)
    assert any(line.startswith("* FA4: ") and "mufu" not in line for line in text)
    with pytest.raises(SystemExit):
        blackwell.main([])


def test_the_ratios_of_the_page_are_those_of_the_records() -> None:
    text = Path("docs/timing_blackwell.md").read_text()
    assert blackwell.with_ratios(text) == text
    assert all(f"| {claim.name} | " in text for claim in CLAIMS)
    assert all(f"| {name} | {step} |" in text for name, step in ladder.STEPS.items())


SOURCES = (
    "issue 2701", "report of July 2026", "2741", "2738", "2455", "2461", "2488", "2642", "2316",
    "flash-attention 131", "2729", "407", "517", "1521", "1591", "1654", "2799", "3395", "3590",
    "2280", "cudnn-frontend", "TIRx-kernels", "2605", "2869", "learn-cuda", "ThunderKittens",
    "Modular's matmul", "TIRx course", "CUTLASS's", "FROST", "TLX", "cuBLAS",
)  # fmt: skip
"""Who published times of kernels on a B200 or its sisters, as far as this project knows."""


@pytest.mark.parametrize("source", SOURCES)
def test_a_published_source_has_a_row_or_a_reason(source: str) -> None:
    assert source in Path("docs/timing_blackwell.md").read_text()
