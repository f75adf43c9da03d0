"""Plans that draws rarely reach: masks with two starts, ranges with gaps, edges of formulas."""

from __future__ import annotations

from itertools import product

import pytest

from fa4_cute.plan.compute.column_plan import ColumnPlan
from fa4_cute.plan.config.reduce_scatter import ReduceScatterPlan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import TMEM_COLUMNS
from fa4_cute.plan.facts.regions import Region
from fa4_cute.plan.masks.key_tiles import KeyTileMap, Rows, visible_keys
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    ChunkedMask,
    Interval,
    Mask,
    SlidingWindowMask,
    terms,
)
from fa4_cute.plan.memory.tmem import TmemMap
from tests.plan.mask_cases import shows

KEYS = 96
TILE = 8
LEAVES = (CAUSAL, ChunkedMask(16), ChunkedMask(24), SlidingWindowMask(9, None),
          SlidingWindowMask(30, 4), SlidingWindowMask(2, 20))  # fmt: skip
UNIONS = (
    ChunkedMask(16) | SlidingWindowMask(60, 0) & ChunkedMask(64),
    (ChunkedMask(8) & CAUSAL) | SlidingWindowMask(2, 2),
    SlidingWindowMask(3, 0) | ChunkedMask(48),
)


@pytest.mark.parametrize(("a", "b"), list(product(LEAVES, LEAVES)))
def test_intersections_in_both_orders(a: Mask, b: Mask) -> None:
    for row in range(-5, KEYS):
        expected = {key for key in range(KEYS) if shows(a, row, key, ()) and shows(b, row, key, ())}
        assert visible_keys(a & b, row, KEYS) == expected


@pytest.mark.parametrize("mask", UNIONS)
def test_tiles_of_unions_are_visited_once_and_in_order(mask: Mask) -> None:
    for first in range(0, KEYS, 4):
        rows = range(first, first + 4)
        visited = KeyTileMap.of(terms(mask), Rows(first, first + 3, KEYS), TILE)
        tiles = [visited.tile(n) for n in range(visited.count)]
        assert tiles == sorted(set(tiles))
        seen = {key // TILE for row in rows for key in visible_keys(mask, row, KEYS)}
        assert seen <= set(tiles)


def test_ranges_with_tiles_between_them() -> None:
    visited = KeyTileMap((Interval(1, 3), Interval(3, 3), Interval(5, 8)))
    assert [visited.tile(n) for n in range(visited.count)] == [1, 2, 5, 6, 7]


@pytest.mark.parametrize(("bn", "resident"), [(64, 64), (128, 128), (192, 96), (256, 128)])
def test_scores_of_a_tile_of_128_keys_are_read_once(bn: int, resident: int) -> None:
    plan = ColumnPlan(bn, 2)
    assert plan.resident == resident
    assert sum(map(len, plan.loads)) == bn


@pytest.mark.parametrize("depth", [64, 72, 80, 104, 128])
def test_bands_of_a_cluster_end_with_a_whole_block(depth: int) -> None:
    plan = ReduceScatterPlan(2, 128, depth, DType.BF16)
    assert plan.block_end % plan.block_columns == 0
    assert depth <= plan.block_end < depth + plan.block_columns


def test_tensor_memory_ends_at_its_last_column() -> None:
    assert TmemMap((Region("O", TMEM_COLUMNS - 8, 8),)).used == TMEM_COLUMNS
    with pytest.raises(ValueError, match=r"O ends at column 513 of 512"):
        TmemMap((Region("O", TMEM_COLUMNS - 8, 9),))
