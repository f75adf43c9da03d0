"""Specifications: names that tell kernels apart, and rows that belong to positions."""

import re
from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.plan.compute.mma_plans import pv_plan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    NULL,
    DenseBiasMask,
    SlidingWindowMask,
)
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Partition, Scheduler, Variant


def test_names_are_unique_identifiers() -> None:
    specs = [
        KernelSpec.for_attention(dtype, head_dim, group=group, causal=causal, return_lse=lse)
        for dtype in (DType.BF16, DType.FP16)
        for head_dim in (64, 128)
        for group in (1, 4)
        for causal in (False, True)
        for lse in (False, True)
    ]
    names = {spec.name for spec in specs}
    assert len(names) == len(specs)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)


@pytest.mark.parametrize(("group", "rows"), [(1, 1), (2, 2), (8, 8), (128, 128), (3, 1), (256, 1)])
def test_groups_that_divide_a_tile_share_positions(group: int, rows: int) -> None:
    spec = KernelSpec.for_attention(DType.BF16, 64, group=group)
    assert spec.rows_per_position == rows
    assert spec.tile_positions * rows == spec.config.MMA_M


def unchanged(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score


MOD = ScoreMod("unchanged", "spec", (), unchanged)
SHARES: dict[str, Any] = {"scheduler": Scheduler.PERSISTENT, "partition": Partition.WORKSPACE}


@pytest.mark.parametrize(
    ("variant", "keys"),
    [
        (Variant(), 192),
        (Variant(CAUSAL, **SHARES), 192),
        (Variant(DenseBiasMask(0)), 128),
        (Variant(score_mod=MOD, **SHARES), 128),
        (Variant(DenseBiasMask(0), score_mod=MOD, scheduler=Scheduler.PERSISTENT), 128),
        (Variant(DenseBiasMask(0), score_mod=MOD, **SHARES), 64),
    ],
)
def test_what_changes_scores_makes_tiles_smaller(variant: Variant, keys: int) -> None:
    tile = KernelSpec.for_attention(DType.BF16, 112, head_dim_v=64, variant=variant).config.BN
    assert tile == keys


def test_mask_and_element_names() -> None:
    spec = KernelSpec.for_attention(DType.FP16, 64, causal=True)
    assert spec.variant.mask == CAUSAL
    assert spec.output_dtype is DType.FP16
    assert spec.exp2_plan.bn == spec.config.BN


@pytest.mark.parametrize(
    ("dtype", "head_dim", "batches", "columns"),
    [
        (DType.BF16, 64, 4, 96),
        (DType.BF16, 128, 4, 96),
        (DType.BF16, 192, 4, 48),
        (DType.FP8_E4M3, 64, 4, 96),
        (DType.FP8_E4M3, 128, 4, 96),
        (DType.FP8_E4M3, 192, 2, 32),
    ],
)
def test_p_is_handed_over_where_the_mma_splits_it(
    dtype: DType, head_dim: int, batches: int, columns: int
) -> None:
    spec = KernelSpec.for_attention(dtype, head_dim)
    tuning = replace(spec.config.tuning, crosses=False)
    spec = spec.with_config(replace(spec.config, tuning=tuning))
    spans = spec.column_plan.batches
    assert len(spans) == batches
    assert spans[spec.first_batches[-1]].start == columns
    pv = pv_plan(spec.config)
    assert columns == pv.k_blocks(1).start * dtype.mma_k


def test_impossible_kernels_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="256"):
        KernelSpec.for_attention(DType.BF16, 256)


@pytest.mark.parametrize(
    ("dtype", "head_dim", "options", "holds"),
    [
        (DType.FP8_E4M3, 128, {}, True),
        (DType.FP8_E4M3, 64, {}, True),
        (DType.FP8_E4M3, 96, {}, True),
        (DType.FP8_E4M3, 96, {"mask": CAUSAL}, False),
        (DType.FP8_E4M3, 96, {"mask": CAUSAL, "partition": Partition.WORKSPACE}, True),
        (DType.FP8_E4M3, 192, {"mask": CAUSAL, "head_dim_v": 128}, True),
        (DType.FP8_E4M3, 192, {}, False),
        (DType.BF16, 64, {}, True),
        (DType.BF16, 64, {"score_mod": MOD}, False),
        (DType.BF16, 64, {"scheduler": Scheduler.TILE}, True),
        (DType.FP16, 40, {"scheduler": Scheduler.TILE}, True),
        (DType.BF16, 64, {"scheduler": Scheduler.TILE, "score_mod": MOD}, False),
        (DType.BF16, 72, {"scheduler": Scheduler.TILE}, False),
        (DType.BF16, 128, {}, False),
        (DType.FP8_E4M3, 128, {"scheduler": Scheduler.TILE}, False),
        (DType.FP8_E4M3, 128, {"score_mod": MOD}, False),
    ],
)
def test_which_kernels_whose_p_crosses_hold_the_base_of_shared_memory(
    dtype: DType, head_dim: int, options: dict[str, Any], holds: bool
) -> None:
    given = {"scheduler": Scheduler.PERSISTENT, **options}
    width = given.pop("head_dim_v", 0)
    spec = KernelSpec.for_attention(dtype, head_dim, head_dim_v=width, variant=Variant(**given))
    assert spec.holds_base is holds


@pytest.mark.parametrize(
    ("dtype", "head_dim", "options", "holds"),
    [
        (DType.BF16, 128, {}, True),
        (DType.FP16, 96, {"return_lse": True}, True),
        (DType.BF16, 64, {}, True),
        (DType.BF16, 64, {"scheduler": Scheduler.PERSISTENT}, True),
        (DType.FP8_E4M3, 128, {}, True),
        (DType.FP8_E4M3, 128, {"mask": NULL}, True),
        (DType.FP8_E4M3, 192, {"mask": NULL, "head_dim_v": 128}, False),
        (DType.BF16, 128, {"mask": NULL}, True),
        (DType.BF16, 128, {"scheduler": Scheduler.TILE}, False),
        (DType.BF16, 128, {"ragged_q": True, "ragged_k": True}, True),
        (DType.BF16, 128, {"ragged_q": True, "ragged_k": True, "by_rows": True}, False),
        (DType.FP8_E4M3, 128, {"ragged_q": True, "ragged_k": True, "by_rows": True}, True),
    ],
)
def test_which_kernels_hold_the_address_of_a_rows_factor(
    dtype: DType, head_dim: int, options: dict[str, Any], holds: bool
) -> None:
    given = {"scheduler": Scheduler.DYNAMIC, "mask": CAUSAL, **options}
    width = given.pop("head_dim_v", 0)
    spec = KernelSpec.for_attention(dtype, head_dim, head_dim_v=width, variant=Variant(**given))
    assert spec.holds_factor_address is holds


@pytest.mark.parametrize(
    ("dtype", "head_dim", "variant", "apart"),
    [
        (DType.BF16, 64, Variant(), True),
        (DType.FP16, 40, Variant(return_lse=True), True),
        (DType.BF16, 64, Variant(mask=CAUSAL), False),
        (DType.BF16, 64, Variant(scheduler=Scheduler.PERSISTENT), False),
        (DType.BF16, 64, Variant(ragged_k=True), False),
        (DType.BF16, 72, Variant(), False),
        (DType.FP8_E4M3, 64, Variant(), False),
    ],
)
def test_which_kernels_have_a_loop_without_masks(
    dtype: DType, head_dim: int, variant: Variant, apart: bool
) -> None:
    assert KernelSpec.for_attention(dtype, head_dim, variant=variant).masks_apart is apart
    assert not KernelSpec.for_attention(dtype, head_dim, variant=variant, num_qo=1).masks_apart


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"page_size": 0}, True),
        ({"return_lse": True, "sink": True}, True),
        ({"scheduler": Scheduler.PERSISTENT}, False),
        ({"scheduler": Scheduler.TILE}, False),
        ({"mask": SlidingWindowMask(9, 0)}, False),
        ({"mask": NULL}, False),
        ({"ragged_q": False}, False),
        ({"page_size": 0, "ragged_k": True}, False),
        ({"partition": Partition.WORKSPACE}, False),
    ],
)
def test_dynamic_ctas_take_causal_chunks_over_a_cache_a_sequence_after_the_other(
    changes: dict[str, Any], expected: bool
) -> None:
    chunks = Variant(CAUSAL, ragged_q=True, used_k=True, page_size=64, scheduler=Scheduler.DYNAMIC)
    spec = KernelSpec.for_attention(DType.BF16, 128, variant=replace(chunks, **changes))
    assert spec.sequence_by_sequence is expected


@pytest.mark.parametrize(
    ("dtype", "head_dim", "variant", "briefly"),
    [
        (DType.FP8_E4M3, 64, Variant(scheduler=Scheduler.PERSISTENT), True),
        (DType.FP8_E4M3, 48, Variant(CAUSAL, scheduler=Scheduler.PERSISTENT), True),
        (DType.FP8_E4M3, 80, Variant(scheduler=Scheduler.PERSISTENT), True),
        (DType.BF16, 64, Variant(scheduler=Scheduler.PERSISTENT), True),
        (DType.BF16, 192, Variant(scheduler=Scheduler.PERSISTENT), False),
        (DType.FP8_E4M3, 64, Variant(ragged_q=True, scheduler=Scheduler.PERSISTENT), False),
    ],
)
def test_which_kernels_find_their_work_in_few_instructions(
    dtype: DType, head_dim: int, variant: Variant, briefly: bool
) -> None:
    assert KernelSpec.for_attention(dtype, head_dim, variant=variant).decodes_briefly is briefly
    one = KernelSpec.for_attention(dtype, head_dim, variant=variant, num_qo=1)
    assert one.decodes_briefly is one.head_by_head is not variant.ragged_q


@pytest.mark.parametrize("num_qo", [1, 2])
@pytest.mark.parametrize(
    ("options", "writes_rows"),
    [
        ({}, False),
        ({"scheduler": Scheduler.PERSISTENT}, True),
        ({"scheduler": Scheduler.DYNAMIC, "mask": CAUSAL, "return_lse": True}, True),
        ({"scheduler": Scheduler.PERSISTENT, "partition": Partition.WORKSPACE}, False),
    ],
)
def test_plain_persistent_kernels_write_row_by_row(
    num_qo: int, options: dict[str, Any], writes_rows: bool
) -> None:
    """One Q tile of them joins its groups in shared memory, as S is written anew meanwhile."""
    spec = KernelSpec.for_attention(DType.BF16, 128, num_qo=num_qo, variant=Variant(**options))
    assert spec.writes_rows == writes_rows
    assert spec.config.joins_in_smem == (writes_rows and num_qo == 1)
    other = spec.with_config(spec.config.with_num_qo(3 - num_qo))
    assert other.writes_rows == writes_rows


@pytest.mark.parametrize(
    ("head_dim", "options", "writes"),
    [
        (128, {}, True),
        (128, {"sink": True, "return_lse": True}, True),
        (64, {"ragged_q": True, "used_k": True, "page_size": 16}, True),
        (96, {"score_mod": MOD}, True),
        (128, {"scheduler": Scheduler.TILE}, False),
        (128, {"partition": Partition.WORKSPACE}, False),
        # Whose P does not cross.
        (192, {}, False),
        (96, {"score_mod": MOD, "mask": DenseBiasMask(0) & CAUSAL}, False),
    ],
)
def test_the_correction_writes_o_of_persistent_ctas_whose_p_cross(
    head_dim: int, options: dict[str, Any], writes: bool
) -> None:
    """Whatever else they do: the softmax says by what O is multiplied, and goes on."""
    given = {"scheduler": Scheduler.PERSISTENT, "mask": CAUSAL, **options}
    spec = KernelSpec.for_attention(DType.BF16, head_dim, variant=Variant(**given))
    assert spec.correction_writes is spec.issue_order.runs_on is writes
    names = [barrier.name for barrier in spec.config.misc_mbars.specs]
    assert ("stored[0]" in names) is (spec.variant.is_persistent and not writes)
    if writes:
        assert spec.writes_rows


def test_pairs_of_two_q_tiles_stage_o() -> None:
    variant = Variant(scheduler=Scheduler.PERSISTENT)
    assert not KernelSpec.for_attention(
        DType.BF16, 128, variant=variant, pair_cta=True
    ).writes_rows


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
def test_one_q_tile_of_head_dim_64_takes_no_more_keys_than_a_thread_holds_scores(
    dtype: DType
) -> None:
    """With 192, the code of both softmax groups does not fit the instruction cache."""
    for head_dim in (16, 64, 80, 128):
        config = KernelSpec.for_attention(dtype, head_dim, num_qo=1).config
        assert config.BN == 128


@pytest.mark.parametrize(
    ("head_dim", "num_qo", "variant", "emulated"),
    [
        (64, 1, Variant(CAUSAL, scheduler=Scheduler.STREAM_K), 20),
        (64, 1, Variant(SlidingWindowMask(20, 40), scheduler=Scheduler.STREAM_K), 16),
        (64, 1, Variant(DenseBiasMask(0) & CAUSAL, scheduler=Scheduler.STREAM_K), 16),
        (64, 1, Variant(SlidingWindowMask(20, 40)), 20),
        (64, 2, Variant(SlidingWindowMask(20, 40)), 24),
        (64, 2, Variant(DenseBiasMask(0) & CAUSAL, score_mod=MOD), 16),
        (128, 1, Variant(SlidingWindowMask(20, 40)), 20),
    ],
)
def test_limits_leave_shallow_heads_no_more_exponentials_than_by_default(
    head_dim: int, num_qo: int, variant: Variant, emulated: int
) -> None:
    spec = KernelSpec.for_attention(DType.BF16, head_dim, num_qo=num_qo, variant=variant)
    free = KernelSpec.for_attention(DType.BF16, head_dim, num_qo=num_qo).config.tuning.emulated
    assert spec.config.tuning.emulated == min(free, emulated)
