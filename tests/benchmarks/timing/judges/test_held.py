"""What bands are worth: coverage found beside expected, and the model's own error."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from benchmarks.timing.gemms import nine_of_ten
from benchmarks.timing.judges import held
from benchmarks.timing.judges.page import MEASURED, Judged, joined, judged, without_mmas
from benchmarks.timing.judges.predictions import PREDICTED
from sm100sim.timing.profile.held import FILE


def case(family: str, predicted: float, measured: float, of: str = "one") -> Judged:
    band = (predicted - 1, predicted + 1)
    return Judged(family, "n", of, predicted, band, "SMs", 0.5, measured, 1700)


CASES = [case("A", 100, 100), case("A", 100, 99.5), case("B", 100, 125, "two"),
         case("B", 150, 125, "two")]  # fmt: skip


def test_the_profiler_says_what_the_records_say() -> None:
    """`python -m benchmarks.timing.judges.page docs/timing_cycles.md` writes it again."""
    rows = json.loads(MEASURED.read_text())["rows"]
    cases, _ = joined(json.loads(PREDICTED.read_text()), rows)
    assert FILE.read_text() == held.document(judged(cases), without_mmas(cases))


def test_nine_of_ten() -> None:
    assert nine_of_ten(range(1, 11)) == 9
    assert nine_of_ten([3]) == 3
    assert nine_of_ten([]) == 0


def test_a_family_is_judged_by_the_error_of_the_others() -> None:
    """B's 20 % hold A's kernels easily; A's half percent holds none of B's."""
    found = held.kernels(CASES, "a chip")
    assert (found.kernels, found.families, found.in_band, found.in_both) == (4, 2, 2, 2)
    assert found.nine == pytest.approx(0.2)
    assert held.section(CASES)[-1] == ""
    text = "\n".join(held.section(CASES))
    assert "| A | 2 | 1.8 | 2 | 20.0% | 2 |" in text
    assert "| B | 2 | 1.8 | 0 | 0.5% | 0 |" in text
    assert "| all | 4 | 3.6 | 2 | | 2 |" in text
    assert held.section(CASES[:2]) == [], "one family has no others"


def test_pairs_are_of_one_problem() -> None:
    told = list(held.pairs(CASES))
    assert told == [(1, 100 / 99.5), (100 / 150, 1)]


def test_an_order_holds_from_the_largest_wrong_lead_on() -> None:
    found = held.ratios([(1.2, 1.1), (0.5, 0.6), (1.045, 0.98), (1.01, 1.3)], "of some")
    assert (found.order, found.ordered, found.pairs) == (0.05, 2, 4)
    assert found.nine == pytest.approx(1 - 1.01 / 1.3, abs=1e-4)
    sizes = 0.1 / 1.1, 0.1 / 0.6, 0.065 / 0.98, 0.29 / 1.3
    assert found.mean == pytest.approx(sum(sizes) / 4, 1e-3)
