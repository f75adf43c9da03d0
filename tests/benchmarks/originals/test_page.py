"""The page about Modular's kernels, from records."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.originals.__main__ import PAGE, merged
from benchmarks.originals.cases import CASES
from benchmarks.originals.page import RESULTS, render, spans

LAUNCH: dict[str, Any] = {
    "kernel": "k", "grid": [2, 1, 1], "cluster": [1, 1, 1], "warps": 4, "smem_bytes": 4096,
    "copies": [[1024, 16384], [17408, 16384], [50176, 32768]], "stores": [],
    "barriers": [1024, 1032], "columns": [[0, 128], [128, 128]], "ptx": 700, "instructions": 1000,
    "mmas": 8, "loaded": 65536, "stored": 0, "findings": {"race-tmem": 2}, "code": None,
    "cycles": {"typical": 9000, "low": 8000, "high": 10000, "model": "abc"},
}  # fmt: skip
SIDE = {"max_error": 0.01, "rms_error": 0.001, "equal": 0.75, "launches": [LAUNCH], "helpers": 0}
ROW = {"name": "2Q d128 causal", "ours": None, "theirs": {"26.7": SIDE}}


def test_neighbours_of_one_size_are_together() -> None:
    assert spans([(1024, 16384), (33792, 16384), (17408, 16384)]) == "3 x 16 KiB from 1,024"
    assert spans([(0, 8), (16, 8)]) == "1 x 8 B from 0, 1 x 8 B from 16"


def test_a_row_has_all_figures() -> None:
    page = render([ROW], "1.2")
    assert "ptxas 1.2" in page
    for cell in (
        "| boxes loaded | 2 x 16 KiB from 1,024, 1 x 32 KiB from 50,176 |",
        "| boxes stored | none |",
        "| mbarriers | 2: 2 x 8 B from 1,024 |",
        "| columns | N 128 at 0, 128 |",
        "| PTX instructions | 700 |",
        "| machine instructions | - |",
        "| predicted cycles | 9,000 (8,000–10,000) |",
        "  abc.\n",
        "| checkers | `race-tmem` 2 |",
        "| 2Q d128 causal | 26.7 | 1.0e-02 | no such kernel | 75.0000% |",
    ):
        assert cell in page


def test_the_page_shows_the_record() -> None:
    record = json.loads(RESULTS.read_text())
    assert PAGE.read_text() == render(record["rows"], record["ptxas"])
    assert {row["name"] for row in record["rows"]} <= {case.name for case in CASES}


def test_a_new_record_takes_the_place_of_the_old_one() -> None:
    first, second = ({"name": case.name, "ours": 1} for case in CASES[:2])
    gone = {"name": "gone", "ours": 1}
    assert merged([second, gone], first) == [first, second]
    assert merged([first, second], {**second, "ours": 2}) == [first, {**second, "ours": 2}]
