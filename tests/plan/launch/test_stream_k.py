"""Stream-K: every key tile has one CTA, stretches are even, and parts are numbered apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.refusals import Refusal
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import ceil_div
from fa4_cute.plan.launch.key_splits import STREAMED_KEYS, streams_keys
from fa4_cute.plan.launch.launch import AttentionSizes, Workspace, ctas_of_line, plan_launch
from fa4_cute.plan.launch.stream_k import (
    ALONE_PLACES,
    LEAST_PLACES,
    LONGER,
    MAX_PLACES,
    START_TILES,
    Part,
    TileInLine,
    may_begin,
    num_ctas_of,
    num_parts_of,
    places_of_stretch,
    places_of_tile,
)
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Scheduler, Variant

MIXED = st.lists(st.integers(0, 6) | st.integers(0, 300), min_size=1, max_size=60)
ALIKE = st.builds(lambda count, each: [each] * count, st.integers(1, 60), st.integers(0, 300))
TILES = MIXED | ALIKE
CTAS = st.integers(1, 264)


def stretch_of(tiles: list[int], num_ctas: int) -> int:
    """Return the places of a stretch as a kernel finds them."""
    places = [int(places_of_tile(count)) for count in tiles]
    alike = places[0] if len(set(places)) == 1 else 0
    return int(places_of_stretch(sum(places), num_ctas, alike=alike))


def taken(tiles: list[int], num_ctas: int) -> list[list[tuple[int, Part]]]:
    """Return the parts of every CTA, with their query tiles, found as a kernel finds them."""
    starts = [0]
    for count in tiles:
        starts.append(starts[-1] + places_of_tile(count))
    places = starts[-1]
    stretch = stretch_of(tiles, num_ctas)
    found: list[list[tuple[int, Part]]] = []
    for cta in range(num_ctas):
        parts: list[tuple[int, Part]] = []
        begun = [n for n in range(len(tiles)) if starts[n] <= cta * stretch]
        n = begun[-1] if cta * stretch < places else len(tiles)
        while n < len(tiles) and may_begin(starts[n], cta, stretch):
            parts.append((n, TileInLine(starts[n], tiles[n], stretch).part(cta)))
            n += 1
        found.append(parts)
    return found


@given(TILES, CTAS)
def test_every_key_tile_belongs_to_one_cta(tiles: list[int], num_ctas: int) -> None:
    of_tile: dict[int, list[tuple[int, Part]]] = {n: [] for n in range(len(tiles))}
    for cta, of_cta in enumerate(taken(tiles, num_ctas)):
        for n, part in of_cta:
            of_tile[n].append((cta, part))
    for n, taken_of_tile in of_tile.items():
        parts = [part for _, part in taken_of_tile]
        assert [part.index for part in parts] == list(range(parts[0].num_parts))
        ends = [(part.first, part.first + part.count) for part in parts]
        assert ends[0][0] == 0
        assert ends[-1][1] == tiles[n]
        assert all(one[1] == other[0] for one, other in pairwise(ends))
        assert all(part.count > 0 for part in parts) or (tiles[n] == 0 and len(parts) == 1)
        assert {part.num_parts for part in parts} == {len(parts)}


@given(TILES, CTAS)
def test_no_cta_takes_more_than_its_stretch(tiles: list[int], num_ctas: int) -> None:
    stretch = stretch_of(tiles, num_ctas)
    for parts in taken(tiles, num_ctas):
        # What begins before its stretch has its start there, too, and costs it again.
        begun = sum(part.index == 0 for _, part in parts)
        assert sum(part.count for _, part in parts) + (begun - 1) * START_TILES <= stretch


@given(TILES, CTAS)
def test_parts_are_numbered_by_cta_and_query_tile(tiles: list[int], num_ctas: int) -> None:
    """As results are kept: apart, and those of a query tile one behind the other."""
    numbers = []
    for cta, parts in enumerate(taken(tiles, num_ctas)):
        for n, part in parts:
            first_cta = cta - part.index
            assert first_cta + n + part.index == cta + n
            numbers.append(cta + n)
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < num_parts_of(len(tiles), num_ctas)


def test_a_picture_of_a_line() -> None:
    """Query tiles of 5, 2, 11 and 1 key tiles, three stretches."""
    tiles = [5, 2, 11, 1]
    found = [[(n, part.first, part.count) for n, part in of_cta] for of_cta in taken(tiles, 3)]
    assert places_of_stretch(sum(map(places_of_tile, tiles)), 3) == LEAST_PLACES
    assert found == [[(0, 0, 5), (1, 0, 1)], [(1, 1, 1), (2, 0, 8)], [(2, 8, 3), (3, 0, 1)]]


@given(ALIKE, CTAS)
def test_query_tiles_that_are_alike_are_taken_whole_where_that_is_little_longer(
    tiles: list[int], num_ctas: int
) -> None:
    each, places = int(places_of_tile(tiles[0])), sum(map(places_of_tile, tiles))
    even, stretch = places_of_stretch(places, num_ctas), stretch_of(tiles, num_ctas)
    rounds = ceil_div(len(tiles), num_ctas)
    is_little = rounds * each <= even + even // LONGER
    assert stretch == (rounds * each if is_little else even)
    if is_little:
        assert all(part.num_parts == 1 for parts in taken(tiles, num_ctas) for _, part in parts)


def test_a_step_of_sequences_that_are_alike_joins_nothing() -> None:
    """512 query tiles of 32 key tiles, of which 148 CTAs take four each; one that differs."""
    assert stretch_of([32] * 512, 148) == 4 * (32 + START_TILES)
    assert stretch_of([32] * 511 + [31], 148) == ceil_div(512 * (32 + START_TILES) - 1, 148)


def test_a_short_line_has_few_ctas() -> None:
    """Of two that an SM has room for, one takes as much as is sooner read by one."""
    assert num_ctas_of(LEAST_PLACES, 148) == 1
    assert num_ctas_of(LEAST_PLACES + 1, 148) == 2
    assert num_ctas_of(10**6, 148) == 148
    assert num_ctas_of(132 * ALONE_PLACES, 132, 2) == 132
    assert num_ctas_of(132 * ALONE_PLACES + 1, 132, 2) == 264


CACHE = Variant(used_k=True, page_size=64, scheduler=Scheduler.STREAM_K)
STEP = AttentionSizes(64, 1, 4096, 32, 8)


def stream_k(**more: Any) -> KernelSpec:
    return KernelSpec.for_attention(
        DType.BF16, 128, group=4, variant=replace(CACHE, **more)
    )


def test_a_launch_has_a_cta_for_every_sm_and_keeps_parts_of_query_tiles() -> None:
    spec = stream_k()
    assert spec.config.num_qo == 1
    plan = plan_launch(spec, STEP, 1.0)
    assert plan.grid == (148, 1, 1)
    assert plan.scalars["num_sequences"] == 64
    assert Workspace.of(spec, STEP, 1) == (64 * 8 + 148, 4, 64 * 8)
    assert Workspace.of(spec, replace(STEP, seqlen_q=3), 1).rows == 3 * 4
    few = AttentionSizes(1, 1, 1024, 8, 2)
    assert plan_launch(spec, few, 1.0).grid == (2, 1, 1)
    hopper = SM90Spec.for_attention(DType.BF16, 128, group=4, variant=CACHE).with_few_rows()
    assert ctas_of_line(hopper, STEP, 132) == 264
    assert ctas_of_line(hopper, replace(STEP, batch=16), 132) == 132
    fp8 = SM90Spec.for_attention(DType.FP8_E4M3, 128, group=4, variant=CACHE).with_few_rows()
    assert ctas_of_line(fp8, replace(STEP, batch=16), 132) == 264
    assert Workspace.of(hopper, STEP, 1, 132) == (64 * 8 + 264, 4, 64 * 8)
    assert plan_launch(spec, replace(STEP, batch=0), 1.0).is_empty


def test_more_queries_or_keys_than_it_counts_are_refused() -> None:
    spec = stream_k()
    assert plan_launch(spec, replace(STEP, seqlen_q=32), 1.0).grid == (148, 1, 1)
    with pytest.raises(ValueError, match=r"seqlen_q=33: the queries .* fit a query tile, of 32"):
        plan_launch(spec, replace(STEP, seqlen_q=33), 1.0)
    long = replace(STEP, batch=2**16, seqlen_k=2**20)
    with pytest.raises(ValueError, match=f"counted up to {MAX_PLACES}; .*scheduler='tile'"):
        plan_launch(spec, long, 1.0)
    assert not streams_keys(stream_k(scheduler=Scheduler.TILE), long)


PAGED = Features(used_k=True, page_size=64)
PROBLEM = Problem("bf16", 64, 1, 4096, 32, 8, 128, 128, causal=True, features=PAGED)
STREAMED: tuple[dict[str, Any], ...] = (
    {},
    {"features": replace(PAGED, ragged_q=True), "seqlen_q": 8},
    {"features": Features(ragged_q=True, ragged_k=True)},
    {"features": replace(PAGED, sink=True)},
    {"dtype": "fp8_e4m3"},
    {"head_dim": 192},
    {"seqlen_k": STREAMED_KEYS},
    {"batch": 2},
    {"return_lse": True},
)
NOT_STREAMED = (
    {"features": Features()},  # all are as long
    {"batch": 1},
    {"seqlen_k": STREAMED_KEYS - 1},
    {"seqlen_q": 33},
    {"num_qo": 1},
    {"features": replace(PAGED, num_splits=1)},
    {"features": replace(PAGED, scheduler=Scheduler.TILE)},
    {"head_dim": 256, "head_dim_v": 256},
    {"pair_cta": True},
)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("change", STREAMED)
def test_sequences_that_may_differ_are_streamed(change: dict[str, Any], arch: str) -> None:
    found = require(choose(replace(PROBLEM, arch=arch, **change)))
    assert found.spec.variant.scheduler is Scheduler.STREAM_K
    assert found.scheduler.text.startswith("stream-K, CTAs that take as many keys each")
    assert found.num_splits == 1


@pytest.mark.parametrize("change", NOT_STREAMED)
def test_others_are_not(change: dict[str, Any]) -> None:
    found = choose(replace(PROBLEM, **change))
    assert isinstance(found, Choice)
    assert found.spec.variant.scheduler is not Scheduler.STREAM_K


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"num_qo": 2}, "num_qo=2"),
        ({"seqlen_q": 100}, "fit a query tile"),
        ({"head_dim": 512, "head_dim_v": 512}, "no part of SM100MHADepth512"),
        ({"pair_cta": True}, "pair_cta=True"),
        ({"num_qo": 2, "arch": "sm_90a"}, "num_qo=2.*num_qo=1"),
        ({"seqlen_q": 100, "arch": "sm_90a"}, "fit a query tile"),
    ],
)
def test_who_asks_for_what_there_is_not_is_told(change: dict[str, Any], why: str) -> None:
    asked = replace(PAGED, scheduler=Scheduler.STREAM_K)
    found = choose(replace(PROBLEM, features=asked, **change))
    assert isinstance(found, Refusal)
    with pytest.raises((ValueError, NotImplementedError), match=why):
        raise found.exception()
