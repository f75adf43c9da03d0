"""Ways of an SM's warps: what was asked has answers, and the values come from them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks.timing.questions import ROUNDS, Question
from benchmarks.timing.replayed import clocked, draw_for
from benchmarks.timing.sharing import accesses
from sm100sim.timing.chips import load_chip

CHIPS = ("h100", "h200")
KEPT = {
    chip: {
        entry["name"]: entry
        for entry in json.loads(
            Path(f"benchmarks/timing/sharing/{chip}_accesses.json").read_text()
        )["answers"]
    }
    for chip in CHIPS
}
BY_NAME = {question.name: question for question in accesses.QUESTIONS}
SMS = 132


def one(chip: str, name: str) -> float:
    return float(KEPT[chip][name]["one"])


def test_questions_have_answers() -> None:
    asked = {q.name for q in (*accesses.QUESTIONS, *accesses.TURN_QUESTIONS)}
    late = {name for name in asked if ", every " in name}
    for chip, answers in KEPT.items():
        assert answers.keys() == (asked if chip == "h200" else asked - late)
        failed = [name for name, entry in answers.items() if "failed" in entry]
        assert all("3 warps a sub-partition beside n256" in name for name in failed)


def test_an_answer_that_fails_says_how() -> None:
    def run(case: object) -> list[np.ndarray]:
        raise ValueError("no such thing")

    found = list(accesses.answers(run))
    assert len(found) == len(accesses.QUESTIONS) + len(accesses.TURN_QUESTIONS)
    assert {entry["failed"] for entry in found} == {"ValueError: no such thing"}


def test_ends_are_those_of_the_slowest_warp_of_each_group() -> None:
    question = next(q for q in accesses.TURN_QUESTIONS if "2 warp groups" in q.name)
    rounds = np.arange(ROUNDS * question.block).reshape(ROUNDS, -1)
    rounds[0] = 0  # fetches code
    assert accesses.ends(question, lambda case: [rounds.ravel()]) == [383, 511]


@pytest.mark.parametrize("chip", CHIPS)
def test_values_of_shared_memory_are_what_was_answered(chip: str) -> None:
    """Passes a cycle of an SM: four sub-partitions, eight accesses of a step."""
    values = load_chip(chip).parameters
    least = [
        4 * 8 * 8 / KEPT[chip][f"8 {what} of 1 warps a sub-partition beside {shape}"]["cycles"][0]
        for what in ("shuffles", "shuffles, a chain") for shape in ("n48", "n64")
    ]  # fmt: skip
    most = [
        4 * 8 * warps / one(chip, f"8 shuffles of {warps} warps a sub-partition beside {shape}")
        for warps in (1, 2) for shape in ("n128", "n256", "n64, A in registers")
    ]  # fmt: skip
    for name, found in (("lane_share_least", least), ("lane_share_most", most)):
        value = values[name]
        assert all(value.low - 0.001 <= x <= value.high + 0.001 for x in found)
        assert median(found) == pytest.approx(value.value, rel=0.04)


@pytest.mark.parametrize("chip", CHIPS)
def test_values_of_stores_are_the_medians(chip: str) -> None:
    """Of whole sectors: bytes a cycle of an SM, alone and with all others."""
    found: dict[str, list[float]] = {"1": [], str(SMS): []}
    for name in KEPT[chip]:
        asked = re.match(r"store to (8 rows|a row) of (\d+) bytes by (\d+) warps of (\d+)", name)
        if asked and asked[2] != "16" and ", every " not in name:
            size = (8 if asked[1] == "8 rows" else 1) * int(asked[2]) * int(asked[3])
            found[asked[4]].append(size / one(chip, name))
    alone, all_ = (load_chip(chip).parameters[n] for n in ("store_bytes", "l2_write_bytes"))
    together = [SMS * x for x in found[str(SMS)]]
    for value, rates in ((alone, found["1"]), (all_, together)):
        assert value.value == pytest.approx(median(rates), rel=0.01)
        assert (value.low, value.high) == pytest.approx((min(rates), max(rates)), rel=0.02)


def test_stores_of_all_sms_are_slow_after_pauses_too() -> None:
    """So it is no limit of what goes on for long; of bulk stores it is (`h200_cold.json`)."""
    for kind in ("8 rows of 32 bytes", "a row of 512 bytes"):
        for warps in (8, 12):
            name = "store to {} by {} warps of {} CTAs, every 20000 cycles"
            alone, all_ = (one("h200", name.format(kind, warps, n)) for n in (1, SMS))
            assert 1.8 < all_ / alone < 2.5


MACHINE = {
    "mbarrier.init by one thread, 1 counts, 1 fences behind each": 0.01,
    "mbarrier.init by one thread, 40 counts": 0.02,
    "mbarrier.init by one thread, 40 counts, 1 fences behind each": 0.1,
    "mbarrier.init by one thread, 2 counts, each in a branch": 0.02,
    "8 shuffles of 1 warps a sub-partition beside no products": 0.01,
    "store to 8 rows of 32 bytes by 8 warps of 1 CTAs": 0.1,
    "store to 8 rows of 64 bytes by 4 warps of 1 CTAs": 0.05,
    "8 shuffles of 1 warps a sub-partition beside n128": 0.12,
}
"""How far the machine's cycles of a step are off at most."""
LONG = [name for name in MACHINE if "beside n" in name and "no products" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.exhaustive if name in LONG else ()) for name in MACHINE
])  # fmt: skip
def test_the_machine_answers_as_the_chip_did(name: str) -> None:
    question: Question = BY_NAME[name]
    short, long = clocked(question, draw_for(question))
    found = (long - short) / (question.counts[1] - question.counts[0])
    assert found == pytest.approx(one("h200", name), rel=MACHINE[name])


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_chain_of_shuffles_passes_beside_products_that_read_all_the_time() -> None:
    """Before it waited until they had ended: 9,650 cycles where the chip takes 5,492.

    More at once than the products that are queued at the time last longer than the machine knows.
    """
    name = "8 shuffles, a chain of 1 warps a sub-partition beside n64"
    short, _ = clocked(BY_NAME[name], draw_for(BY_NAME[name]))
    assert short == pytest.approx(KEPT["h200"][name]["cycles"][0], rel=0.08)
