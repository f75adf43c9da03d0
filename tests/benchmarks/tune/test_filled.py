"""Figures in the page's text are those of the records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tune import filled
from benchmarks.tune.records import DEFAULT, Record
from fa4_cute.plan.config.tuning import Tuning


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_places_have_the_figures_of_the_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [
        {"family": "bf16 d64 all", "length": 4096, "column": "A, b", "cycles": [12345, 1]},
        {"family": "bf16 d64 all", "length": 1024, "column": "A, b", "cycles": [7, 1]},
        {"family": "other", "name": "decode, 4 x 8", "column": "A, b", "cycles": [99, 1]},
        {"family": "other", "name": "none", "column": "A, b", "refused": "so"},
    ]
    monkeypatch.setattr(filled, "load", lambda: rows)
    costs = [{"name": "2q bf16 64/64", "tile": [[0.0, 1000.4, 2.5], [1, 1, 1]],
              "persistent": [[500.6, 10, 2]]}]  # fmt: skip
    monkeypatch.setattr(filled, "FILE", written(tmp_path / "costs", costs))
    launch = {"launches": [{"code": {"t1": 857}}]}
    results = {"rows": [{"name": "2Q", "theirs": {"26.7": launch}}]}
    monkeypatch.setattr(filled, "RESULTS", written(tmp_path / "results", results))
    text = (
        "{{cycles: A, b: bf16 d64 all, 4,096}} {{cycles: A, b: decode, 4 x 8}} "
        "{{cost: 2q bf16 64/64: tile: tile}} {{cost: 2q bf16 64/64: persistent: start}} "
        "{{cost: 2q bf16 64/64: tile: 1,024}} {{T1: 2Q: 26.7}}."
    )
    assert filled.filled(text) == "12,345 99 1,000 501 2,560 857."


def test_places_of_the_search_and_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Record("d8", DEFAULT, {}, 0, 858, 1099, {"a": (100, 100), "b": (100, 100)})
    cycles: dict[str, tuple[int, ...]] = {"a": (81, 81), "b": (64, 64)}
    other = replace(base, tuning=Tuning(emulated=20), t1=1042, cycles=cycles)
    monkeypatch.setattr(filled, "load_searched", lambda: ({}, [base, other]))
    assert filled.filled("{{stalls: d8: 20/64 emulated: t1}}") == "1,042"
    assert filled.filled("{{more: d8: defaults: turn: 1,050}}") == "49"
    shown = "{{band: d8: 20/64 emulated: defaults: %s}}"
    assert filled.filled(shown % "b") == "0.640 (0.640–0.640)"
    assert filled.filled(shown % "all") == "0.720 (0.720–0.720)"
    assert filled.filled("{{ring: bf16: 128/128}}") == "5 that K and V take in turn"
    assert filled.filled("{{ring: bf16: 64/64}}") == "6 of each"


@pytest.mark.parametrize(
    "place", ["cycles: A: bf16 d64 all, 5", "cost: none: tile: tile", "T1: none: 26.7", "other: a",
              "stalls: d128: 1/64 emulated: t1", "stalls: d128: defaults: t2"]
)
def test_a_place_without_a_record_is_an_error(place: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        filled.filled("{{" + place + "}}")
