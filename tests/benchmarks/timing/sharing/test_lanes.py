"""What lanes do one by one: the kernels end, and their answers are read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing.questions import Question
from benchmarks.timing.replayed import clocked, draw_for, trace_of
from benchmarks.timing.sharing import lanes, skews
from benchmarks.timing.sharing.lanes import Chased, Copied
from testing.hardware.simulate import simulate

KEPT = json.loads(Path("benchmarks/timing/sharing/h200_lanes.json").read_text())
SAID = {entry["name"]: entry for entry in KEPT["answers"]}


@pytest.mark.parametrize(
    "asked",
    [Copied(128, 2, 2, fresh=True, steps=2), Copied(64, 4, 2, 2, steps=2),
     Copied(128, 2, 2, fresh=True, steps=2, loaded=True), Chased(128, True, 4),
     Chased(4096, False, 4)],
    ids=lambda q: q.name,
)  # fmt: skip
def test_copies_and_loads_end(asked: Copied | Chased) -> None:
    found, *_ = simulate(asked.case())
    assert (found > 0).all()
    assert (found < 1 << 20).all()


def test_answers_leave_the_first_round_out() -> None:
    copied = replace(Copied(128, 4, 2), steps=10)
    words = [[999, 99, 400, 40, 600, 60], [999, 99, 800, 80, 1000, 100]]
    found = copied.answer(np.array(words, np.uint32).ravel())
    assert (found["step"], found["issued"]) == ([70.0, 40.0, 100.0], [7.0, 4.0, 10.0])
    assert found["bytes a cycle"] == pytest.approx(128 * 4 * 16 / 70, abs=0.1)
    assert Chased(128, True, 10).answer(np.array([999, 70, 80], np.uint32))["rounds"] == [7, 8]


def test_questions_have_answers() -> None:
    asked = {q.name for q in (*lanes.QUESTIONS, *lanes.questions())}
    assert asked == SAID.keys()
    names = {q.name for q in skews.tiles()}
    kept = json.loads(Path("benchmarks/timing/sharing/h200_tiles.json").read_text())["rates"]
    assert names == {entry["name"] for entry in kept}


@pytest.mark.slow
@pytest.mark.parametrize("question", lanes.QUESTIONS[:-1], ids=lambda q: q.name)
def test_mbarriers_of_lanes_take_turns(question: Question) -> None:
    """The machine makes every turn, and knows what an initialisation takes; begins are short."""
    short, long = clocked(question, draw_for(question))
    one = (long - short) / (question.counts[1] - question.counts[0])
    assert 0.7 < one / SAID[question.name]["one"] < 1.01


@pytest.mark.parametrize(("lanes_", "counts"), [(1, 1), (8, 2), (18, 2)])
def test_lanes_that_initialise_of_sm_90a(lanes_: int, counts: int) -> None:
    """Two steps in each of four rounds, and machine code as ptxas makes it."""
    trace = trace_of(lanes.initialised(lanes_, counts), 2)
    (stream,) = trace.streams
    ran = [trace.kernel.instructions[k].mnemonic for k in stream.order]
    assert ran.count("SYNCS.EXCH.64") == 4 * 2 * lanes_
