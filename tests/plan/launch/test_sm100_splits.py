"""Splits of the Blackwell kernels' keys, of decoding steps and of prompts: by predicted cycles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import fa4_cute
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.config.predicted import LAUNCH_CYCLES
from fa4_cute.plan.config.prediction import Costs, DecodingRow
from fa4_cute.plan.launch.sm100_selection import QueryTileLoad
from fa4_cute.plan.launch.sm100_splits import SplitLoad
from fa4_cute.plan.spec.variant import Partition, Scheduler

STEP = Problem("bf16", 30, 1, 16384, 8, 2, 128, 128)
PROMPT = Problem("bf16", 1, 512, 2048, 16, 16, 128, 128)
"""64 CTAs with one Q tile, on 148 SMs."""
CLUSTER, LAST, WORKSPACE = Partition.CLUSTER, Partition.LAST, Partition.WORKSPACE


def chosen(problem: Problem, **changes: Any) -> Choice:
    return require(choose(replace(problem, **changes)))


def test_partial_results_of_two_splits_meet_where_it_is_predicted_to_be_sooner() -> None:
    found = chosen(STEP)
    assert found.num_splits == 2
    assert found.split is not None
    assert found.split.partition is CLUSTER
    assert "cycles in a cluster" in found.split.text
    for asked in (2, 4):
        given = chosen(STEP, features=Features(num_splits=asked))
        assert given.split is not None
        assert "predicted" not in given.split.text
    few = chosen(STEP, batch=4)
    assert few.num_splits > 2
    assert few.split is not None
    assert few.split.partition is LAST
    assert "cycles by the last CTA" in few.split.text
    # 32 rows a CTA, of 16 splits, are four rounds of its warps.
    group = chosen(STEP, batch=4, num_q_heads=64)
    assert group.split is not None
    assert group.split.partition is WORKSPACE


@pytest.mark.parametrize(
    ("units", "head_dim", "keys", "splits"),
    # 48 fill 148 SMs with three splits, which the last CTA joins; 320 are three rounds
    [(48, 128, 4096, 3), (320, 64, 16384, 4), (16, 128, 16384, 9), (256, 64, 8192, 1)],
)
def test_few_splits_are_tried_that_do_not_fill_all_sms(
    units: int, head_dim: int, keys: int, splits: int
) -> None:
    step = Problem("bf16", units, 1, keys, 4, 1, head_dim, head_dim)
    assert chosen(step).num_splits == splits


@pytest.mark.parametrize(
    ("changes", "count", "where"),
    [
        ({}, 2, CLUSTER),
        ({"causal": True, "return_lse": True}, 2, CLUSTER),
        ({"head_dim": 64, "head_dim_v": 64}, 2, CLUSTER),
        ({"num_q_heads": 4, "num_kv_heads": 4, "seqlen_k": 8192}, 8, WORKSPACE),
        ({"num_kv_heads": 4, "seqlen_q": 256, "seqlen_k": 4096}, 4, WORKSPACE),
    ],
)
def test_prompts_of_few_ctas_are_split(
    changes: dict[str, Any], count: int, where: Partition
) -> None:
    found = chosen(PROMPT, **changes)
    assert (found.num_splits, found.spec.variant.partition) == (count, where)
    assert found.query_tiles is not None
    assert "one Q tile per CTA" in found.query_tiles.text
    assert found.spec.variant.scheduler is Scheduler.TILE
    assert found.key_splits is not None
    assert f"{count} times as many" in found.key_splits.text


@pytest.mark.parametrize(
    "changes",
    [
        {"seqlen_k": 2047},
        {"batch": 2},
        {"batch": 4},
        {"num_qo": 1},
        {"features": Features(num_splits=1)},
        {"features": Features(ragged_q=True)},
        {"features": Features(used_k=True)},
        {"features": Features(used_k=True, page_size=128)},
        {"features": Features(sink=True)},
        {"features": Features(scheduler=Scheduler.PERSISTENT)},
        {"dtype": "fp8_e4m3"},
        {"head_dim": 192, "head_dim_v": 128},
    ],
)
def test_other_prompts_are_whole(changes: dict[str, Any]) -> None:
    found = chosen(PROMPT, **changes)
    assert (found.num_splits, found.split) == (1, None)
    assert not found.spec.variant.splits_keys


def test_explain_says_what_both_are_predicted_to_take() -> None:
    text = fa4_cute.explain(
        head_dim=128, seqlen_q=512, seqlen_k=2048, heads_q=16, heads_k=16, num_qo=None
    )
    assert "2 splits of the keys: predicted for a B200 are" in text
    assert "cycles with 64 CTAs" in text
    assert "keys split in 2, joined in a cluster: predicted for a B200" in text
    whole = fa4_cute.explain(head_dim=128, seqlen_q=1024, seqlen_k=2048, heads_q=16, heads_k=16)
    assert "1 split of the keys: predicted for a B200 are" in whole


def test_who_fixes_the_query_tiles_gets_the_bits_of_any_batch() -> None:
    for problem in (STEP, PROMPT):
        specs = {chosen(problem, num_qo=1, batch=batch).spec for batch in (1, 4, 60)}
        assert len({spec.variant.partition for spec in specs}) == 1


TILE, COMBINE, JOINING = Costs(0, 100, 1024), Costs(500, 10, 1024), Costs(60, 10, 2048)
ROW = DecodingRow("1q", 2, 128, 128, TILE, COMBINE, 50, JOINING)


def test_what_splits_take() -> None:
    load = SplitLoad(QueryTileLoad(60, 148, 4096, 4096, is_even=True), 8, 8, 1000, ROW, 128)
    assert load.cycles(1) == LAUNCH_CYCLES + 100 + 4096
    assert load.cycles(2, CLUSTER) == LAUNCH_CYCLES + 150 + 2048
    assert load.cycles(2) == LAUNCH_CYCLES + 100 + 2048 + 500 + 2 * 10 + 8
    assert load.cycles(4) == LAUNCH_CYCLES + 2 * (100 + 1024) + 500 + 4 * 10 + 8
    assert load.cycles(2, LAST) == LAUNCH_CYCLES + 100 + 2048 + 60 + 2 * 10 + 2
    assert load.best_cycles(2) == load.cycles(2, CLUSTER)
    assert load.joined(1) is None
    three = load.joined(3)
    assert three is not None
    assert three.partition is LAST
    assert three.reason == (
        f"predicted for a B200 are {load.cycles(3, LAST):,} cycles by the last CTA, "
        f"{load.cycles(3):,} in a workspace"
    )
    bound = replace(load, memory_cycles=100_000)
    assert bound.cycles(2) == LAUNCH_CYCLES + 100_000 + 528
    # The last CTA begins when all keys have been read.
    assert bound.cycles(2, LAST) == LAUNCH_CYCLES + 100_000 + 82
    assert replace(load, ov_depth=192).places_of(2) == (LAST, WORKSPACE)


def test_the_last_cta_takes_as_many_rows_at_once_as_it_has_warps() -> None:
    load = SplitLoad(QueryTileLoad(2, 148, 4096, 4096, is_even=True), 8, 9, 0, ROW, 128)
    assert load.joining_cycles(3, LAST) == 60 + 2 * (3 * 10 + 2)
    many = replace(load, tile_rows=128, rows=256)
    assert many.joining_cycles(3, LAST) == 60 + 16 * (3 * 10 + 2)
    assert many.joining_cycles(1, LAST) == many.joining_cycles(2, CLUSTER) == 0


def test_splits_of_a_mask_are_as_uneven_as_their_query_tiles() -> None:
    load = SplitLoad(QueryTileLoad(2, 4, 2048, 1536, is_even=False), 8, 4, 0, ROW, 128)
    assert load.cycles(1) == LAUNCH_CYCLES + 100 + 2048
    assert load.cycles(2, CLUSTER) == LAUNCH_CYCLES + 150 + 1024
