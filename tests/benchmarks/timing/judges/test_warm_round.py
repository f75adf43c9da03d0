"""The warm round: small enough for the L2, and judged apart, by a page of its own."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.timing.judges.cases import OURS
from benchmarks.timing.judges.page import joined
from benchmarks.timing.judges.predictions import everything, warm
from benchmarks.timing.judges.second_round import EVERY
from benchmarks.timing.judges.warm_page import AT_CLOCKS, at_their_clocks, page
from benchmarks.timing.judges.warm_round import MEASURED, PREDICTED, WARM, Few
from sm100sim.timing.chips import load_chip

FAMILIES_AT_LEAST, CASES_AT_LEAST = 8, 25


def test_there_are_enough_and_they_are_of_no_other_round() -> None:
    names = {case.name for case in WARM}
    assert len(names) == len(WARM) >= CASES_AT_LEAST
    assert len({case.family for case in WARM}) >= FAMILIES_AT_LEAST
    assert not names & {case.name for case in EVERY}
    assert [name for _, name, _, _ in warm()] == [case.name for case in WARM]
    assert not names & {name for _, name, _, _ in everything()}


def test_what_they_read_stays_in_the_l2() -> None:
    """Of an H200, whose L2 loses nothing of rings of 22 MB."""
    keeps = load_chip("h200").parameters["l2_keeps_bytes"].value
    for case in WARM:
        read = [(name, shape) for name, shape in case.shapes().items() if name != "out"]
        assert sum(prod(shape) * case.dtype(name).itemsize for name, shape in read) <= keeps


def test_few_tokens_are_a_batch_of_sequences() -> None:
    few = Few(512, 128)
    assert (few.batch, few.heads) == (2, 16)
    assert few.name == "d128-512, 1024 tokens"
    assert few.shapes()["q"] == (2, 512, 16, 128)


def test_the_page_has_all_of_them_and_says_what_failed() -> None:
    cases, failed = joined(
        json.loads(PREDICTED.read_text()), json.loads(MEASURED.read_text())["rows"]
    )
    assert {case.name for case in cases} == {case.name for case in WARM}
    assert all("-causal" in reason and OURS in reason for reason in failed)
    clocks = json.loads(AT_CLOCKS.read_text())
    told = page(cases, failed, {"name": "a GPU"}, clocks)
    assert all(case.name.removeprefix(case.runner).strip() in told for case in cases)
    measured = [case for case in cases if case.measured is not None]
    assert {case.name for case in at_their_clocks(measured, clocks)} == {c.name for c in measured}
    assert all(reason in told for reason in failed)


def test_the_page_is_that_of_the_records() -> None:
    cases, failed = joined(
        json.loads(PREDICTED.read_text()), json.loads(MEASURED.read_text())["rows"]
    )
    card = json.loads(MEASURED.read_text())["card"]
    told = page(cases, failed, card, json.loads(AT_CLOCKS.read_text()))
    assert told == Path("docs/timing_warm.md").read_text()
