"""What changes scores, and which kernels get by with few registers for it."""

from __future__ import annotations

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.numbers import BRIEF_CAP
from fa4_cute.plan.masks.masks import CAUSAL, NULL, DenseBiasMask, Mask, SlidingWindowMask, terms
from fa4_cute.plan.masks.score_changes import ScoreChanges
from fa4_cute.plan.spec.extras import ScoreMod

MOD = ScoreMod("tilt", "abc")
CAP, LARGE = ScoreMod("cap", "30", cap=30.0), ScoreMod("cap", "257", cap=BRIEF_CAP + 1)
ALIBI = ScoreMod("alibi", "alibi1", (1,), slopes=True)
WORDS, NARROW = DenseBiasMask(0), DenseBiasMask(0, DType.BF16)
HALVES = DenseBiasMask(0, DType.BF16, at_once=16)
FLOATS = DenseBiasMask(0, at_once=8)
WINDOW = SlidingWindowMask(20, 40)


def changes(mask: Mask = NULL, score_mod: ScoreMod | None = None) -> ScoreChanges:
    return ScoreChanges(score_mod, terms(mask))


def true_of(found: ScoreChanges) -> set[str]:
    names = ("are_any", "only_slopes", "only_biases", "only_halves", "look_back", "are_brief")
    return {name for name in names if getattr(found, name)}


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (changes(), {"are_brief"}),
        (changes(CAUSAL), {"are_brief", "look_back"}),
        (changes(SlidingWindowMask(3, 0), ALIBI), {
            "are_any", "only_slopes", "are_brief", "look_back",
        }),
        (changes(CAUSAL | WINDOW, ALIBI), {"are_any", "only_slopes", "are_brief"}),
        (changes(WORDS, ALIBI), {"are_any"}),
        (changes(score_mod=MOD), {"are_any"}),
        (changes(score_mod=CAP), {"are_any", "are_brief"}),
        (changes(score_mod=LARGE), {"are_any"}),
        (changes(WORDS), {"are_any", "only_biases"}),
        (changes(NARROW), {"are_any", "only_biases"}),
        (changes(FLOATS), {"are_any", "only_biases"}),
        (changes(HALVES & CAUSAL), {"are_any", "only_biases", "only_halves", "look_back"}),
        (changes(HALVES & DenseBiasMask(1)), {"are_any", "only_biases"}),
        (changes(HALVES | CAUSAL), {"are_any"}),
        (changes(HALVES, CAP), {"are_any"}),
    ],
)  # fmt: skip
def test_what_is_known_of_them(found: ScoreChanges, names: set[str]) -> None:
    assert true_of(found) == names


@pytest.mark.parametrize(
    ("found", "cap"),
    [
        (changes(), 0.0), (changes(score_mod=MOD), 0.0), (changes(score_mod=CAP), 30.0),
        (changes(score_mod=ScoreMod("cap", "256", cap=BRIEF_CAP)), BRIEF_CAP),
        (changes(score_mod=LARGE), 0.0), (changes(WORDS, CAP), 0.0),
    ],
)  # fmt: skip
def test_a_brief_softcap_that_is_all_that_changes_scores_is_known(
    found: ScoreChanges, cap: float
) -> None:
    assert found.only_cap == cap


def test_biases_are_those_of_all_terms() -> None:
    assert changes(HALVES & CAUSAL | WORDS & WINDOW).biases == (HALVES, WORDS)
