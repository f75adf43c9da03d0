from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.foreign.cases import Case, Outcome
from benchmarks.foreign.run_all import PAGE, RESULTS, Record, in_order, measure, update
from benchmarks.foreign.table import FINDINGS, render
from sm100sim.options import current_options
from sm100sim.report import Report, keep


def record(name: str, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "name": name, "source": "a package", "status": "ok", "relative_error": 1e-3,
    }  # fmt: skip
    return Record(**(fields | changes))


def test_the_page_counts_and_lists_what_ran() -> None:
    page = render(
        [
            record("good", instructions=1234),
            record("bad", status="stopped", detail="PtxError: a | b\nc", relative_error=None),
        ]
    )
    assert "1 of 2 ran within their tolerance" in page
    assert "| `good` | ok | 1.0e-03 | 0e+00 | 1,234 |" in page
    assert "stopped: PtxError: a \\| b c" in page


def test_every_finding_of_the_results_is_explained_in_one_place() -> None:
    reported = {code for row in json.loads(RESULTS.read_text()) for code in row["findings"]}
    explained = set(re.findall(r"`([a-z0-9-]+)`", FINDINGS.read_text()))
    assert reported
    assert reported <= explained


def test_the_page_is_what_the_results_give() -> None:
    rows = [Record(**row) for row in json.loads(RESULTS.read_text())]
    assert PAGE.read_text() == render(rows)


def test_new_results_replace_old_ones_of_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    update(file, [record("b"), record("a")])
    merged = update(file, [record("b", status="wrong")])
    assert [(r.name, r.status) for r in merged] == [("a", "ok"), ("b", "wrong")]


def test_launches_are_added_up() -> None:
    def run() -> Outcome:
        for n, code in ((5, "a"), (7, "b"), (1, "a")):
            found: Any = (SimpleNamespace(code=code),)
            one = Report.not_run("k", (1, 1, 1), (1, 1, 1), (1, 1, 1))
            keep(replace(one, instructions=n, findings=found))
        return Outcome(torch.ones(1), torch.ones(1))

    measured = measure(Case("c", "s", 0.01, run))
    assert (measured.instructions, measured.findings) == (13, ("a", "b"))


def test_a_case_is_ok_wrong_or_stopped() -> None:
    def case(run: Any) -> Case:
        return Case("c", "s", 0.01, run)

    def broken() -> Outcome:
        raise ValueError("no such shape")

    one = torch.ones(1)
    assert measure(case(lambda: Outcome(one, one))).status == "ok"
    assert measure(case(lambda: Outcome(one, 2 * one))).status == "wrong"
    asserted = measure(case(lambda: None))
    assert (asserted.status, asserted.relative_error) == ("ok", None)
    stopped = measure(case(broken))
    assert (stopped.status, stopped.detail) == ("stopped", "ValueError: no such shape")


def test_a_case_that_fails_where_work_lands_at_once_runs_by_modelled_time() -> None:
    """Its line says so, with what is known about it."""
    one = torch.ones(1)

    def case(passing: str) -> Case:
        return Case("c", "s", 0.01, lambda: Outcome(one, one * (current_options().mode == passing)))

    assert [(r.status, r.mode) for r in map(in_order, map(case, ("fast", "timed", "late")))] == [
        ("ok", "fast"), ("ok", "timed"), ("wrong", "timed"),
    ]  # fmt: skip
    page = render([record("lucky", mode="timed", note="a race")])
    assert "| `lucky` | ok, not where work lands at once — a race | " in page
