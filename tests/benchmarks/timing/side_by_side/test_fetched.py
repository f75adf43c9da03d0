"""What of K, V and biases comes from memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.timing.side_by_side import callers, problems, spread
from benchmarks.timing.side_by_side.grid.fetched import (
    L2_BYTES,
    Cache,
    Pace,
    Shared,
    fetched,
    once,
)
from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout

LAYOUT = Layout(256, 1, persistent=False, block=128)
PACE = Pace(1000.0, 2000.0)
KEY = Shared(512)
BLOCK = 128 * 512
"""Bytes of a block of K and V."""


def test_what_was_used_longest_ago_makes_room() -> None:
    cache = Cache(2)
    for name in (1, 2, 1, 3, 1, 2):
        cache.use((name,), 1)
    assert cache.missed == 4  # 2 came twice


def test_each_key_is_read_once_where_all_fit() -> None:
    extent = Extent(4, 1024, 1024, causal=True, section=4)
    assert once(extent, LAYOUT, KEY) == 4 * 8 * BLOCK
    for order in ("heads", "sections"):
        assert fetched(extent, replace(LAYOUT, order=order), KEY, PACE, 3) == 4 * 8 * BLOCK


def test_all_heads_of_a_place_ask_for_all_keys_again() -> None:
    """One place: eight, six, four and two blocks of four heads each, of which two fit."""
    extent = Extent(4, 1024, 1024, causal=True, section=4)
    sections = replace(LAYOUT, order="sections")
    assert fetched(extent, sections, KEY, PACE, 1, capacity=2 * BLOCK) == 4 * 20 * BLOCK
    # A head's query tiles in turn: the last one sees the two blocks with which that before ended.
    assert fetched(extent, LAYOUT, KEY, PACE, 1, capacity=2 * BLOCK) == 4 * 18 * BLOCK
    assert fetched(extent, LAYOUT, KEY, PACE, 1, capacity=8 * BLOCK) == 4 * 8 * BLOCK


def test_a_window_leaves_keys_out_and_asks_for_its_own() -> None:
    extent = Extent(1, 1024, 1024, causal=True, window=127)
    assert once(extent, LAYOUT, KEY) == 8 * BLOCK
    # 256 queries see 383 keys, in three blocks; the first ones two.
    assert fetched(extent, LAYOUT, KEY, PACE, 1, capacity=0) == 11 * BLOCK


def test_biases_are_of_a_sequence_s_heads() -> None:
    extent = Extent(6, 512, 512, causal=False)
    bias = Shared(512, pair=2, heads=3)
    keys, pairs = 6 * 4 * BLOCK, 3 * 2 * 4 * 256 * 128 * 2
    assert once(extent, LAYOUT, bias) == keys + pairs
    assert fetched(extent, LAYOUT, bias, PACE, 1, capacity=0) == 2 * keys + 2 * pairs


@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.booleans(), st.booleans(),
    st.sampled_from([0, 1, 7, 1000]),
)  # fmt: skip
def test_no_order_reads_less_than_all_once_or_more_than_each_tile_s_own(
    heads: int, tiles: int, places: int, persistent: bool, turns: bool, blocks: int
) -> None:
    layout = replace(LAYOUT, persistent=persistent, turns=turns)
    extent = Extent(heads, 256 * tiles, 256 * tiles, causal=True, section=2)
    found = fetched(extent, layout, KEY, PACE, places, capacity=blocks * BLOCK)
    least = once(extent, layout, KEY)
    assert least <= found <= sum(extent.tiles(layout)) * KEY.key
    if blocks == 1000:
        assert found == least


@pytest.mark.parametrize("length", problems.LENGTHS)
@pytest.mark.parametrize("runner", ["fa4_cute", "FA4"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dims", [(64, 64), (128, 128)])
def test_plain_kernels_read_hardly_anything_twice(
    dims: tuple[int, int], causal: bool, runner: str, length: int
) -> None:
    """So their rows leave it out: of this package's orders, and FlashAttention-4's.

    Short query tiles that are kept for the end ask for the first keys of all heads again.
    """
    family = problems.Family(dims, causal)
    problem = family.problem(length, problems.TOKENS // length)
    column = next(column for column in problems.COLUMNS if column.runner == runner)
    insisting = callers.settled(column, problem)
    persistent = spread.is_persistent(insisting) or not causal
    layout = replace(
        LAYOUT, persistent=persistent, order=spread.order_of(insisting, problem),
        turns=runner == "fa4_cute", claims=spread.takes_over(insisting), runner=runner,
    )  # fmt: skip
    extent = spread.extent_of(problem, runner, insisting)
    shared = Shared(2 * sum(dims))
    least = once(extent, layout, shared)
    assert least == problem.batch * problem.heads * length * shared.key
    assert fetched(extent, layout, shared, PACE, 148, L2_BYTES) <= 1.1 * least
