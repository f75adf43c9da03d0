"""The page of results says how much is clean, and names what is not."""

from __future__ import annotations

from typing import Any

from benchmarks.mutants import recorded
from benchmarks.results_page import PAGE, SECTIONS, render, sections_of

ROW = {"case": "one", "kernel": "KernelSpec", "verdict": "clean", "equal": True, "findings": []}
MUTANTS = {
    "a": {"kernel": "k_a", "ptx": "0123456789abcdef", "base": "", "shared": 0,
          "killed": 3, "total": 4,
          "classes": {"drop-wait": [3, 4]},
          "equivalent": {"nobody reads it": 1}, "unexplained": []},
    "b": {"kernel": "k_b", "ptx": "fedcba9876543210", "base": "a", "shared": 1,
          "killed": 0, "total": 2,
          "classes": {"drop-wait": [0, 2]},
          "equivalent": {"nobody reads it": 1}, "unexplained": ["drop-wait@3"]},
}  # fmt: skip


def words(report: str, content: Any) -> str:
    """The page of one report, as one line of words."""
    return " ".join(render("", {report: content}).split())


def test_cases_are_counted_and_kernels_have_the_names_of_their_classes() -> None:
    bad = {**ROW, "case": "two", "kernel": "Depth512Spec", "verdict": "findings",
           "findings": ["race-shared: line 3"]}  # fmt: skip
    page = words("check", {"seeds": 16, "rows": [ROW, bad]})
    assert "1 of 2 cases are clean under every checker, with equal bits in 18 schedules" in page
    assert "float64" not in page
    assert "| one | SM100MHA2Q | clean | equal |" in page
    assert "| two | SM100MHADepth512 | findings | equal |" in page
    assert "* two: race-shared: line 3" in page


def test_errors_are_shown_where_the_report_has_them() -> None:
    right, wrong = {**ROW, "error": 0.00123, "wrong": []}, {**ROW, "error": 0.5, "wrong": ["O is"]}
    page = words("check", {"seeds": 16, "rows": [right, {**wrong, "case": "two"}]})
    assert "1 of 2 cases are clean" in page
    assert "All of these agree with float64." in page
    assert "| one | SM100MHA2Q | clean | equal | 1.2e-03 |" in page
    assert "* two: O is" in page


def test_mutants_are_counted_by_kernel_class_and_reason() -> None:
    page = words("mutants", MUTANTS)
    assert "3 of 6 synchronisation faults planted in PTX are found; 3 survive, 1 of them" in page
    assert "| drop-wait | 3 | 6 |" in page
    assert "| b | `k_b` | 0 | 2 | a | 1 | `fedcba98` |" in page
    assert "| 2 | a 1, b 1 | nobody reads it |" in page
    assert "* b: drop-wait@3" in page


def test_faults_in_the_source_are_counted_by_folder() -> None:
    base = {"fault": "f", "path": "fa4_cute/work/row.py", "how": None, "reason": "", "of_now": True}
    rows = [
        {**base, "verdict": "killed", "how": "dense: wrong"},
        {**base, "verdict": "killed", "how": "tests/plan/test_x.py: AssertionError"},
        {**base, "verdict": "argued", "fault": "g", "reason": "nobody asks", "of_now": False},
        {**base, "verdict": "SURVIVES", "fault": "h", "path": "fa4_cute/tma.py"},
        {**base, "verdict": "not tried", "fault": "i", "of_now": False},
    ]
    page = words("source_mutants", rows)
    assert "2 of 5 faults planted in the Python source are found, 1 of them by tests" in page
    assert "1 survive with a reason, 1 without; 1 have not been tried. 1 of these" in page
    assert "| `fa4_cute/work` | 2 | 4 | 2 |" in page
    assert "| g | nobody asks |" in page
    assert "* h: survives * i: not tried" in page


def test_a_section_without_a_report_stays() -> None:
    page = render("", {"mutants": MUTANTS})
    again = render(page, {"check": {"seeds": 1, "rows": [ROW]}})
    assert list(sections_of(again)) == ["`make check`", "`make mutants`"]
    assert sections_of(again)["`make mutants`"] == sections_of(page)["`make mutants`"]
    assert render(again, {}) == again


def test_the_page_has_no_other_sections_and_renders_to_itself() -> None:
    page = PAGE.read_text()
    assert set(sections_of(page)) <= set(SECTIONS)
    assert render(page, {}) == page


def test_the_section_of_synchronisation_faults_is_that_of_the_record() -> None:
    page = PAGE.read_text()
    assert render(page, {"mutants": recorded()}) == page
