"""The page of the judges: cases with and without figures, errors, orders, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.timing.judges.page import joined, main, page
from benchmarks.timing.judges.second_round import NAMES


def said(name: str, cycles: float, **more: Any) -> dict[str, Any]:
    return {
        "runner": "R", "name": name, "ladder": "R of one", "cycles": cycles,
        "band": [cycles - 5, cycles + 5], "bound_by": "SMs", "tensor": 0.5, "resident": 1,
        "ptxas": "13", **more,
    }  # fmt: skip


def row(name: str, cycles: float) -> dict[str, Any]:
    return {"runner": "R", "name": name, "cycles": cycles, "mhz": 1700.0}


PREDICTED = {f"R: {name}": said(name, cycles) for name, cycles in (("a", 110), ("b", 90), ("c", 1))}


def test_errors_bands_and_orders() -> None:
    cases, failed = joined(PREDICTED, [row("a", 100), row("b", 94), row("c", 1)])
    assert not failed
    text = page(cases, failed, {"name": "H200", "driver_version": "1"})
    assert "| R | 3 | 4.8% | +1.9% | +10.0% | 2 |" in text
    assert "| R of one | 3 | 1.00 |" in text
    assert "3 of 3 cases are within 12%" in text


def test_what_is_not_known_is_said() -> None:
    predicted = {**PREDICTED, "R: d": {"runner": "R", "name": "d", "failed": "no way"}}
    rows = [row("a", 100), {"runner": "R", "name": "b", "failed": "wrong"}]
    cases, failed = joined(predicted, rows)
    assert failed == ["R: b: not measured: wrong", "R: d: no prediction: no way"]
    assert [case.measured for case in cases] == [100, None, None]
    text = page(cases, failed, {})
    assert "| R | b | 90 | 85–95 | 50% | SMs | – | – |" in text
    assert "those that stopped, are below" in text
    assert "those that stopped, are below" not in page(cases, [], {}), "where none are"


def test_what_came_after_stands_apart() -> None:
    rows = [row("a", 100), row("b", 90), row("c", 1)]
    (cases, failed), (again, _) = joined(PREDICTED, rows), joined({"R: a": said("a", 100)}, rows)
    text = page(cases, failed, {}, again)
    first, mark, after = text.partition("that have changed since")
    assert mark
    assert "| R | 3 | 3.3% |" in first
    assert "| R | 1 | 0.0% |" in after
    assert "| 100 | +10.0% | 100 | +0.0% |" in text
    assert "since" not in page(cases, failed, {}).partition("| kernel | case |")[2]


def test_without_a_measurement_it_says_so(tmp_path: Path) -> None:
    kept, out = tmp_path / "kept.json", tmp_path / "page.md"
    kept.write_text(json.dumps(PREDICTED))
    (tmp_path / "none.json").write_text("{}")
    assert main([str(out), str(tmp_path / "none.json"), str(kept)]) == 0
    assert "No GPU has been asked yet" in out.read_text()
    with pytest.raises(SystemExit):
        main([])
    with pytest.raises(SystemExit):
        main(["a", "b", "c", "d", "e"])


def test_the_page_is_what_the_kept_figures_say(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    assert main([str(out)]) == 0, "as the page's first line says"
    assert out.read_text() == Path("docs/timing_cycles.md").read_text()


def test_the_second_round_has_tables_of_its_own() -> None:
    name = sorted(NAMES)[0]
    predicted = {**PREDICTED, f"R: {name}": said(name, 130)}
    cases, failed = joined(predicted, [row("a", 100), row("b", 94), row("c", 1), row(name, 100)])
    first, mark, second = page(cases, failed, {}).partition("## A second round")
    assert mark
    assert "3 of 3 cases are within 12%" in first
    assert "| R | 3 | 4.8% | +1.9% | +10.0% | 2 |" in first
    assert "0 of 1 cases are within 12%" in second
    assert "| R | 1 | 30.0% | +30.0% | +30.0% | 0 |" in second
    assert "## A second round" not in page(*joined(PREDICTED, [row("a", 100)]), {})
