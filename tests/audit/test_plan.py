"""Masks that random draws rarely make: intersections of two starts, unions with gaps."""

from __future__ import annotations

from itertools import product

import pytest

from fa4_cute.plan.masks.key_tiles import KeyTileMap, Rows, visible_keys
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    ChunkedMask,
    Interval,
    Mask,
    SlidingWindowMask,
    terms,
)
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
