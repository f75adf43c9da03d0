"""The order of kernels, and the page of GEMMs with and without measured cycles."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.timing import gemm
from benchmarks.timing.gemms import LADDER


def predicted(cycles: float) -> Any:
    band = SimpleNamespace(low=cycles * 0.9, high=cycles * 1.1)
    return SimpleNamespace(typical=SimpleNamespace(cycles=cycles), band=band)


def test_rank_correlation_counts_pairs() -> None:
    assert gemm.tau([(1, 10), (2, 20), (3, 30)]) == 1
    assert gemm.tau([(1, 30), (2, 20), (3, 10)]) == -1
    assert gemm.tau([(1, 10), (2, 30), (3, 20)]) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="1 kernels"):
        gemm.tau([(1, 1)])


def test_without_a_gpu_the_page_says_so() -> None:
    text = gemm.page([(LADDER[0], predicted(500_000))], {}, ["x: ValueError: y"])
    assert "these are predictions" in text
    peak = 2 * 4096**3 / (132 * 4096 * 500_000)
    assert f"| 500,000 | 450,000–550,000 | {peak:.0%} | – | – |" in text
    assert "* x: ValueError: y" in text


def test_with_one_the_page_has_errors_and_the_order(tmp_path: Path) -> None:
    file = tmp_path / "cycles.json"
    rows = [
        {"name": LADDER[0].name, "runner": "quack", "cycles": 500_000},
        {"name": LADDER[1].name, "runner": "quack", "cycles": 400_000},
        {"name": LADDER[2].name, "runner": "quack", "failed": "wrong"},
        {"name": "full-x", "runner": "FA4", "cycles": 1},
    ]
    file.write_text(json.dumps({"rows": rows}))
    measured = gemm.measured_by(file)
    assert len(measured) == 2
    found = [(LADDER[k], predicted(c)) for k, c in ((0, 450_000), (1, 420_000), (2, 300_000))]
    text = gemm.page(found, measured, [])
    assert "2 cases: mean size of the error 7.5%, worst -10.0%; rank correlation 1.00." in text
    assert "| 300,000 | 270,000–330,000 |" in text
    assert gemm.main([]) == 64
