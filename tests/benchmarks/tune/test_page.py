"""The page of experiments is that of the records, and says what it has to of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.tune import page
from benchmarks.tune.masked import Masked
from benchmarks.tune.records import DEFAULT, Record, model_hash
from fa4_cute.plan.config.tuning import Tuning

PAGE = Path(__file__).parents[3] / "docs" / "experiments.md"


BASE = Record("d128", DEFAULT, {}, 0, 873, 1133, {"full 1K": (100, 100)})


def test_the_page_is_that_of_the_records() -> None:
    assert PAGE.read_text() == page.current()


def test_what_is_taken_is_bold_and_ratios_are_over_the_defaults() -> None:
    faster = Record("d128", Tuning(emulated=20), {}, 0, 855, 1115, {"full 1K": (90, 90)})
    rows = page.found_rows({DEFAULT: BASE, faster.tuning: faster})
    assert rows == [
        "| defaults | 100 cycles | 873 | 1133 | 0 |",
        "| **20/64 emulated** | 0.900 (0.900–0.900) | 855 | 1115 | 0 |",
    ]


def test_records_of_an_older_model_are_called_so() -> None:
    text = page.page({"d128": {"model": "0123456789"}}, [BASE], [], [], [])
    assert "digest 01234567, which is older than that of now." in text
    text = page.page({"d128": {"model": model_hash()}}, [BASE], [], [], [])
    assert f"Judged by the timing model of digest {model_hash()[:8]}.\n" in text


def test_what_the_table_has_is_bold_until_another_wins_by_its_whole_band() -> None:
    faster = replace(BASE, tuning=Tuning(emulated=20), cycles={"full 1K": (90, 92)})
    better = replace(BASE, tuning=Tuning(emulated=24), cycles={"full 1K": (89, 93)})
    found = {record.tuning: record for record in (BASE, faster, better)}
    assert "**24/64 emulated**" in "".join(page.found_rows(found))
    assert "**20/64 emulated**" in "".join(page.found_rows(found, faster.tuning))


def test_masked_tiles_are_told_with_the_machine_that_judged_them() -> None:
    rows = [
        Masked(name, (1000, 1000), (more, more), (1, 1), (1, 1), machine="0123abcd")
        for name, more in (("d64", 30), ("fp8 d64", -40))
    ]
    text = page.masked_says(rows)
    assert "Judged by the clocked machine of state 0123abcd.\n" in text
    assert "costs little where it hides nothing: -4 to +3 % of a key tile" in text


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
