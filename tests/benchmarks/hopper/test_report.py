from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.report import host_costs, rate, ratio, refusals, render
from benchmarks.hopper.times.timing import Times
from testing.site.markdown import ROOT

FULL = Problem("full", 4, 4096, 4096, 16, 16, 128, 128)
PAGED = Problem("paged", 16, 1, 16384, 32, 8, 128, 128, page=64)


def test_pages_quote_the_measured_table() -> None:
    """Mean and lowest of README and docs/hopper.md are those of docs/hopper_times.md."""
    table = (ROOT / "docs" / "hopper_times.md").read_text()
    told = re.search(r"Geometric mean (\d\.\d+), lowest (\d\.\d+)\.", table)
    assert told
    mean, lowest = (f"{float(figure):.2f}" for figure in told.groups())
    for page, words in (
        ("README.md", f"are {mean} times as fast as\n  with the fastest rival (geometric mean, "),
        ("docs/hopper.md", f"geometric mean of all 70 rows: {mean}; "),
    ):
        text = (ROOT / page).read_text()
        assert f"{words}lowest {lowest}" in text, page


def row(problem: Problem, refused: dict[str, str] | None = None, **ms: float) -> dict[str, Any]:
    results = {name: {"ms": value, "note": ""} for name, value in ms.items()}
    clocks = {"sm_mhz": 1755.0}
    rows = {"problem": asdict(problem), "results": results, "clocks": clocks}
    return {**rows, "refused": refused or {}}


def found(*rows: dict[str, Any]) -> dict[str, Any]:
    card = {"name": "NVIDIA H200", "driver_version": "580.1", "clocks.max.sm": "1980 MHz"}
    return {
        "card": card, "copy_gb_s": 4000.0, "versions": {"torch": "2.11"}, "rounds": 30,
        "cold": True, "rows": list(rows),
    }  # fmt: skip


def test_rates() -> None:
    assert rate(FULL, 1.0) == pytest.approx(549.755813888)
    assert rate(PAGED, 1.0) == pytest.approx(PAGED.bytes() / 1e6)


def test_the_ratio_is_to_the_fastest_rival() -> None:
    assert ratio(row(FULL, fa4_cute=1.0, FA2=2.0, cuDNN=1.1)) == pytest.approx(1.1)
    assert ratio(row(FULL, FA2=2.0)) is None
    assert ratio(row(FULL, fa4_cute=1.0)) is None


def test_the_page_has_figures_ratios_clocks_and_reasons() -> None:
    causal = replace(FULL, causal=True)
    refused = {"fa4_cute": "NotImplementedError: later"}
    page = render(
        found(
            row(FULL, fa4_cute=0.9, cuDNN=0.99, FA4=1.8),
            row(causal, refused, cuDNN=0.5),
            row(PAGED, fa4_cute=0.4, FA4=0.5),
        )
    )
    assert "| 128 | all | 4,096 | 4 | 611 | 305 | 555 | 1.10 | 1755 |" in page
    assert "| 128 | causal | 4,096 | 4 | no kernel | – | 550 |  | 1755 |" in page
    assert "Geometric mean 1.100, lowest 1.100." in page
    share = PAGED.bytes() / 0.4 / 1e6 / 4000
    assert f"| 1.25 | {share:.0%} | 1755 |" in page
    assert "| 128 | pages of 64 | 16,384 | 16 |" in page
    assert "* fa4_cute, 1 problems: NotImplementedError: later" in page
    assert "NVIDIA H200" in page
    assert "Driver 580.1; torch 2.11." in page
    assert "L2: overwritten before each run." in page


def test_equal_reasons_are_counted_once() -> None:
    rows = [row(FULL, {"FA4": "none"}), row(PAGED, {"FA4": "none", "FA2": "none"})]
    assert refusals(rows) == ["* FA2, 1 problems: none", "* FA4, 2 problems: none"]


def test_the_cost_of_a_call_is_the_median_over_problems() -> None:
    rows = [row(FULL, fa4_cute=1.0, FA2=1.0) for _ in range(3)]
    for one, cost in zip(rows, (20.0, 11.0, 12.0), strict=True):
        one["results"]["fa4_cute"]["host_us"] = cost
    assert host_costs(rows) == ["* fa4_cute: 12.0 µs"]
    assert "* fa4_cute: 12.0 µs" in render(found(*rows))
    assert "on the host" not in render(found(row(FULL, FA2=1.0)))


def test_the_median_and_its_spread() -> None:
    times = Times((1.0, 2.0, 3.0, 4.0, 100.0))
    assert times.median == 3.0
    assert times.spread == pytest.approx((52.0 - 1.5) / 2 / 3)
    assert Times((1.0,)).spread == 0.0
