"""Mixtures of exponentials, maxima and FMAs: answers, page, and the machine asked the same."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.timing.mixtures import MIXTURE_QUESTIONS, MIXTURES, name_of, step, table
from benchmarks.timing.more_questions import CHAINS
from benchmarks.timing.replayed import clocked, draw_for

ANSWERS = json.loads(Path("benchmarks/timing/h200_mixtures.json").read_text())["answers"]
SAID = {entry["name"]: entry["one"] for entry in ANSWERS}
ALONE = "no products"


def test_a_step_has_each_kind_in_turn_and_no_result_is_waited_for() -> None:
    for exponentials, maxima, multiplied in MIXTURES:
        asked = step((exponentials, maxima, multiplied)).split("; ")[:-1]
        assert sum(text.startswith("ex2") for text in asked) == CHAINS * exponentials
        assert sum(text.startswith("max") for text in asked) == CHAINS * maxima
        assert sum(text.startswith("fma") for text in asked) == CHAINS * multiplied
        written = [text.split()[1] for text in asked]
        for kind in ("%f", "%g"):
            mine = [register for register in written if register.startswith(kind)]
            assert all(a != b for a, b in pairwise(mine))


def test_questions_have_answers_and_the_page_has_them() -> None:
    assert [question.name for question in MIXTURE_QUESTIONS] == list(SAID)
    assert table(ANSWERS) in Path("docs/timing_probes.md").read_text()


def test_without_products_maxima_and_exponentials_take_as_long_as_the_longer() -> None:
    for groups in (1, 2):
        for mixture in ((1, 1, 0), (1, 2, 0), (1, 4, 0)):
            assert SAID[name_of(mixture, groups, ALONE)] == pytest.approx(128 * groups, rel=0.04)


def test_products_take_as_long_beside_mixtures() -> None:
    for name, cycles in SAID.items():
        if name.startswith("wgmma m64n"):
            columns = int(name.removeprefix("wgmma m64n").split("k")[0])
            assert cycles == pytest.approx(columns / 2, rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("mixture", "off"),
    [((1, 1, 0), 0.01), ((1, 2, 0), 0.01), ((1, 4, 0), 0.01), ((0, 1, 1), 0.06),
     ((1, 0, 2), 0.08), ((1, 2, 2), 0.095)],
)  # fmt: skip
def test_the_machine_gives_the_chips_answer(
    mixture: tuple[int, int, int], off: float, groups: int
) -> None:
    """FMAs of two warps keep exponentials of an H200 waiting, and not the machine's."""
    name = name_of(mixture, groups, ALONE)
    question = next(q for q in MIXTURE_QUESTIONS if q.name == name)
    short, long = clocked(question, draw_for(question))
    assert (long - short) / 6 == pytest.approx(SAID[name], rel=off)
