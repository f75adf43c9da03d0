"""The questions about what SMs share end, and values of chips follow from their answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.timing import replayed
from benchmarks.timing.more_questions import MORE_QUESTIONS
from benchmarks.timing.questions import ROUNDS
from benchmarks.timing.replayed import WARM, trace_of_case
from benchmarks.timing.sharing import operands, pairs, skews
from benchmarks.timing.sharing.operands import Sharing, in_a_row
from sm100sim.timing.chips import load_chip
from sm100sim.timing.model import run_cluster
from testing.hardware.simulate import simulate

FOLDER = Path("benchmarks/timing/sharing")
OWN = "hand-over and back, cluster form, 1 lanes, one CTA"
OTHER = "hand-over and back, cluster form, 1 lanes, clusters of "
LOAD = "load of shared memory by a cluster's address, a chain, clusters of 2, ranks 1 apart"


def record(chip: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{chip}.json").read_text())
    return found


def arrivals(chip: str) -> dict[str, list[float]]:
    return {entry["name"]: entry["percentiles"] for entry in record(chip)["arrivals"]}


@pytest.mark.parametrize("pair", pairs.PAIRS, ids=lambda p: p.name)
def test_a_pair_ends_and_every_cta_writes(pair: pairs.Pair) -> None:
    small = pairs.Pair(pair.arrive, pair.lanes, pair.cluster, pair.distance, sms=pair.cluster)
    (found,) = simulate(small.case(4))
    found = found.reshape(small.grid, pairs.WORDS)
    assert (found[:, 1:] < 1 << 24).all()
    assert (found[:, 1:] > 0).all()


def test_one_step_of_a_pair() -> None:
    """Seven cycles a step and 30 more; the first round is cold."""
    pair = pairs.Pair("", 1, 2, 1, sms=2)
    each = [np.full((2, pairs.WORDS), 7 * count + 30, np.uint32) for count in pairs.COUNTS]
    each[0][:, 1] += 1000
    sms, one = pairs.one_of(each[0].ravel(), each[1].ravel(), pair)
    assert one.tolist() == [7, 7]
    assert len(sms) == 2


@pytest.mark.parametrize(
    "asked",
    [
        Sharing("two", (64, 64), in_a_row(2, 2)),
        Sharing("two", (64, 64), in_a_row(2, 2), by_sm=True, shift=1, pace=500),
        Sharing("alone", (64, 64), (((0, 0),),), groups=1, columns=64),
        Sharing("few", (64, 8), (((0, 0),),), wide=32, pairs=3, late=(100,)),
        Sharing("tiles", (64, 64), (((0, 0), (0, 1), (1, 0)), ((1, 1), (0, 0), (0, 1)))),
    ],
    ids=lambda q: q.name,
)
def test_operands_end_and_every_cta_writes(asked: Sharing) -> None:
    (found,) = simulate(asked.case(8))
    found = found[: len(asked.table) * operands.WORDS].reshape(-1, operands.WORDS)
    assert (found[:, 1:] < 1 << 24).all()
    assert (found[:, 1:] > 0).all()


def test_who_shares_what() -> None:
    assert in_a_row(2, 4) == (((0, 0),), ((0, 1),), ((1, 0),), ((1, 1),))
    assert operands.by_groups([[0, 3], [1, 2]], 4) == (((0, 0),), ((1, 1),), ((1, 1),), ((0, 0),))
    assert operands.crossed([[0, 3], [1, 2]], 4) == (((0, 0),), ((1, 0),), ((1, 1),), ((0, 1),))
    tiles = operands.ordered((128, 64), 8, along_a=True)
    assert [t[0] for t in tiles[:9]] == [(k % 8, k // 8) for k in range(9)]
    assert tiles[0][1] == (132 % 8, 132 // 8)
    assert tiles[0][4] == (8 + 16 % 8, 16 // 8)  # the 528th is of the second eight blocks of A
    assert operands.ordered((128, 64), 8, along_a=False)[1][0] == (0, 1)
    names = [asked.name for asked in operands.questions([list(range(66)), list(range(66, 132))])]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("chip", ["h100", "h200"])
def test_an_arrival_at_another_cta_is_as_it_was_measured(chip: str) -> None:
    """Half of what a hand-over and back takes longer, of the fastest, the median, the slowest."""
    found = arrivals(chip)
    two = [value for name, value in found.items() if name.startswith(OTHER)]
    longer = (
        found[OTHER + "2, ranks 1 apart"][2] - found[OWN][2],
        min(value[0] for value in two) - found[OWN][2],
        max(value[-1] for value in two) - found[OWN][2],
    )
    value = load_chip(chip).parameters["remote_latency"]
    assert (value.value, value.low, value.high) == tuple(round(x / 2) for x in longer)
    assert value.status == "measured"


def test_what_a_b200_takes_from_them() -> None:
    """An arrival is the same share of a load there and back as on an H200."""
    found = arrivals("h200")
    share = (found[OTHER + "2, ranks 1 apart"][2] - found[OWN][2]) / 2 / (found[LOAD][2] - 23.0)
    value = load_chip("b200").parameters["remote_latency"]
    assert value.value == value.high == round((214.75 - 24) * share)
    assert value.low == round((164.8 - 24) * share)
    assert value.status == "inferred"


@pytest.mark.slow
def test_the_machine_hands_over_as_the_chips_did() -> None:
    """`arrive_latency`, `wake_latency` and `remote_latency`: 254.2 cycles there and back."""
    pair = pairs.Pair("cluster form", 1, 2, 1, sms=2)
    draw = load_chip("h200").draw()
    draw, cycles = replace(draw, values={**draw.values, **WARM}), []
    for count in pairs.COUNTS:
        cycles.append(run_cluster(trace_of_case(pair.case(count)), draw).cycles)
    one = (cycles[1] - cycles[0]) / ROUNDS / (pairs.COUNTS[1] - pairs.COUNTS[0])
    assert one == pytest.approx(arrivals("h200")[OTHER + "2, ranks 1 apart"][2], abs=1)


@pytest.mark.slow
def test_an_older_question_agrees() -> None:
    """Two whole warps of a CTA, which the chip was asked before: 143.1 cycles there and back."""
    question = MORE_QUESTIONS[0]
    said = replayed.answers_of(json.loads(Path("benchmarks/timing/h200_more.json").read_text()))
    one = replayed.cycles_of_one(question, replayed.draw_for(question))
    assert one == pytest.approx(said[question.name], rel=0.03)


def rates_of(file: str) -> dict[str, float]:
    return {e["name"]: e["mean"] for e in json.loads((FOLDER / file).read_text())["rates"]}


def test_every_ring_is_filled_as_often_as_there_are_steps() -> None:
    """Rings whose slots do not divide the steps never end."""
    gpcs = json.loads((FOLDER / "h200_skews.json").read_text())["gpcs"]
    for asked in (*operands.questions(gpcs), *skews.questions(gpcs)):
        assert not any(steps % asked.slots for steps in asked.steps), asked.name
        assert asked.size * asked.slots + 1024 <= operands.SHARED, asked.name
    assert {q.name for q in skews.questions(gpcs)} >= set(rates_of("h200_skews.json"))


def test_who_begins_later() -> None:
    groups = [[0, 1, 4, 5], [2, 3]]
    assert skews.second_half(groups, 9)[:6] == (0, 0, 0, 9, 9, 9)
    assert skews.far([[0, 1, 4, 5]]) == [[0, 4], [1, 5]]
    own, both = skews.levels([list(range(66)), list(range(66, 132))]), [list(range(132))]
    assert skews.crossing(own["own"], both)[5] == ((5, 0),)


@pytest.mark.parametrize("few", [8, 16, 32, 48, 64])
def test_an_h200_copies_a_short_row_a_cycle_however_few_a_box_has(few: int) -> None:
    found = rates_of("h200_skews.json")
    name = f"256 and {few} rows, 1 CTAs, alone of 32 bytes, 3 of each"
    assert found[name] == pytest.approx(32, rel=1e-3)
    assert load_chip("h200").draw()["copy_short_row_cycles"] == 1


def test_rows_asked_for_twice_within_150_cycles_leave_the_l2_once() -> None:
    found = rates_of("h200_skews.json")
    for where in ("TPC", "two TPCs"):
        at = [found[f"128 and 128 rows, 132 CTAs, {where} the same, some {k} cycles later"]
              for k in (0, 100, 150, 300, 400)]  # fmt: skip
        assert min(at[:3]) > 65
        assert max(at[3:]) < 43
