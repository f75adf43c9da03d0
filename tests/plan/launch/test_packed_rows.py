"""Packed tiles against walking through all sequences."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import choose, require, rounded_up
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import ceil_div
from fa4_cute.plan.launch.launch import Workspace, counts_rows, plan_launch
from fa4_cute.plan.launch.packed_rows import WAYS, first_packed_tile, first_step, num_packed_tiles
from fa4_cute.plan.launch.tiles import AttentionSizes, TileShape
from fa4_cute.plan.masks.masks import CAUSAL, SlidingWindowMask
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import FIRST_STEP, Partition, Scheduler, Variant
from testing.kernels import MOD

LENGTHS = st.lists(st.integers(0, 70) | st.integers(0, 2000), min_size=1, max_size=80)


def starts_of(lengths: list[int]) -> list[int]:
    return [0, *accumulate(lengths)]


def found(tile: int, starts: list[int], positions: int) -> int:
    """Return the sequence that the lanes of a warp find, step by step as they look."""
    count, start, step = len(starts) - 1, 0, first_step(len(starts) - 1)
    while True:
        lanes = [start + lane * step for lane in range(WAYS)]
        begun = [
            n < count and first_packed_tile(starts[n], n, positions) <= tile if n < count else False
            for n in lanes
        ]
        assert begun == sorted(begun, reverse=True)
        start += (sum(begun) - 1) * step
        if step == 1:
            return start
        step //= WAYS


@given(LENGTHS, st.sampled_from((1, 21, 64, 256)))
def test_every_query_tile_has_a_packed_tile_and_at_most_one_a_sequence_is_spare(
    lengths: list[int], positions: int
) -> None:
    starts = starts_of(lengths)
    tiles = [first_packed_tile(row, n, positions) for n, row in enumerate(starts)]
    for length, first, behind in zip(lengths, tiles, tiles[1:], strict=False):
        assert ceil_div(length, positions) <= behind - first <= ceil_div(length, positions) + 1
    total = num_packed_tiles(starts[-1], len(lengths), positions)
    assert total == (tiles[-1] if starts[-1] else 0)


@given(LENGTHS, st.sampled_from((1, 21, 64)), st.integers(0, 300))
def test_lanes_find_the_sequence_of_every_packed_tile_and_the_last_one_behind_all_rows(
    lengths: list[int], positions: int, behind: int
) -> None:
    starts = starts_of(lengths)
    firsts = [first_packed_tile(row, n, positions) for n, row in enumerate(starts)]
    owners = [n for n in range(len(lengths)) for _ in range(firsts[n], firsts[n + 1])]
    owners += [len(lengths) - 1] * (behind // positions)
    assert [found(tile, starts, positions) for tile in range(len(owners))] == owners


@pytest.mark.parametrize(
    ("batch", "step"), [(1, 1), (32, 1), (33, 32), (1024, 32), (1025, 1024), (32769, 32768)]
)
def test_lanes_look_first_at_as_many_sequences_as_reach_all(batch: int, step: int) -> None:
    assert first_step(batch) == step


PAGED = Features(ragged_q=True, used_k=True, page_size=64)
PROMPTS = Features(ragged_q=True, ragged_k=True)
PACKED = Variant(CAUSAL, ragged_q=True, ragged_k=True)
MIX = AttentionSizes(32, 2048, 4096, 32, 8, total_q=2048 + 31)
"""A chunk of a prompt beside steps of decoding."""
Kind = type[KernelSpec] | type[Depth512Spec] | type[SM90Spec]
KINDS: tuple[tuple[Kind, int, int, int], ...] = (
    (KernelSpec, 128, 64, 1), (Depth512Spec, 256, 64, 2), (SM90Spec, 128, 32, 1),
)  # fmt: skip
"""A kernel's kind, its head dim, positions of its query tiles, and CTAs of one."""


def rows_spec(kind: Kind, head_dim: int, **more: Any) -> AttentionSpec:
    variant = Variant(CAUSAL, ragged_q=True, ragged_k=True, by_rows=True, **more)
    return kind.for_attention(DType.BF16, head_dim, group=4, variant=variant)


@pytest.mark.parametrize(("kind", "head_dim", "positions", "ctas"), KINDS)
def test_a_launch_by_rows_has_packed_tiles_along_x_and_says_how_many_sequences_there_are(
    kind: Kind, head_dim: int, positions: int, ctas: int
) -> None:
    spec = rows_spec(kind, head_dim)
    shape = TileShape.of(spec.config)
    assert (shape.positions, shape.cluster_size) == (positions, ctas)
    plan = plan_launch(spec, MIX, 1.0)
    assert plan.grid == ((2079 // positions + 32) * 32 // shape.group * ctas, 1, 1)
    assert plan.scalars["num_sequences"] == 32
    assert plan.scalars[FIRST_STEP] == 1
    assert {"num_sequences", FIRST_STEP} <= set(spec.variant.extra_names)
    assert not {"num_sequences", FIRST_STEP} & set(spec.variant.call_extras.items())


@pytest.mark.parametrize("scheduler", [Scheduler.PERSISTENT, Scheduler.DYNAMIC])
def test_works_of_persistent_ctas_are_packed_tiles_of_all_heads(scheduler: Scheduler) -> None:
    plan = plan_launch(rows_spec(KernelSpec, 128, scheduler=scheduler), MIX, 1.0)
    assert plan.scalars["num_work"] == (2079 // 64 + 32) * 8
    assert (plan.scalars["num_heads"], plan.scalars["num_sequences"]) == (8, 32)


def test_splits_of_a_packed_tile_are_neighbours_and_have_a_counter() -> None:
    spec = rows_spec(KernelSpec, 128, partition=Partition.LAST)
    tiles = 2079 // TileShape.of(spec.config).positions + 32
    assert plan_launch(spec, MIX, 1.0, num_splits=3).grid == (tiles * 8 * 3, 1, 1)
    assert Workspace.of(spec, MIX, 2).counters == tiles * 8


def test_rows_are_counted_where_there_are_far_fewer_query_tiles() -> None:
    spec = KernelSpec.for_attention(DType.BF16, 128, group=4, variant=PACKED)
    assert counts_rows(spec, MIX)
    alike = AttentionSizes(32, 2048, 4096, 32, 8, total_q=32 * 2048)
    assert not counts_rows(spec, alike)
    assert not counts_rows(spec, AttentionSizes(32, 2048, 4096, 32, 8))  # nothing is known
    assert not counts_rows(spec, AttentionSizes(32, 1, 4096, 32, 8, total_q=32))
    dense = KernelSpec.for_attention(DType.BF16, 128, group=4, causal=True)
    assert not counts_rows(dense, MIX)


def test_an_order_that_begins_with_the_longest_is_given_up_for_more() -> None:
    """Dynamic CTAs of packed prompts begin with the longest query tiles of all of them."""
    handed = Variant(CAUSAL, ragged_q=True, ragged_k=True, scheduler=Scheduler.DYNAMIC)
    spec = KernelSpec.for_attention(DType.BF16, 128, group=4, variant=handed)
    some = AttentionSizes(8, 2048, 2048, 32, 8, total_q=9 * 1024)
    assert counts_rows(KernelSpec.for_attention(DType.BF16, 128, group=4, variant=PACKED), some)
    assert not counts_rows(spec, some)
    assert counts_rows(spec, MIX)
    posed = Problem(
        "bf16", 8, 2048, 2048, 64, 16, 128, 128, causal=True, features=PROMPTS, num_qo=2,
        total_q=9 * 1024,
    )  # fmt: skip
    chosen: AttentionSpec = require(choose(posed)).spec
    assert chosen.variant == handed
    tile = replace(PROMPTS, scheduler=Scheduler.TILE)
    alone: AttentionSpec = require(choose(replace(posed, features=tile))).spec
    assert alone.variant.by_rows


@pytest.mark.parametrize("features", [PAGED, PROMPTS])
def test_packed_query_tiles_are_handed_out_by_how_many_rows_allow(features: Features) -> None:
    """296 of 64 queries are two for each of 148 SMs."""
    posed = Problem(
        "bf16", 8, 2048, 4096, 32, 8, 128, 128, causal=True, features=features, num_qo=2
    )

    def scheduler(total_q: int) -> Scheduler:
        spec: AttentionSpec = require(choose(replace(posed, total_q=total_q))).spec
        return spec.variant.scheduler

    few, enough = 64 * (296 // 8 - 8) - 64, 64 * (296 // 8 - 8)
    assert scheduler(0) is scheduler(enough) is Scheduler.DYNAMIC
    assert scheduler(few) is Scheduler.TILE


def test_a_choice_is_the_same_of_about_as_many_rows() -> None:
    assert [rounded_up(n) for n in (0, 1, 15, 16, 17, 2111)] == [0, 1, 15, 16, 18, 2304]
    posed = Problem(
        "bf16", 64, 2048, 4096, 32, 8, 128, 128, causal=True, features=PAGED, total_q=2111
    )
    assert choose(posed) is choose(replace(posed, total_q=2100))
    assert choose(posed) is not choose(replace(posed, total_q=2400))


@given(st.integers(0, 2**31 - 1))
def test_rounding_adds_an_eighth_at_most(count: int) -> None:
    assert count <= rounded_up(count) <= count + count // 8 + 1


def test_query_tiles_of_packed_sequences_are_no_more_than_rows_allow() -> None:
    shape = TileShape(64, 4)
    assert MIX.query_tiles(shape) == (2079 // 64 + 32) * 8
    alike = AttentionSizes(4, 128, 128, 4, 1, total_q=512)
    assert alike.query_tiles(shape) == 8
    assert AttentionSizes(4, 128, 128, 4, 1).query_tiles(shape) == 8
    assert (MIX.num_queries, AttentionSizes(4, 128, 128, 4, 1).num_queries) == (2079, 512)


def test_laden_fp8_kernels_of_hopper_do_not_count_rows() -> None:
    union = CAUSAL | SlidingWindowMask(20, 40)
    sizes = AttentionSizes(32, 2048, 4096, 32, 8, total_q=2079)

    def counts(dtype: DType, **more: Any) -> bool:
        variant = Variant(ragged_q=True, ragged_k=True, **more)
        return counts_rows(SM90Spec.for_attention(dtype, 128, group=4, variant=variant), sizes)

    assert counts(DType.FP8_E4M3, mask=union)
    assert counts(DType.FP8_E4M3, mask=CAUSAL, score_mod=MOD)
    assert not counts(DType.FP8_E4M3, mask=union, score_mod=MOD)
    assert counts(DType.BF16, mask=union, score_mod=MOD)


def test_no_dense_query_tiles_are_counted_by_rows() -> None:
    with pytest.raises(ValueError, match="by_rows=True"):
        Variant(by_rows=True)
