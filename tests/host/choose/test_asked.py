"""What explain says of a scheduler and a number of splits that a call names."""

from __future__ import annotations

from typing import Any

import pytest

import fa4_cute

PROMPT: dict[str, Any] = {"head_dim": 128, "heads_q": 16, "batch": 8, "seqlen_q": 2048,
                          "causal": True}  # fmt: skip
STEP: dict[str, Any] = {"head_dim": 128, "heads_q": 8, "heads_k": 2, "batch": 4, "seqlen_q": 1,
                        "seqlen_k": 16384}  # fmt: skip
WHO = {
    "tile": "a CTA for every query tile",
    "persistent": "persistent CTAs",
    "dynamic": "dynamic CTAs",
}


def test_a_scheduler_that_is_asked_for_has_the_cycles_of_the_choice() -> None:
    lines = fa4_cute.explain(**PROMPT).splitlines()
    chosen = next(line for line in lines if "dynamic ones" in line)
    cycles = chosen.partition(": ")[2]
    for name, who in WHO.items():
        assert f"\nas asked for, {who}: {cycles}\n" in fa4_cute.explain(**PROMPT, scheduler=name)


@pytest.mark.parametrize("count", [1, 4, 16, 32])
def test_splits_that_are_asked_for_have_the_cycles_of_the_choice(count: int) -> None:
    chosen = fa4_cute.explain(**STEP)
    whole = "predicted for a B200 are 141,431 cycles with 8 CTAs"
    assert whole in chosen
    text = fa4_cute.explain(**STEP, num_splits=count, split="last" if count > 1 else None)
    line = next(line for line in text.splitlines() if "of the keys: as asked for; " in line)
    assert whole in line
    taken = line.partition("CTAs, ")[2].partition(" with")[0]
    assert count == 1 or f"{taken} with {count}" in chosen


def test_where_partial_results_meet_counts() -> None:
    taken = {
        split: fa4_cute.explain(**STEP, num_splits=4, split=split).partition("8 CTAs, ")[2][:6]
        for split in ("cluster", "last", "workspace")
    }
    assert len(set(taken.values())) == 3
    assert taken["last"] == min(taken.values())


@pytest.mark.parametrize(
    "asked",
    [
        {**PROMPT, "num_splits": 2},
        {**PROMPT, "scheduler": "dynamic", "causal": False},
        {**PROMPT, "scheduler": "persistent", "softcap": 30.0},
        {**PROMPT, "scheduler": "persistent", "arch": "sm_90a"},
        {**PROMPT, "scheduler": "dynamic", "ragged_q": True, "ragged_k": True},
        {**PROMPT, "scheduler": "persistent", "batch": 0},
        {**STEP, "scheduler": "stream_k"},
        {**STEP, "scheduler": "tile"},
        {**STEP, "num_splits": 4, "scheduler": "persistent"},
        {**STEP, "num_splits": 4, "seqlen_k": 0},
        {**STEP, "num_splits": 4, "arch": "sm_90a"},
    ],
    ids=str,
)
def test_nothing_is_said_where_nothing_is_predicted(asked: dict[str, Any]) -> None:
    text = fa4_cute.explain(**asked)
    assert "as asked for, " not in text
    assert "of the keys: as asked for" not in text
