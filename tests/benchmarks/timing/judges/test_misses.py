"""Misses are all named, with what is known of them; the overview has the page's figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest

pytest.importorskip("torch")

from benchmarks.timing.judges.cases import LANES
from benchmarks.timing.judges.misses.orders import WANTED, again_lines, orders
from benchmarks.timing.judges.misses.table import (
    CASES,
    LADDERS,
    STATES,
    WORST,
    missed_cases,
    missed_orders,
    misses,
)
from benchmarks.timing.judges.page import LATER, MEASURED, Judged, joined, judged
from benchmarks.timing.judges.predictions import PREDICTED
from benchmarks.timing.judges.second_round import NAMES

ROWS = json.loads(MEASURED.read_text())["rows"]
ALL, AGAIN = (joined(json.loads(path.read_text()), ROWS)[0] for path in (PREDICTED, LATER))
FIRST = [case for case in judged(ALL) if case.name not in NAMES]
SECOND = [case for case in judged(ALL) if case.name in NAMES]
NOW = judged(AGAIN)


def test_each_miss_has_its_reason_and_no_other_has_one() -> None:
    assert set(missed_cases([*FIRST, *SECOND], NOW)) == set(CASES)
    assert set(missed_orders((FIRST, SECOND), NOW)) == set(LADDERS)
    for state, phrase in (*CASES.values(), *LADDERS.values()):
        assert state in STATES
        assert phrase


def variant(name: str, predicted: float, measured: float) -> Judged:
    runs = (measured - 1, measured, measured + 1)
    return Judged("R", name, "R of one", predicted, (0, 1), "SMs", 0.5, measured, 1700, runs)


def test_orders_by_the_rules_of_now_stand_beside_those_of_before() -> None:
    before = [variant(str(k), 100 + 10 * k, 100 + 10 * k) for k in range(4)]
    now = [replace(before[0], predicted=115), *before[1:]]
    text = "\n".join(again_lines([("first", before)], now))
    assert "| first | R of one | 4 | 1.00 | 0.67 | 1.00 | 0.67 |" in text
    assert "Nearer: none. Further off: R of one (1.00, now 0.67)." in " ".join(text.split())
    table = "\n".join(misses((before,), now))
    assert "| R of one | tau 1.00 | 0.67 | not known |  |" in table
    assert "| R 0 | +0.0% | +15.0% | not known |  |" in table
    assert again_lines([("first", before)], []) == misses((before,), before) == []


def _off(cases: Sequence[Judged]) -> str:
    return f"{mean(abs(case.error) for case in cases):.1%}".replace("%", " %")


def _near(cases: Sequence[Judged]) -> int:
    return sum(abs(case.error) <= WORST for case in cases)


def _worst(cases: Sequence[Judged]) -> str:
    return f"{max((case.error for case in cases), key=abs):+.1%}".replace("%", " %")


def test_the_overview_has_the_figures_of_the_page() -> None:
    lanes = [case for case in AGAIN if case.measured and case.runner in LANES]
    taus = [
        [sum(getattr(one, of) >= WANTED for name, one in found.items() if name in ladders)
         for of in ("tau", "of_apart")]
        for found in (orders([*FIRST, *SECOND]), orders(NOW))
        for ladders in (orders(FIRST), orders(SECOND))
    ]  # fmt: skip
    (a, b), (c, d), (e, f), (g, h) = taus
    first, second = len(orders(FIRST)), len(orders(SECOND))
    text = Path("docs/timing.md").read_text()
    for said in (
        f"are {_off(FIRST)} off, worst {_worst(FIRST)}, {_near(FIRST)} of {len(FIRST)} within 12 %",
        f"of the second round {_off(SECOND)}, {_worst(SECOND)}, {_near(SECOND)} of {len(SECOND)};",
        f"by the rules of now all {len(NOW)} are {_off(NOW)} off, {_near(NOW)} within 12 %;",
        f"all {len(lanes)} by the rules of now {_off(lanes)}.",
        f"in {a} of {first} groups of the first round (in {b} of pairs that the chip tells apart) "
        f"and in {c} of {second} of the second one ({d}); by the rules of now in {e} of {first} "
        f"({f}) and {g} of {second} ({h}).",
    ):
        assert said in text, said
