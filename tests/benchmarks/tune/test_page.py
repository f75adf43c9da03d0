"""The page of experiments is that of the records, and says what it has to of each."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tune import page
from benchmarks.tune.records import DEFAULT, Record
from fa4_cute.plan.config.tuning import Tuning

PAGE = Path(__file__).parents[3] / "docs" / "experiments.md"


def test_the_page_is_that_of_the_records() -> None:
    assert PAGE.read_text() == page.current()


def test_what_is_taken_is_bold_and_ratios_are_over_the_defaults() -> None:
    base = Record("d128", DEFAULT, {}, 0, 873, 1133, {"full 1K": (100, 100)})
    faster = Record("d128", Tuning(emulated=20), {}, 0, 855, 1115, {"full 1K": (90, 90)})
    rows = page.found_rows({DEFAULT: base, faster.tuning: faster})
    assert rows == [
        "| defaults | 100 cycles | 873 | 1133 | 0 |",
        "| **20/64 emulated** | 0.900 (0.900–0.900) | 855 | 1115 | 0 |",
    ]


def test_an_experiment_says_what_was_expected_and_what_came() -> None:
    entry = {
        "idea": "this", "before": "that", "expected": "more", "tile": [0.9, 1.0, 1.1],
        "start": [0.8, 0.9, 1.0], "t1": 1, "turn": 2, "spills": 0, "why": "so",
    }  # fmt: skip
    row = page.tried_row(entry)
    assert row == (
        "| this | that | more | 1.000 (0.900–1.100) | 0.900 (0.800–1.000) | 1 | 2 | 0 | so |"
    )
    launch = {"idea": "order", "expected": "less", "obtained": "0.9", "why": "ends"}
    text = page.page({}, [], [entry], [launch], [])
    assert "| order | less | 0.9 | ends |" in text
    assert "### d128\n\nNot searched yet" in text
    assert row in text
