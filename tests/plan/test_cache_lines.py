"""Heads that share cache lines of the L2: in how many lines their query tiles lie, and splits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import are_whole_cache_lines, divide_cache_lines
from fa4_cute.plan.launch.key_splits import SPLITS_OF_ALL, streams_keys
from fa4_cute.plan.launch.launch import Workspace, lines_of_launch, plan_launch
from fa4_cute.plan.launch.sm90_selection import choose_key_splits
from fa4_cute.plan.launch.stream_k import head_in_line, num_lines_of
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Scheduler, Variant

CACHE = Variant(used_k=True, page_size=64, scheduler=Scheduler.STREAM_K)
STEP = AttentionSizes(64, 1, 4096, 32, 8)


@given(st.integers(1, 200), st.integers(1, 600))
def test_lines_are_as_many_as_leave_hardly_a_cta_idle(heads: int, num_ctas: int) -> None:
    count = num_lines_of(heads, num_ctas)
    assert heads % count == 0
    assert num_ctas % count <= num_ctas / 100
    assert count <= num_ctas
    more = (n for n in range(count + 1, heads + 1) if heads % n == 0 and n <= num_ctas)
    assert all(num_ctas % n > num_ctas / 100 for n in more)


def test_heads_of_a_step_that_are_read_at_the_same_time() -> None:
    """By all CTAs of a B200 and of an H200, one or two on each SM, and by pairs."""
    ctas = (148, 132, 264, 74)
    found = [[num_lines_of(heads, count) for heads in (1, 2, 4, 5, 8, 32)] for count in ctas]
    assert found == [[1, 2, 4, 1, 4, 4], [1, 2, 4, 1, 4, 4], [1, 2, 4, 1, 8, 8], [1, 2, 2, 1, 2, 2]]


@given(st.integers(1, 8), st.integers(1, 8))
def test_every_head_has_one_place_in_one_line(count: int, heads: int) -> None:
    places = product(range(heads), range(count))
    found = [head_in_line(number, line, count) for number, line in places]
    assert found == [*range(count * heads)], "neighbours are in different lines"


def test_heads_that_share_lines_of_the_l2_have_several_lines() -> None:
    """Rows of 64 bytes, of 128 and of 192: on all CTAs of a B200, and on two of each SM of an H200.
    """
    for dtype, head_dim, shares in (
        (DType.FP8_E4M3, 64, True), (DType.BF16, 64, False),
        (DType.BF16, 96, True), (DType.FP8_E4M3, 96, True),
    ):  # fmt: skip
        spec = KernelSpec.for_attention(dtype, head_dim, group=4, variant=CACHE)
        plan = plan_launch(spec, STEP, 1.0)
        assert plan.grid == ((37, 4, 1) if shares else (148, 1, 1))
        assert plan.scalars["num_heads"] == (2 if shares else 8)
        assert Workspace.of(spec, STEP, 1) == (64 * 8 + 148, 4, 64 * 8)
        few = SM90Spec.for_attention(dtype, head_dim, group=4, variant=CACHE).with_few_rows()
        assert lines_of_launch(few, STEP, 132) == ((8, 1, 33) if shares else (1, 8, 264))


def test_a_short_line_has_few_stretches() -> None:
    """Two lines of a head each: 16 key tiles of 128 keys and 3 places, of which 4 are 512 keys."""
    spec = KernelSpec.for_attention(DType.BF16, 96, group=4, variant=CACHE)
    assert spec.config.BN == 128
    assert lines_of_launch(spec, AttentionSizes(1, 1, 2048, 8, 2), 148) == (2, 1, 5)
    assert lines_of_launch(spec, AttentionSizes(3, 1, 2048, 8, 2), 148) == (2, 1, 15)


@pytest.mark.parametrize(
    ("row_bytes", "whole", "divide"),
    [((128, 128), True, True), ((384, 256), True, True), ((64, 64), False, True),
     ((192, 192), False, False), ((96, 96), False, False), ((256, 64), False, True)],
)  # fmt: skip
def test_rows_are_lines_of_the_l2_or_parts_of_them(
    row_bytes: tuple[int, int], whole: bool, divide: bool
) -> None:
    assert are_whole_cache_lines(row_bytes) is whole
    assert divide_cache_lines(row_bytes) is divide


def test_steps_whose_rows_do_not_divide_lines_are_split_alike_on_hopper() -> None:
    """Where the parts of one sequence are enough for all SMs: 32 heads, and not 8."""
    variant = replace(CACHE, scheduler=Scheduler.TILE)
    for head_dim, dtype, heads_kv, alike in (
        (96, DType.BF16, 32, True), (80, DType.BF16, 32, True), (96, DType.BF16, 8, False),
        (128, DType.BF16, 32, False), (64, DType.FP8_E4M3, 32, False),
    ):  # fmt: skip
        sizes = replace(STEP, num_kv_heads=heads_kv)
        group = 32 // heads_kv
        few = SM90Spec.for_attention(dtype, head_dim, group=group, variant=variant).with_few_rows()
        assert streams_keys(few, sizes, 132) is not alike
        found = choose_key_splits(few, sizes, 132)
        assert (found.num_splits == SPLITS_OF_ALL) is alike
        assert ("share cache lines" in found.reason) is alike
        blackwell = KernelSpec.for_attention(
            dtype, head_dim, group=group, num_qo=1, variant=variant
        )
        assert streams_keys(blackwell, sizes, 148)
