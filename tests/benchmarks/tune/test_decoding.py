"""Costs of splits follow from what executed launches take."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.tune.costs import Kind
from benchmarks.tune.decoding import COMBINED, LINE, ROUNDS, TWICE, Steps
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.combine_spec import rounds_of_loads

START, FENCE, TILE, KEY, PAGE_KEY = 4000.0, 500.0, 900.0, 2.0, 3.0


class Linear(Steps):
    """Launches whose cycles are known: 7 and 3 for each round of loads, 11 for rows at once."""

    asked: list[tuple[Any, ...]]

    def launches(
        self, keys: int, splits: int, where: str = "workspace",
        rows: tuple[int, int, int] | None = None, page: int = 0,
    ) -> list[list[float]]:  # fmt: skip
        rows = rows or (1, 4, 1)
        if page:
            return [[START + TILE + PAGE_KEY * keys]]
        self.asked.append((keys, splits, where, rows))
        one = START + TILE + KEY * keys / splits
        many = rows[0] * rows[1]
        loads = rounds_of_loads(splits)
        if where == "last":
            turns = 2 if many > 8 and rows != (1, 4, 1) else 1
            return [[one + 50 - FENCE + turns * (3 * loads + 11)]]
        if where == "cluster":
            return [[one + 10 * splits]]
        return [[one], [60.0 + 7 * loads + 2 * many * (many > 4)]]


def record_of(kind: Kind) -> tuple[dict[str, Any], Linear]:
    class Maker:
        draws = ({"launch_cycles": START, "global_latency": FENCE},)

    steps = Linear(kind, Maker())
    steps.asked = []
    return steps.record(), steps


def test_parts_of_a_step_are_told_apart() -> None:
    record, _ = record_of(Kind("1q", "bf16", 128, 128, decodes=True))
    assert record["name"] == "1q bf16 128/128, decoding"
    assert record["launch"] == [START]
    assert record["tile"][0] == pytest.approx((0, TILE, KEY))
    assert record["combine"][0] == pytest.approx((60, 7, 2))
    assert record["last"][0] == pytest.approx((50, 3, 11))
    assert record["exchange"] == [[20], [40], [80]]


def test_splits_are_told_apart_by_rounds_of_loads() -> None:
    assert [rounds_of_loads(splits) for splits in COMBINED] == [0, ROUNDS]
    assert [rounds_of_loads(splits) for splits in (1, 4, 5, 20, 21, 256)] == [0, 0, 1, 1, 2, 16]


def test_keys_are_told_apart_by_lengths_far_apart() -> None:
    assert LINE[1] == 16 * LINE[0]
    _, steps = record_of(Kind("1q", "bf16", 128, 128, decodes=True))
    assert {keys for keys, splits, *_ in steps.asked if splits == 1} >= set(LINE)


def test_a_query_tile_of_two_rounds_has_the_same_rows_with_and_without_rope_columns() -> None:
    for dims in ((128, 128), (192, 128)):
        kind = Kind("1q", "bf16", *dims, decodes=True)
        _, steps = record_of(kind)
        assert (4, 4, 1) in [given for *_, where, given in steps.asked if where == "last"]
        depth, ov_depth = dims
        config = FA4Config.for_attention(DType.BF16, depth, group=4, ov_depth=ov_depth, num_qo=1)
        assert config.fuse_gqa
    assert TWICE == 4 * 4


def test_one_kind_says_how_soon_boxes_follow_one_another() -> None:
    """Of 192/128 a page of 16 keys has five: two of V, three of K."""
    record, _ = record_of(Kind("1q", "bf16", 192, 128, decodes=True))
    assert record["box"] == pytest.approx([PAGE_KEY * 16 / 5])
    for dims in ((128, 128), (64, 64)):
        assert "box" not in record_of(Kind("1q", "bf16", *dims, decodes=True))[0]


def test_pairs_put_splits_together_in_a_workspace_only() -> None:
    record, steps = record_of(Kind("pair", "fp8", 256, 256, decodes=True))
    assert "last" not in record
    assert "exchange" not in record
    assert {where for *_, where, _ in steps.asked} == {"workspace"}
