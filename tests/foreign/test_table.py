from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.foreign.cases import Case, Outcome
from benchmarks.foreign.run_all import Record, measure, update
from benchmarks.foreign.table import render


def record(name: str, **changes: object) -> Record:
    fields = {"name": name, "source": "a package", "status": "ok", "relative_error": 1e-3}
    return Record(**(fields | changes))  # type: ignore[arg-type]


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


def test_new_results_replace_old_ones_of_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    update(file, [record("b"), record("a")])
    merged = update(file, [record("b", status="wrong")])
    assert [(r.name, r.status) for r in merged] == [("a", "ok"), ("b", "wrong")]


def test_a_case_is_ok_wrong_or_stopped() -> None:
    def case(run: object) -> Case:
        return Case("c", "s", (), 0.01, run)  # type: ignore[arg-type]

    def broken() -> Outcome:
        raise ValueError("no such shape")

    one = torch.ones(1)
    assert measure(case(lambda: Outcome(one, one))).status == "ok"
    assert measure(case(lambda: Outcome(one, 2 * one))).status == "wrong"
    stopped = measure(case(broken))
    assert (stopped.status, stopped.detail) == ("stopped", "ValueError: no such shape")
