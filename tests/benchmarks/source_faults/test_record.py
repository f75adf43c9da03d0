"""The record of faults in the source: verdicts, and what makes one old."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.source_anchors import Edit, Fault
from benchmarks.source_faults import record
from benchmarks.source_faults.record import digests, is_of_now, killer, read, tidy, untried, verdict

EDIT = Edit("fa4_cute/work/row.py", 3, 0, 1, b"", "def f(x): return x")
FAULT = Fault("row.f", "x", "0", ("2q",))


def test_verdicts() -> None:
    argued = replace(FAULT, reason="why")
    assert [verdict(f, how) for f in (FAULT, argued) for how in ("2q: wrong", None)] == [
        "killed", "SURVIVES", "KILLED ALTHOUGH ARGUED", "argued",
    ]  # fmt: skip


def test_a_verdict_is_of_now_until_its_function_or_its_killers_change() -> None:
    row = {**untried(FAULT, EDIT), "how": "2q: wrong"}
    assert row["fault"] == "row.f: x  ->  0"
    assert row["path"] == EDIT.path
    assert is_of_now(row, FAULT, EDIT)
    assert is_of_now(row, FAULT, replace(EDIT, line=4, start=9, stop=10))
    assert not is_of_now(row, FAULT, replace(EDIT, function="def f(x): return x + 1"))
    assert not is_of_now(row, replace(FAULT, killers=("1q",)), EDIT)
    assert not is_of_now(row, replace(FAULT, killers=("2q", "1q")), EDIT)
    assert not is_of_now(None, FAULT, EDIT)


def test_a_probe_is_known_by_its_calls_in_every_process() -> None:
    """The order of a set of features differs from process to process, addresses do too."""
    query = killer("2q-query")
    assert "0x" not in query
    assert '"per_query"' in query
    assert '["causal", "ragged", "sink"]' in killer("2q-ragged")
    assert killer("2q-ragged") != killer("1q-ragged")


def test_a_field_that_calls_do_not_set_says_nothing_of_a_probe() -> None:
    """A field that cases get later leaves the verdicts of older probes as they are."""
    assert '"softmax_scale"' not in killer("2q")
    assert '"scale": "40.0"' in killer("2q")
    assert '"more": "tight"' in killer("2q-page")


def test_tests_are_known_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "ROOT", tmp_path)
    (tmp_path / "tests" / "plan").mkdir(parents=True)
    name, folder = "tests/plan/test_a.py", Fault("row.f", "x", "0", ("tests/plan",))
    one = replace(folder, killers=(f"{name}::test_b[1]",))
    seen = []
    for text in ("1", "2"):
        killer.cache_clear()
        (tmp_path / name).write_text(text)
        seen += [digests(folder, EDIT)["killers"], digests(one, EDIT)["killers"]]
    killer.cache_clear()
    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_the_last_row_of_a_fault_counts_and_lost_faults_go(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    assert read(path) == {}
    other = replace(FAULT, old="y")
    names = [str(FAULT), "gone", str(other), str(FAULT)]
    rows = [{"fault": name, "how": n} for n, name in enumerate(names)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(path)[str(FAULT)] == rows[3]
    tidy([other, replace(FAULT, old="new"), FAULT], path)
    assert list(read(path).values()) == [rows[2], rows[3]]
    assert len(path.read_text().splitlines()) == 2


def test_the_report_has_every_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [FAULT, replace(FAULT, old="y", reason="nobody asks"), replace(FAULT, old="z")]
    monkeypatch.setattr(record, "resolved", lambda faults: ([(f, EDIT) for f in faults], []))
    rows = {str(f): {**untried(f, EDIT), "how": None} for f in faults[:2]}
    rows[str(FAULT)] |= {"how": "2q: wrong", "function": "another"}
    told = record.report(faults, rows)
    assert [(row["verdict"], row["of_now"]) for row in told] == [
        ("killed", False), ("argued", True), ("not tried", False),
    ]  # fmt: skip
    assert told[1]["reason"] == "nobody asks"
