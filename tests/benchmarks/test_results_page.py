"""The page of results says how much is clean, and names what is not."""

from __future__ import annotations

from benchmarks.results_page import render

ROW = {"case": "one", "kernel": "K", "verdict": "clean", "equal": True, "findings": []}
TIMES = dict.fromkeys(("plain", "fast", "late", "random"), 0.25)


def test_the_page_counts_and_names() -> None:
    bad = {**ROW, "case": "two", "verdict": "findings"}
    check = {"seeds": 16, "processor_seconds": 9.6, "rows": [{**r, **TIMES} for r in (ROW, bad)]}
    mutants = {
        "a": {"kernel": "k_a", "base": "", "shared": 0, "killed": 3, "total": 4,
              "classes": {"drop-wait": [3, 4]},
              "equivalent": {"nobody reads it": 1}, "unexplained": []},
        "b": {"kernel": "k_b", "base": "a", "shared": 1, "killed": 1, "total": 2,
              "classes": {"drop-wait": [1, 2]},
              "equivalent": {}, "unexplained": ["drop-wait@3"]},
    }  # fmt: skip
    page = render(check, mutants)
    assert "1 of 2 cases are clean, with equal bits, in 18 schedules each, in 10 s" in page
    assert "| two | K | findings | equal | 0.25 |" in page
    assert "4 of 6 planted faults are found; 2 survive, 1 of them without a reason" in page
    assert "| drop-wait | 4 | 6 |" in page
    assert "| b | `k_b` | 1 | 2 | a | 1 |" in page
    assert "| a | 1 | nobody reads it |" in page
