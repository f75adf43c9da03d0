"""The Hopper table before and after."""

from __future__ import annotations

import pytest

from benchmarks.hopper.times import before
from testing.site.markdown import ROOT

PAGE = """## A

| head dim | keys | length | batch | fa4_cute | FA4 | × best rival | SM MHz |
|---|---|---|---|---|---|---|---|
| 64 | all | 512 | 32 | 400 | 800 | 0.50 | 1980 |
| 64 | all | 1,024 | 16 | 400 | 200 | 2.00 | 1980 |
| 64 | all | 2,048 | 16 | 400 |  |  | 1980 |

## B

| head dim | keys | length | batch | fa4_cute | × best rival |
|---|---|---|---|---|---|
| 128 | causal | 512 | 32 | 400 | 1.50 |
"""


def test_rows_with_a_rival_are_compared() -> None:
    was = list(before.rows(PAGE))
    assert [row.ratio for row in was] == [0.5, 2.0, 1.5]
    now = list(before.rows(PAGE.replace("0.50", "1.00")))
    lines = list(before.table(was, now))
    assert lines[0] == "| head dim | keys | 512 | 1,024 | mean |"
    assert lines[2] == "| 64 | all | 0.50 -> 1.00 | 2.00 -> 2.00 | 1.00 -> 1.41 |"
    assert lines[-2:] == ["| A | 2 | 1.00 -> 1.41 | 0.50 -> 1.00 |",
                          "| B | 1 | 1.50 -> 1.50 | 1.50 -> 1.50 |"]  # fmt: skip


def test_other_problems_are_refused() -> None:
    was, now = (list(before.rows(page)) for page in (PAGE, PAGE.replace("1,024", "4,096")))
    with pytest.raises(ValueError, match="A 64 all: the two pages have other problems"):
        list(before.table(was, now))


def test_the_page_has_the_table_of_both_records() -> None:
    now = list(before.rows((ROOT / "docs" / "hopper_times.md").read_text()))
    lines = "\n".join(before.table(before.recorded(), now))
    assert f"\n{lines}\n" in (ROOT / "docs" / "hopper.md").read_text()
    assert len(now) > len(before.recorded()) == 98
