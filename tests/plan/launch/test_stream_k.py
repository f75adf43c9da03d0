"""Stream-K: every key tile has one CTA, stretches are even, and parts are numbered apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

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
from fa4_cute.plan.launch.launch import (
    Workspace,
    lines_of_launch,
    most_places,
    plan_launch,
)
from fa4_cute.plan.launch.stream_k import (
    ALONE_PLACES,
    LONGER,
    MAX_PLACES,
    Part,
    TileInLine,
    least_places,
    may_begin,
    num_ctas_of,
    num_parts_of,
    places_of_stretch,
    places_of_tile,
)
from fa4_cute.plan.launch.tiles import AttentionSizes, TileShape
from fa4_cute.plan.spec.common_spec import START_TILES
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Scheduler, Variant

MIXED = st.lists(st.integers(0, 6) | st.integers(0, 300), min_size=1, max_size=60)
ALIKE = st.builds(lambda count, each: [each] * count, st.integers(1, 60), st.integers(0, 300))
TILES = MIXED | ALIKE
CTAS = st.integers(1, 264)


class Sizes(NamedTuple):
    """What a start counts as, and keys of a key tile: stretches may be shorter than a start."""

    start: int = START_TILES
    key_tile: int = 128


USUAL = Sizes()
SIZES = st.sampled_from([USUAL, Sizes(key_tile=64), Sizes(start=1), Sizes(key_tile=512)])
LEAST_PLACES = least_places(128)


def stretch_of(tiles: list[int], num_ctas: int, sizes: Sizes = USUAL) -> int:
    """Return the places of a stretch as a kernel finds them."""
    places = [int(places_of_tile(count, sizes.start)) for count in tiles]
    alike = places[0] if len(set(places)) == 1 else 0
    return int(places_of_stretch(sum(places), num_ctas, sizes.key_tile, alike=alike))


def taken(
    tiles: list[int], num_ctas: int, sizes: Sizes = USUAL
) -> list[list[tuple[int, Part]]]:
    """Return the parts of every CTA, with their query tiles, found as a kernel finds them."""
    starts, start_tiles = [0], sizes.start
    for count in tiles:
        starts.append(starts[-1] + places_of_tile(count, start_tiles))
    places = starts[-1]
    stretch = stretch_of(tiles, num_ctas, sizes)
    found: list[list[tuple[int, Part]]] = []
    for cta in range(num_ctas):
        parts: list[tuple[int, Part]] = []
        begun = [n for n in range(len(tiles)) if starts[n] <= cta * stretch]
        n = begun[-1] if cta * stretch < places else len(tiles)
        while n < len(tiles) and may_begin(starts[n], cta, stretch, start_tiles):
            parts.append((n, TileInLine(starts[n], tiles[n], stretch, start_tiles).part(cta)))
            n += 1
        found.append(parts)
    return found


@given(TILES, CTAS, SIZES)
def test_every_key_tile_belongs_to_one_cta(
    tiles: list[int], num_ctas: int, sizes: Sizes
) -> None:
    of_tile: dict[int, list[tuple[int, Part]]] = {n: [] for n in range(len(tiles))}
    for cta, of_cta in enumerate(taken(tiles, num_ctas, sizes)):
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


@given(TILES, CTAS, SIZES)
def test_no_cta_takes_more_than_its_stretch(
    tiles: list[int], num_ctas: int, sizes: Sizes
) -> None:
    stretch = stretch_of(tiles, num_ctas, sizes)
    for parts in taken(tiles, num_ctas, sizes):
        # What begins before its stretch has its start there, too, and costs it again.
        begun = sum(part.index == 0 for _, part in parts)
        assert sum(part.count for _, part in parts) + (begun - 1) * sizes.start <= stretch


@given(TILES, CTAS, SIZES)
def test_parts_are_numbered_by_cta_and_query_tile(
    tiles: list[int], num_ctas: int, sizes: Sizes
) -> None:
    """As results are kept: apart, and those of a query tile one behind the other."""
    numbers = []
    for cta, parts in enumerate(taken(tiles, num_ctas, sizes)):
        for n, part in parts:
            first_cta = cta - part.index
            assert first_cta + n + part.index == cta + n
            numbers.append(cta + n)
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < num_parts_of(len(tiles), num_ctas)


def test_a_picture_of_a_line() -> None:
    """Query tiles of 5, 2, 11 and 1 key tiles, three stretches."""
    tiles, sizes = [5, 2, 11, 1], Sizes(key_tile=64)
    assert stretch_of(tiles, 3, sizes) == ceil_div(8 + 5 + 14 + 4, 3)
    found = [[(n, part.first, part.count) for n, part in of] for of in taken(tiles, 3, sizes)]
    assert found == [[(0, 0, 5)], [(1, 0, 2), (2, 0, 6)], [(2, 6, 5), (3, 0, 1)]]


@given(ALIKE, CTAS, SIZES)
def test_query_tiles_that_are_alike_are_taken_whole_where_that_is_little_longer(
    tiles: list[int], num_ctas: int, sizes: Sizes
) -> None:
    each, stretch = int(places_of_tile(tiles[0], sizes.start)), stretch_of(tiles, num_ctas, sizes)
    even = places_of_stretch(each * len(tiles), num_ctas, sizes.key_tile)
    rounds = ceil_div(len(tiles), num_ctas)
    is_little = rounds * each <= even + even // LONGER
    assert stretch == (rounds * each if is_little else even)
    if is_little:
        found = taken(tiles, num_ctas, sizes)
        assert all(part.num_parts == 1 for parts in found for _, part in parts)


def test_a_step_of_sequences_that_are_alike_joins_nothing() -> None:
    """512 query tiles of 32 key tiles, of which 148 CTAs take four each; one that differs."""
    assert stretch_of([32] * 512, 148) == 4 * (32 + START_TILES)
    assert stretch_of([32] * 511 + [31], 148) == ceil_div(512 * (32 + START_TILES) - 1, 148)


def test_a_short_line_has_few_ctas() -> None:
    assert num_ctas_of(LEAST_PLACES, 148, 128) == 1
    assert num_ctas_of(LEAST_PLACES + 1, 148, 128) == 2
    assert num_ctas_of(10**6, 148, 128) == 148
    assert least_places(64) == 2 * LEAST_PLACES


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
    assert (plan.scalars["num_heads"], plan.scalars["num_sequences"]) == (8, 64)
    assert Workspace.of(spec, STEP, 1) == (64 * 8 + 148, 4, 64 * 8)
    assert Workspace.of(spec, replace(STEP, seqlen_q=3), 1).rows == 3 * 4
    few = AttentionSizes(1, 1, 1024, 8, 2)
    assert plan_launch(spec, few, 1.0).grid == (6, 1, 1)
    hopper = SM90Spec.for_attention(DType.BF16, 128, group=4, variant=CACHE).with_few_rows()
    assert lines_of_launch(hopper, STEP, 132) == (1, 8, 264)
    short = replace(STEP, batch=16, seqlen_k=2048)
    assert most_places(hopper, short) <= 132 * ALONE_PLACES < most_places(hopper, STEP)
    assert lines_of_launch(hopper, short, 132) == (1, 8, 132)
    fp8 = SM90Spec.for_attention(DType.FP8_E4M3, 128, group=4, variant=CACHE).with_few_rows()
    assert lines_of_launch(fp8, short, 132) == (1, 8, 264)
    assert Workspace.of(hopper, STEP, 1, 132) == (64 * 8 + 264, 4, 64 * 8)
    assert plan_launch(spec, replace(STEP, batch=0), 1.0).is_empty


def in_pairs(head_dim: int, **more: Any) -> Depth512Spec:
    variant = replace(CACHE, **more)
    return Depth512Spec.for_attention(DType.BF16, head_dim, group=4, variant=variant)


@pytest.mark.parametrize("head_dim", [256, 512])
def test_a_launch_of_pairs_has_one_for_every_two_sms(head_dim: int) -> None:
    """Both CTAs of a pair take the same parts, of which each writes and counts its own rows."""
    spec, tiles = in_pairs(head_dim), 64 * 8
    plan = plan_launch(spec, STEP, 1.0)
    assert (plan.grid, plan.cluster) == ((148, 1, 1), (2, 1, 1))
    assert plan.scalars["num_sequences"] == 64
    assert Workspace.of(spec, STEP, 1) == (tiles + 74, 4, 2 * tiles)
    assert Workspace.of(spec, STEP, 1, num_sms=1).parts == tiles + 1
    positions = TileShape.of(spec.config).positions
    assert Workspace.of(spec, replace(STEP, seqlen_q=positions), 1).rows == positions * 4
    assert plan_launch(spec, STEP, 1.0, num_sms=1).grid == (2, 1, 1)
    with pytest.raises(ValueError, match=f"seqlen_q={positions + 1}: .* of {positions} here"):
        plan_launch(spec, replace(STEP, seqlen_q=positions + 1), 1.0)


def test_the_start_of_a_query_tile_counts_by_the_size_of_key_tiles() -> None:
    assert [spec.start_tiles for spec in (stream_k(), in_pairs(256), in_pairs(512))] == [3, 3, 1]
    few = AttentionSizes(1, 1, 2048, 8, 2)
    # 16 key tiles of 128 keys, and 3 places, twice; or 8 of 256, and 1.
    assert lines_of_launch(in_pairs(256), few, 148) == (1, 2, 38 // 4 + 1)
    assert lines_of_launch(in_pairs(512), few, 148) == (1, 2, 18 // 2)


def test_more_queries_or_keys_than_it_counts_are_refused() -> None:
    spec = stream_k()
    assert plan_launch(spec, replace(STEP, seqlen_q=32), 1.0).grid == (148, 1, 1)
    with pytest.raises(ValueError, match=r"seqlen_q=33: the queries .* fit a query tile, of 32"):
        plan_launch(spec, replace(STEP, seqlen_q=33), 1.0)
    long = replace(STEP, batch=2**16, seqlen_k=2**20)
    with pytest.raises(ValueError, match=f"counted up to {MAX_PLACES}; .*scheduler='tile'"):
        plan_launch(spec, long, 1.0)
    assert not streams_keys(stream_k(scheduler=Scheduler.TILE), long, 148)


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
    {"batch": 2, "seqlen_k": 65536},
    {"return_lse": True},
)
STREAMED_IN_PAIRS: tuple[dict[str, Any], ...] = (
    {},
    {"features": replace(PAGED, ragged_q=True), "seqlen_q": 8},
    {"features": Features(ragged_q=True, ragged_k=True)},
    {"features": replace(PAGED, sink=True)},
    {"dtype": "fp8_e4m3"},
    {"seqlen_k": STREAMED_KEYS},
    {"batch": 2},
)
NOT_STREAMED = (
    {"features": Features()},  # all are as long
    {"batch": 1},
    {"batch": 4},  # a short line
    {"seqlen_k": STREAMED_KEYS - 1},
    {"seqlen_q": 33},
    {"num_qo": 1},
    {"features": replace(PAGED, num_splits=1)},
    {"features": replace(PAGED, scheduler=Scheduler.TILE)},
    {"pair_cta": True},
)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("change", STREAMED)
def test_sequences_that_may_differ_are_streamed(change: dict[str, Any], arch: str) -> None:
    found = require(choose(replace(PROBLEM, arch=arch, **change)))
    assert found.spec.variant.scheduler is Scheduler.STREAM_K
    assert found.scheduler.text.startswith("stream-K, CTAs that take as many keys each")
    assert found.num_splits == 1


@pytest.mark.parametrize("head_dim", [208, 256, 512])
@pytest.mark.parametrize("change", STREAMED_IN_PAIRS)
def test_pairs_stream_them_too(change: dict[str, Any], head_dim: int) -> None:
    wide = replace(PROBLEM, head_dim=head_dim, head_dim_v=head_dim)
    found = require(choose(replace(wide, **change)))
    assert isinstance(found.spec, Depth512Spec)
    assert found.spec.variant.scheduler is Scheduler.STREAM_K
    assert found.scheduler.text.startswith("stream-K, CTAs that take as many keys each")


@pytest.mark.parametrize(
    "change", [{"batch": 1}, {"seqlen_k": STREAMED_KEYS - 1}, {"seqlen_q": 65}]
)
def test_pairs_stream_no_others(change: dict[str, Any]) -> None:
    found = require(choose(replace(PROBLEM, head_dim=256, head_dim_v=256, **change)))
    assert found.spec.variant.scheduler is not Scheduler.STREAM_K


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
        ({"head_dim": 256, "head_dim_v": 256, "seqlen_q": 100}, "fit a query tile, of 64"),
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
