"""What explain says of launches whose lengths only the device knows: as many keys in each."""

from __future__ import annotations

from typing import Any

import pytest

import fa4_cute

STEP: dict[str, Any] = {"head_dim": 128, "heads_q": 32, "heads_k": 8, "batch": 16, "seqlen_q": 1,
                        "seqlen_k": 8192, "page_size": 16, "used_k": True}  # fmt: skip
PROMPTS: dict[str, Any] = {"head_dim": 128, "heads_q": 16, "batch": 8, "seqlen_q": 1024,
                           "seqlen_k": 1024, "causal": True}  # fmt: skip


def equal_line(problem: dict[str, Any]) -> str:
    """The line about equal lengths; "" where there is none."""
    lines = fa4_cute.explain(**problem).splitlines()
    return next((line for line in lines if line.startswith("if all ")), "")


def cycles_of(problem: dict[str, Any]) -> int:
    """The cycles that the line has."""
    found = equal_line(problem).partition(": predicted for a B200 are ")[2]
    return int(found.partition(" cycles")[0].replace(",", ""))


def test_a_step_by_stream_k_has_the_cycles_of_equal_lengths() -> None:
    line = equal_line(STEP)
    assert line.startswith("if all 16 sequences have 8,192 keys, as many as may be: predicted")
    assert line.endswith(" cycles (of medians of draws)")
    dense = {name: STEP[name] for name in STEP if name not in ("page_size", "used_k")}
    assert not equal_line(dense)
    text = fa4_cute.explain(**dense, num_splits=1)
    whole = int(text.partition("predicted for a B200 are ")[2].partition(" ")[0].replace(",", ""))
    assert cycles_of(STEP) == pytest.approx(whole, rel=0.05)


def test_memory_and_joining_count() -> None:
    assert cycles_of({**STEP, "seqlen_k": 16384}) > 1.9 * cycles_of(STEP)
    few = {**STEP, "batch": 3, "seqlen_k": 32768}
    assert cycles_of(few) > 0.75 * cycles_of({**few, "batch": 4})


def test_packed_prompts_have_the_cycles_of_dense_ones() -> None:
    packed = {**PROMPTS, "ragged_q": True, "ragged_k": True}
    line = equal_line(packed)
    assert line.endswith(" cycles (of means of draws, by costs of dense launches)")
    assert f"{cycles_of(packed):,} with dynamic ones" in fa4_cute.explain(**PROMPTS)


@pytest.mark.parametrize(
    "problem",
    [
        PROMPTS,
        {**PROMPTS, "ragged_q": True, "ragged_k": True, "batch": 1},
        {**STEP, "arch": "sm_90a"},
        {**STEP, "head_dim": 256},
        {**STEP, "batch": 0},
        {**STEP, "mask": fa4_cute.masks.sliding_window(100)},
    ],
    ids=str,
)
def test_nothing_is_said_where_nothing_is_predicted(problem: dict[str, Any]) -> None:
    assert not equal_line(problem)
