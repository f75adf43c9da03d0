"""Boxes asked for behind others: the kernels end, their answers are read, and what an H200 said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing.sharing.behind import KEYS, QUESTIONS, SPREAD, Behind, answer
from benchmarks.timing.sharing.cold import ROUNDS, WORDS
from testing.hardware.simulate import simulate


@pytest.mark.parametrize(
    "asked",
    [Behind(0), Behind(2, ctas=2), Behind(6, ctas=8, apart=30), Behind(6, 8, ctas=2, cold=False)],
    ids=lambda q: q.name,
)
def test_copies_end_and_every_cta_writes(asked: Behind) -> None:
    found, _ = simulate(asked.case())
    rows = found[:-1].reshape(asked.ctas, WORDS)[:, 1:].reshape(-1, ROUNDS, 2)
    assert (rows > 0).all()
    assert (rows[..., 0] >= rows[..., 1]).all()
    assert found[-1] == asked.ctas * ROUNDS


def test_an_answer_leaves_the_first_round_out() -> None:
    asked = Behind(2, ctas=2)
    words = [[9, 9999, 9999, 500, 100, 700, 300], [8, 9999, 9999, 900, 500, 1100, 700]]
    found = answer(asked, [np.array([*np.ravel(words), 6], np.uint32)] * 2)
    assert found["Q"] == [400.0, 300.0, 500.0]
    assert found["all"] == [800.0, 700.0, 900.0]


def test_questions_have_names_of_their_own() -> None:
    assert len({q.name for q in QUESTIONS}) == len(QUESTIONS) == 30


def waited(boxes: int, rows: int = KEYS, *, alone: bool = False, cold: bool = True) -> float:
    """Median cycles until Q had come, of an H200."""
    kept = json.loads(Path("benchmarks/timing/sharing/h200_behind.json").read_text())
    assert kept["device"] == "NVIDIA H200"
    who = (1, 0) if alone else (132, SPREAD)
    name = Behind(boxes, rows, *who, cold=cold).name
    (found,) = (entry["Q"][0] for entry in kept["answers"] if entry["name"] == name)
    return float(found)


@pytest.mark.parametrize("cold", [True, False])
def test_an_sm_alone_waits_for_q_as_long_with_six_boxes_as_with_two(cold: bool) -> None:
    """So they do not take it from Q at the SM's own port."""
    assert abs(waited(6, alone=True, cold=cold) - waited(2, alone=True, cold=cold)) < 20


@pytest.mark.parametrize(("cold", "longer"), [(True, 438), (False, 374)])
def test_where_ctas_begin_one_after_another_their_bytes_take_from_q(
    cold: bool, longer: float
) -> None:
    assert waited(6, cold=cold) - waited(2, cold=cold) == pytest.approx(longer, abs=1)
    assert abs(waited(6, 8, cold=cold) - waited(0, cold=cold)) < 20
