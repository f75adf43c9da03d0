"""Register tuning: every row of the tables, and that loads cover each column once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.tuning import CAPPED_EMULATED, RoleRegisters
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL, DenseBiasMask, SlidingWindowMask
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.register_tuning import (
    ScoreLoads,
    attention_schedule,
    decodes_again,
    joins_sum_early,
    most_columns,
    most_keys,
    most_sm90_keys,
)
from fa4_cute.plan.spec.schedule import ATTENTION_SCHEDULE, TRANSPOSE, two_group_schedule
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Partition, Scheduler, Variant
from tests.plan.spec.test_variant import variants

BIAS = DenseBiasMask(0)
SEVERAL = CAUSAL | SlidingWindowMask(20, 40)
OF_TERMS = BIAS & CAUSAL | SlidingWindowMask(20, 40)
ONE, TWO = ScoreMod("one", "a", (1,)), ScoreMod("two", "b", (1, 2))
PERSISTENT, TILE = Scheduler.PERSISTENT, Scheduler.TILE
SPLIT: dict[str, Any] = {"partition": Partition.WORKSPACE}
IN_PARTS: dict[str, Any] = {"scheduler": PERSISTENT, **SPLIT}


@pytest.mark.parametrize(
    ("variant", "loads"),
    [
        (Variant(CAUSAL), ScoreLoads()),
        (Variant(BIAS), ScoreLoads()),
        (Variant(score_mod=ONE), ScoreLoads()),
        (Variant(BIAS, token_scales=True), ScoreLoads()),
        (Variant(score_mod=TWO), ScoreLoads(16)),
        (Variant(BIAS, score_mod=ONE), ScoreLoads(16)),
        (Variant(score_mod=TWO, scheduler=PERSISTENT), ScoreLoads(4)),
        (Variant(score_mod=TWO, token_scales=True), ScoreLoads(8, scales_along=True)),
        (
            Variant(score_mod=TWO, token_scales=True, scheduler=PERSISTENT),
            ScoreLoads(2, scales_along=True),
        ),
        (Variant(OF_TERMS), ScoreLoads(16, fresh_view=True, fresh_stores=True)),
        (Variant(OF_TERMS, token_scales=True), ScoreLoads(16, fresh_view=True)),
        (
            Variant(OF_TERMS, score_mod=TWO, scheduler=PERSISTENT),
            ScoreLoads(4, fresh_view=True, fresh_stores=True),
        ),
    ],
)
def test_rows_of_the_table(variant: Variant, loads: ScoreLoads) -> None:
    assert ScoreLoads.of(variant) == loads
    spec = KernelSpec.for_attention(DType.BF16, 64)
    assert replace(spec, variant=variant).score_loads == loads


@pytest.mark.parametrize(
    ("variant", "again"),
    [
        (Variant(), False),
        (Variant(CAUSAL, return_lse=True, sink=True, scheduler=PERSISTENT), False),
        (Variant(SlidingWindowMask(20, 40)), True),
        (Variant(CAUSAL, score_mod=ONE), True),
        (Variant(CAUSAL, sink=True, partition=Partition.WORKSPACE), True),
    ],
)
def test_consumers_decode_again_where_a_row_has_more_than_one_limit(
    variant: Variant, again: bool
) -> None:
    for depth in (64, 256):
        made = SM90Spec.for_attention(DType.BF16, depth, variant=variant)
        assert made.decodes_again == decodes_again(variant) == again
        fp8 = SM90Spec.for_attention(DType.FP8_E4M3, depth, variant=variant)
        assert fp8.decodes_again
        assert made.joins_maxima_late == fp8.joins_maxima_late == (not again)


@pytest.mark.parametrize(
    ("score_mod", "loads"),
    [(None, ScoreLoads()), (ONE, ScoreLoads()), (TWO, ScoreLoads(fresh_view=True))],
)
def test_transposers_take_registers_from_the_consumers_of_many_splits(
    score_mod: ScoreMod | None, loads: ScoreLoads
) -> None:
    split = Variant(score_mod=score_mod, token_scales=True, **IN_PARTS)
    made = SM90Spec.for_attention(DType.FP8_E4M3, 192, variant=split)
    other = SM90Spec.for_attention(DType.FP8_E4M3, 192, variant=replace(split, scheduler=TILE))
    assert made.schedule[TRANSPOSE].registers - other.schedule[TRANSPOSE].registers == 16
    assert made.score_loads == loads
    widest = SM90Spec.for_attention(DType.FP8_E4M3, 256, variant=split)
    assert widest.score_loads == (replace(loads, under_way=2) if score_mod is TWO else loads)
    assert other.score_loads == ScoreLoads.of(other.variant)


@pytest.mark.parametrize(
    ("variant", "early"),
    [
        (Variant(CAUSAL), False),
        (Variant(CAUSAL & SlidingWindowMask(20, 40)), False),
        (Variant(CAUSAL | SlidingWindowMask(20, 40)), True),
        (Variant(CAUSAL | SlidingWindowMask(20, 40), score_mod=ONE), False),
        (Variant(OF_TERMS), False),
    ],
)
def test_masks_of_several_terms_join_their_sum_early(variant: Variant, early: bool) -> None:
    assert joins_sum_early(variant) == early


@pytest.mark.parametrize(
    ("variant", "at_192", "at_256", "of_few_rows"),
    [
        (Variant(CAUSAL), 0, 0, 0),
        (Variant(BIAS), 64, 64, 0),
        (Variant(score_mod=ONE, scheduler=PERSISTENT), 64, 64, 0),
        (Variant(CAUSAL | SlidingWindowMask(20, 40)), 64, 64, 64),
        (Variant(CAUSAL, token_scales=True), 0, 64, 0),
        (Variant(BIAS, token_scales=True), 64, 64, 64),
        (Variant(OF_TERMS), 64, 64, 32),
        (Variant(CAUSAL | SlidingWindowMask(20, 40), score_mod=ONE), 64, 64, 32),
        (Variant(OF_TERMS, token_scales=True), 32, 32, 32),
        (Variant(score_mod=ONE, token_scales=True, **IN_PARTS), 64, 32, 32),
        (Variant(OF_TERMS, score_mod=ONE, **IN_PARTS), 32, 32, 32),
        (Variant(CAUSAL, **IN_PARTS), 0, 64, 64),
        (Variant(BIAS, score_mod=ONE, **SPLIT), 64, 64, 64),
        (Variant(BIAS, score_mod=ONE, token_scales=True, **SPLIT), 64, 32, 32),
    ],
)
def test_what_changes_a_row_narrows_the_blocks_of_an_fp8_v(
    variant: Variant, at_192: int, at_256: int, of_few_rows: int
) -> None:
    assert [most_columns(variant, v) for v in (64, 128, 192, 256)] == [0, 0, at_192, at_256]
    assert most_columns(variant, 256, few_rows=True) == of_few_rows
    made = SM90Spec.for_attention(DType.FP8_E4M3, 256, variant=variant)
    assert made.config.column_cap == at_256
    assert made.with_few_rows().config.column_cap == of_few_rows
    assert SM90Spec.for_attention(DType.BF16, 256, variant=variant).config.column_cap == 0


def test_what_narrows_the_blocks_of_192_columns_beside_few_rows() -> None:
    both = Variant(BIAS, score_mod=ONE, **SPLIT)
    scaled = replace(both, token_scales=True)
    others = (replace(scaled, partition=Partition.NONE), replace(both, score_mod=None))
    found = [most_columns(v, 192, few_rows=True) for v in (both, scaled, *others)]
    assert found == [64, 32, 0, 0]


def test_the_widest_v_of_few_rows_loads_all_that_changes_scores_at_once() -> None:
    everything = Variant(OF_TERMS, score_mod=TWO, token_scales=True, **SPLIT)
    made = SM90Spec.for_attention(DType.FP8_E4M3, 256, variant=everything)
    assert made.with_few_rows().score_loads == ScoreLoads()
    narrow = SM90Spec.for_attention(DType.FP8_E4M3, 192, variant=everything)
    for other in (made, narrow.with_few_rows()):
        assert other.score_loads == ScoreLoads(16, fresh_view=True)


def test_what_narrows_the_blocks_of_128_columns() -> None:
    changed = Variant(OF_TERMS, token_scales=True, score_mod=TWO, scheduler=PERSISTENT)
    for variant in (changed, replace(changed, mask=SEVERAL), replace(changed, **IN_PARTS)):
        assert [most_columns(variant, v) for v in (64, 128)] == [0, 64]
    for other in (
        replace(changed, scheduler=TILE),
        replace(changed, mask=BIAS),
        replace(changed, mask=SEVERAL, **IN_PARTS),
        replace(changed, score_mod=None),
        replace(changed, token_scales=False),
    ):
        assert most_columns(other, 128) == 0


@pytest.mark.parametrize(
    ("variant", "bf16", "fp8"),
    [
        (Variant(**IN_PARTS), (0, 0, 0), (0, 96, 96)),
        (Variant(SEVERAL), (0, 0, 64), (96, 96, 64)),
        (Variant(SEVERAL, **IN_PARTS), (64, 64, 64), (64, 64, 64)),
        (Variant(SEVERAL, token_scales=True), (0, 0, 64), (96, 64, 64)),
        (Variant(BIAS, token_scales=True), (64, 64, 64), (64, 64, 64)),
        (Variant(BIAS, partition=Partition.WORKSPACE), (64, 64, 64), (64, 64, 64)),
        (
            Variant(BIAS, token_scales=True, partition=Partition.WORKSPACE),
            (64, 64, 64),
            (64, 32, 32),
        ),
        (Variant(OF_TERMS, token_scales=True, **IN_PARTS), (64, 64, 64), (64, 32, 32)),
        (Variant(SEVERAL, score_mod=ONE), (64, 64, 32), (32, 32, 32)),
    ],
)
def test_most_keys_of_a_tile_on_hopper(
    variant: Variant, bf16: tuple[int, ...], fp8: tuple[int, ...]
) -> None:
    for is_fp8, most in ((False, bf16), (True, fp8)):
        assert tuple(most_sm90_keys(variant, v, is_fp8=is_fp8) for v in (64, 128, 256)) == most


@pytest.mark.slow
@settings(deadline=None)
@given(variants(), st.sampled_from([16, 32, 48, 64]))
def test_every_column_is_loaded_and_scaled_once(variant: Variant, num_columns: int) -> None:
    loads = ScoreLoads.of(variant)
    groups = loads.groups(num_columns)
    assert [i for group in groups for i in group] == list(range(num_columns))
    if not loads.scales_along:
        assert not any(loads.scaled_columns(group) for group in groups)
        return
    scaled: list[int] = []
    for group in groups:
        scaled += loads.scaled_columns(group)
        assert set(group) <= set(scaled), "a column is scaled before it is changed"
    assert scaled == list(range(num_columns))


def test_tiles_are_small_where_scores_change() -> None:
    assert most_keys(Variant(CAUSAL), 2) == 0
    assert most_keys(Variant(BIAS), 2) == most_keys(Variant(score_mod=TWO), 1) == 128
    all_three = Variant(
        BIAS, score_mod=ONE, scheduler=PERSISTENT, partition=Partition.WORKSPACE
    )
    assert most_keys(all_three, 2) == 64
    shared = replace(all_three, scheduler=Scheduler.TILE)
    assert [most_keys(shared, n) for n in (1, 2)] == [128, 128]
    of_terms = replace(shared, mask=OF_TERMS)
    assert [most_keys(of_terms, n) for n in (1, 2)] == [64, 128]
    assert most_keys(replace(of_terms, partition=Partition.NONE), 1) == 128
    assert KernelSpec.for_attention(DType.BF16, 64, variant=all_three).config.BN == 64


def test_only_plain_kernels_have_other_registers() -> None:
    split = RoleRegisters(200, 88, 24)
    config = FA4Config.for_attention(DType.BF16, 128)
    config = replace(config, tuning=replace(config.tuning, registers=split))
    for variant in (Variant(), Variant(CAUSAL, return_lse=True), Variant(SlidingWindowMask(9, 0))):
        assert attention_schedule(config, variant) is two_group_schedule(split)
    for variant in (
        Variant(ragged_q=True),
        Variant(score_mod=ONE),
        Variant(BIAS),
        Variant(CAUSAL | SlidingWindowMask(9, 0)),
        Variant(scheduler=PERSISTENT),
    ):
        assert attention_schedule(config, variant) is ATTENTION_SCHEDULE


def test_page_lookups_get_registers() -> None:
    paged = KernelSpec.for_attention(
        DType.BF16, 128, variant=Variant(used_k=True, page_size=16)
    ).schedule
    assert paged.register_sum == ATTENTION_SCHEDULE.register_sum
    assert paged["load"].registers > ATTENTION_SCHEDULE["load"].registers


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
def test_a_function_beside_a_bias_or_several_terms_leaves_p_in_its_own_columns(
    dtype: DType,
) -> None:
    several = CAUSAL | SlidingWindowMask(20, 40)
    each = (Variant(OF_TERMS), Variant(several), Variant(score_mod=TWO))
    both = (Variant(OF_TERMS, score_mod=TWO), Variant(several, score_mod=TWO))
    for variant, crosses in (*((v, True) for v in each), *((v, False) for v in both)):
        spec = KernelSpec.for_attention(dtype, 128, variant=variant)
        assert spec.config.crosses is crosses
        assert spec.with_config(spec.config.tuned()).config.crosses is crosses


@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_every_scheduler_emulates_the_same_share(head_dim: int) -> None:
    tile, dynamic = (
        KernelSpec.for_attention(DType.BF16, head_dim, variant=Variant(scheduler=scheduler)).config
        for scheduler in (Scheduler.TILE, Scheduler.DYNAMIC)
    )
    assert tile.tuning.emulated == dynamic.tuning.emulated
    assert (tile.crosses, dynamic.crosses) == (True, True)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_a_softcap_has_a_share_of_its_own(dtype: DType, head_dim: int) -> None:
    capped, too_large, more = (
        Variant(CAUSAL, score_mod=ScoreMod("cap", "c", cap=cap)) for cap in (30.0, 300.0, 30.0)
    )
    own, free, none, beside = (
        KernelSpec.for_attention(dtype, head_dim, variant=variant).config.tuning.emulated
        for variant in (capped, too_large, Variant(CAUSAL), replace(more, mask=BIAS))
    )
    assert own == CAPPED_EMULATED
    assert free == none != own
    assert beside != own


DYNAMIC = Scheduler.DYNAMIC
CHUNKS = Variant(CAUSAL, ragged_q=True, used_k=True, scheduler=DYNAMIC)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
@pytest.mark.parametrize("head_dim", [64, 96, 128])
@pytest.mark.parametrize(
    "variant",
    [
        Variant(CAUSAL, scheduler=DYNAMIC, return_lse=True),
        Variant(SlidingWindowMask(9, 0), scheduler=DYNAMIC, sink=True),
        Variant(OF_TERMS, scheduler=DYNAMIC),
        Variant(CAUSAL, score_mod=TWO, scheduler=DYNAMIC),
        replace(CHUNKS, page_size=16),
        replace(CHUNKS, used_k=False, ragged_k=True, sink=True),
    ],
)
def test_p_of_dynamic_ctas_crosses_with_the_registers_of_others(
    dtype: DType, head_dim: int, variant: Variant
) -> None:
    """The softmax holds nothing for O, which the correction role writes."""
    dynamic, tile = (
        KernelSpec.for_attention(dtype, head_dim, variant=replace(variant, scheduler=scheduler))
        for scheduler in (DYNAMIC, TILE)
    )
    assert dynamic.config.crosses
    assert dynamic.correction_writes
    for name in ("softmax0", "correction", "mma"):
        assert dynamic.schedule[name].registers == tile.schedule[name].registers
    assert dynamic.with_config(dynamic.config) == dynamic


@pytest.mark.parametrize("num_qo", [1, 2])
@pytest.mark.parametrize("scheduler", [Scheduler.TILE, Scheduler.PERSISTENT, Scheduler.DYNAMIC])
def test_softmax_groups_share_their_code_where_query_tiles_run_on(
    scheduler: Scheduler, num_qo: int
) -> None:
    variant = Variant(scheduler=scheduler)
    spec = KernelSpec.for_attention(DType.BF16, 128, variant=variant, num_qo=num_qo)
    assert spec.shares_softmax is spec.issue_order.runs_on
    assert spec.shares_softmax == (num_qo == 2 and scheduler is not Scheduler.TILE)
