"""Which kernels let a Q tile leave out a key tile that its rows do not see."""

from __future__ import annotations

from typing import Any

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL, ChunkedMask, Mask, SlidingWindowMask
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler, Variant

DYNAMIC: dict[str, Any] = {"scheduler": Scheduler.DYNAMIC}


@pytest.mark.parametrize(
    ("dtype", "variant", "options", "expected"),
    [
        (DType.BF16, Variant(CAUSAL), {}, True),
        (DType.FP16, Variant(ChunkedMask(70)), {}, True),
        (DType.BF16, Variant(CAUSAL & SlidingWindowMask(9, None)), {"num_qo": 2}, True),
        (DType.BF16, Variant(SlidingWindowMask(9, None)), {}, False),
        (DType.BF16, Variant(), {}, False),
        (DType.FP8_E4M3, Variant(CAUSAL), {}, False),
        (DType.FP8_E4M3, Variant(CAUSAL, scheduler=Scheduler.PERSISTENT), {}, True),
        (DType.FP8_E4M3, Variant(CAUSAL, **DYNAMIC, token_scales=True), {}, False),
        (DType.BF16, Variant(CAUSAL), {"num_qo": 1}, False),
        (DType.BF16, Variant(CAUSAL), {"pair_cta": True}, False),
    ],
)
def test_chains_end_apart_where_p_crosses_and_the_last_visible_key_depends_on_the_row(
    dtype: DType, variant: Variant, options: dict[str, Any], expected: bool
) -> None:
    spec = KernelSpec.for_attention(dtype, 128, variant=variant, **options)
    assert spec.first_ends_early == spec.issue_order.ends_apart == expected


@pytest.mark.parametrize(
    ("dtype", "mask", "expected"),
    [
        (DType.BF16, SlidingWindowMask(9, 0), True),
        (DType.BF16, CAUSAL & SlidingWindowMask(9, None), True),
        (DType.BF16, SlidingWindowMask(9, None), False),
        (DType.BF16, CAUSAL, False),
        (DType.BF16, ChunkedMask(70), False),
        (DType.FP8_E4M3, SlidingWindowMask(9, 0), False),
    ],
)
def test_the_second_chain_leads_in_windows_whose_chains_end_apart(
    dtype: DType, mask: Mask, expected: bool
) -> None:
    spec = KernelSpec.for_attention(dtype, 128, variant=Variant(mask))
    assert spec.second_starts_late == spec.issue_order.starts_apart == expected
    spec = KernelSpec.for_attention(dtype, 128, variant=Variant(mask, scheduler=Scheduler.DYNAMIC))
    others = (CAUSAL, ChunkedMask(70), SlidingWindowMask(9, None))
    assert spec.second_starts_late == (mask not in others)


@pytest.mark.parametrize(("group", "expected"), [(1, True), (2, True), (4, False), (8, False)])
def test_chains_end_together_there_where_heads_share_a_q_tile_of_few_positions(
    group: int, expected: bool
) -> None:
    variant = Variant(CAUSAL, **DYNAMIC)
    for dtype, deep in ((DType.FP8_E4M3, expected), (DType.BF16, True)):
        spec = KernelSpec.for_attention(dtype, 128, group=group, variant=variant)
        assert spec.first_ends_early == deep


@pytest.mark.parametrize(("scheduler", "expected"), [
    (Scheduler.TILE, False), (Scheduler.PERSISTENT, True), (Scheduler.DYNAMIC, True),
])  # fmt: skip
def test_chains_end_together_where_the_softmax_is_the_limit_and_no_query_tile_follows(
    scheduler: Scheduler, expected: bool
) -> None:
    variant = Variant(CAUSAL, scheduler=scheduler)
    assert KernelSpec.for_attention(DType.BF16, 64, variant=variant).first_ends_early == expected
    assert KernelSpec.for_attention(DType.BF16, 96, variant=variant).first_ends_early
