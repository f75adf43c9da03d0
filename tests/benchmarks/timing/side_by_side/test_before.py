"""The side-by-side page before and after: one record, one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.timing.side_by_side import records
from benchmarks.timing.side_by_side.before import table


def row(column: str, cycles: list[int], length: int = 1024, **more: Any) -> dict[str, Any]:
    return {"family": "bf16 d64 all", "length": length, "column": column, "cycles": cycles,
            "compiler": column[-2:], "model": "then", **more}  # fmt: skip


OURS, FA4, OTHER = "fa4_cute, CUDA 13", "FA4, CUDA 13", "Modular 26.7, CUDA 13"
BEFORE = [
    row(OURS, [100, 100, 100]), row(FA4, [90, 90, 80]),
    row(OURS, [50, 50, 50], 4096), row(FA4, [60, 60, 60], 4096),
]  # fmt: skip
NOW = [
    row(OURS, [80, 80, 80]), row(FA4, [100, 100, 90]), row(OTHER, [84, 84, 79]),
    row(OURS, [50, 50, 50], 4096), row(FA4, [60, 60, 60], 4096), row(OURS, [1, 1, 1], 16384),
]  # fmt: skip


def test_each_ratio_is_by_the_rows_of_its_day() -> None:
    head, *lines = table.section(BEFORE, NOW)
    assert "| bf16 d64 all, 1,024 | 100 | 80 | 0.800 | 0.900 FA4, CUDA 13 | " in lines[6]
    assert lines[6].endswith("| 1.250 FA4, CUDA 13 | 1.050 Modular 26.7, CUDA 13 |")
    assert lines[7].count("1.200 FA4, CUDA 13") == 3
    assert lines[2] == "| FA4, CUDA 13 | 2 | 1/0/1 -> 2/0/0 | 1.039 -> 1.225 | 1.010 -> 1.194 |"
    text = " ".join(head.split())
    assert "Of 3 problems of now 2 were there, 2 of them beside another package, and in 1" in text
    assert "now in 0." in text  # Modular's lowest draw is behind, its band is not
    assert "(then), so cycles" in text
    assert "its 2 rows take 1.054" in text
    assert "(1.00 to 1.11)" in text
    assert "take 0.894, so that some 0.85 are left" in text
    assert "The means of the 2 are 1.039, 1.225 and 1.122." in text


def test_a_row_without_one_of_this_package_is_an_error() -> None:
    with pytest.raises(AssertionError, match="bf16 d64 all, 1,024 has no row of this package"):
        list(table.section(BEFORE, NOW[1:3]))


def test_all_rows_of_before_are_still_problems_of_the_page() -> None:
    before, now = records.load(table.RECORDS), records.load()
    assert {records.key(row) for row in before} <= {records.key(row) for row in now}
    page = Path("docs/side_by_side.md").read_text()
    assert "\n".join(table.section(before, now)) in page
    shown = [row for row in before if row["column"] == table.SHOWN]
    assert len(shown) == 47
    for one in shown:
        assert f"| {one['cycles'][0]:,} |" in page
