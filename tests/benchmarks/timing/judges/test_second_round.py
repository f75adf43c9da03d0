"""The second round: enough kernels, none of which the first one has."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch")

from benchmarks.hopper.times.problems import TABLE
from benchmarks.timing.judges.cases import CASES, LANES
from benchmarks.timing.judges.predictions import everything, followed
from benchmarks.timing.judges.second_round import EVERY, NAMES, SECOND, SEQUENCES

FAMILIES_AT_LEAST, CASES_AT_LEAST, VARIANTS_AT_LEAST = 8, 40, 3


def test_there_are_enough_and_no_chip_had_run_them() -> None:
    assert len({case.name for case in EVERY}) == len(EVERY) == len(CASES) + len(SECOND)
    assert len(SECOND) >= CASES_AT_LEAST
    assert len({case.family for case in SECOND} - {*LANES}) >= FAMILIES_AT_LEAST


def test_ladders_have_variants() -> None:
    ladders = Counter(case.ladder for case in SECOND)
    assert sum(count >= VARIANTS_AT_LEAST for count in ladders.values()) >= 8


def test_all_are_asked_for() -> None:
    problems = {problem.name: problem for problem in TABLE}
    assert problems.keys() >= SEQUENCES
    assert all(followed("FA4", problems[name]) for name in SEQUENCES)
    asked = [name for _, name, _, _ in everything()]
    assert {*asked} >= NAMES
