from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.plan.facts.bias_tile import BiasTile
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    NULL,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    SlidingWindowMask,
)
from fa4_cute.plan.memory.sm90_smem import SM90SMemLayout
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.schedule import (
    BIASES,
    SM90_FEW_ROWS_SCHEDULES,
    SM90_SCHEDULES,
    TRANSPOSE,
    VALUES,
)
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.tensor_maps import OperandLayout, tensor_maps
from fa4_cute.plan.spec.variant import Partition, Scheduler, Variant

MOD, SMALL = ScoreMod("mod", "digest", (1,)), ScoreMod("small", "digest")
CAP = ScoreMod("cap", "30", cap=30.0)
ALIBI = ScoreMod("alibi", "alibi1", (1,), slopes=True)
HALVES, FLOATS = DenseBiasMask(0, DType.BF16, at_once=16), DenseBiasMask(0, at_once=8)


def spec(head_dim: int, **variant: Any) -> SM90Spec:
    return SM90Spec.for_attention(DType.BF16, head_dim, variant=Variant(**variant))


def test_name_says_what_the_kernel_is() -> None:
    made = SM90Spec.for_attention(DType.FP16, 64, group=4, causal=True, return_lse=True)
    assert made.name == "fa4_sm90_fp16_d64_g4_causal_lse"
    assert made.arch == "sm_90a"
    assert made.num_threads == 512


def test_warps_follow_the_consumers() -> None:
    assert spec(64).schedule is SM90_SCHEDULES[3]
    assert spec(128).schedule is SM90_SCHEDULES[2]


def test_products_start_in_turn_but_where_that_costs_time() -> None:
    """As measured on an H200 (docs/hopper.md)."""
    in_turn = {d: spec(d).takes_turns for d in (64, 96, 128, 192, 256)}
    assert in_turn == {64: True, 96: False, 128: True, 192: True, 256: True}
    assert all(spec(d, scheduler=Scheduler.PERSISTENT).takes_turns for d in (64, 96, 128, 256))
    assert not spec(128).with_long_keys().takes_turns
    assert spec(128, scheduler=Scheduler.PERSISTENT).with_long_keys().takes_turns
    assert not spec(128).with_few_rows().takes_turns, "a consumer alone"
    for scheduler in (Scheduler.TILE, Scheduler.PERSISTENT):
        variant = Variant(scheduler=scheduler)
        made = SM90Spec.for_attention(DType.BF16, 192, head_dim_v=128, variant=variant)
        assert not made.takes_turns
        asked = replace(made, config=replace(made.config, in_turn=True))
        assert asked.takes_turns
    assert SM90Spec.for_attention(DType.FP8_E4M3, 192, head_dim_v=128).takes_turns


@pytest.mark.parametrize(
    ("score_mod", "mask", "consumers", "keys"),
    [(CAP, NULL, 2, 64), (ALIBI, NULL, 2, 64), (MOD, NULL, 2, 32), (None, HALVES, 2, 64)],
)
def test_tiles_of_fp8_shrink_for_all_that_changes_scores(
    score_mod: ScoreMod | None, mask: Mask, consumers: int, keys: int
) -> None:
    variant = Variant(mask, score_mod=score_mod)
    made = SM90Spec.for_attention(DType.FP8_E4M3, 128, variant=variant)
    assert (made.config.num_consumers, made.config.BN) == (consumers, keys)
    assert made.scales_first
    assert not made.starts_biases


def test_alibi_alone_is_added_to_raw_scores_of_16_bits() -> None:
    assert spec(128, score_mod=ALIBI).adds_slopes
    assert not spec(128, score_mod=ALIBI).scales_first
    assert not spec(128, mask=DenseBiasMask(0), score_mod=ALIBI).adds_slopes
    assert not SM90Spec.for_attention(
        DType.FP8_E4M3, 128, variant=Variant(score_mod=ALIBI)
    ).adds_slopes


@pytest.mark.parametrize(
    ("head_dim", "variant", "keys"),
    [
        (64, {}, 128),
        (128, {"mask": CAUSAL}, 64),
        (128, {"mask": DenseBiasMask(0)}, 64),
        (128, {"score_mod": MOD}, 32),
        (256, {"score_mod": MOD}, 16),
    ],
)
def test_few_rows(head_dim: int, variant: dict[str, object], keys: int) -> None:
    made = spec(head_dim, **variant).with_few_rows()
    config = made.config
    assert made.schedule is SM90_FEW_ROWS_SCHEDULES[config.ctas_per_sm]
    assert keys == config.BN
    assert made.num_threads == 256
    assert f"d{head_dim}_g1_few" in made.name


@pytest.mark.parametrize(
    ("head_dim", "variant", "consumers", "keys"),
    [
        (64, {}, 3, 128),
        (64, {"mask": CAUSAL}, 3, 128),
        (64, {"mask": ChunkedMask(64) | SlidingWindowMask(20, 0)}, 2, 128),
        (128, {"score_mod": MOD}, 2, 64),
        (256, {"score_mod": MOD}, 2, 32),
        (256, {"mask": DenseBiasMask(0)}, 2, 64),
        (64, {"mask": DenseBiasMask(0), "score_mod": MOD}, 2, 32),
        (128, {"mask": CAUSAL}, 2, 128),
        (128, {"mask": CAUSAL, "score_mod": CAP}, 2, 128),
        (128, {"score_mod": ALIBI}, 2, 128),
        (128, {"score_mod": SMALL}, 2, 128),
        (256, {"mask": CAUSAL, "score_mod": SMALL}, 2, 80),
        (128, {"mask": SlidingWindowMask(20, 0), "score_mod": ALIBI}, 2, 64),
        (128, {"mask": FLOATS}, 2, 64),
        (128, {"mask": HALVES}, 2, 128),
        (128, {"mask": HALVES & SlidingWindowMask(20, 0)}, 2, 128),
        (256, {"mask": HALVES & CAUSAL}, 2, 80),
        (256, {"mask": HALVES & SlidingWindowMask(20, 0)}, 2, 64),
    ],
)
def test_tiles_shrink_where_scores_change_at_length(
    head_dim: int, variant: dict[str, object], consumers: int, keys: int
) -> None:
    config = spec(head_dim, **variant).config
    assert (config.num_consumers, config.BN) == (consumers, keys)


def test_boxes_are_one_chunk_of_a_consumer_or_of_a_slot() -> None:
    made = SM90Spec.for_attention(DType.BF16, 192, group=4)
    q, k = (OperandLayout.contiguous((2, 500, heads, 192)) for heads in (8, 2))
    boxes = [(m.address_of, m.box) for m in tensor_maps(made, q, k, k, q)]
    assert boxes == [
        ("q", (64, 4, 16, 1, 1)), ("k", (64, 112, 1, 1)), ("v", (64, 112, 1, 1)),
        ("o", (64, 4, 16, 1, 1)),
    ]  # fmt: skip


def test_fp8_has_warps_that_transpose() -> None:
    made = SM90Spec.for_attention(DType.FP8_E4M3, 64, variant=Variant())
    assert made.schedule == SM90_SCHEDULES[3].transposing()
    assert made.schedule[TRANSPOSE].num_warps == 3
    assert made.output_dtype is DType.BF16
    union = Variant(ChunkedMask(64) | SlidingWindowMask(20, 0))
    assert SM90Spec.for_attention(DType.FP8_E4M3, 128, variant=union).config.BN == 96
    tokens = Variant(token_scales=True)
    assert SM90Spec.for_attention(DType.FP8_E4M3, 128, variant=tokens).config.BN == 96
    assert SM90Spec.for_attention(DType.FP8_E4M3, 64, variant=tokens).config.BN == 128
    tokens = Variant(token_scales=True, score_mod=MOD)
    few = SM90Spec.for_attention(DType.FP8_E4M3, 128, variant=tokens).with_few_rows()
    assert few.config.BN == 32
    boxes = [m.box for m in tensor_maps(made, *(OperandLayout.contiguous((2, 9, 1, 64)),) * 4)]
    assert boxes == [(64, 1, 64, 1, 1), (64, 96, 1, 1), (64, 96, 1, 1), (64, 1, 64, 1, 1)]


def test_v_may_be_narrower_than_k() -> None:
    made = SM90Spec.for_attention(DType.BF16, 192, head_dim_v=128, variant=Variant(score_mod=MOD))
    assert made.name.startswith("fa4_sm90_bf16_d192v128_g1")
    assert made.output_depth == 128
    assert made.config.BN == 64  # as with a head dim of 128
    with pytest.raises(ValueError, match=r"ov_depth=100 makes rows of 200 bytes.*ov_depth=104"):
        SM90Spec.for_attention(DType.BF16, 192, head_dim_v=100)


@pytest.mark.parametrize(
    ("dtype", "head_dim", "words"),
    [(DType.FP32, 64, "dtype=fp32"), (DType.FP8_E4M3, 264, "depth=264"),
     (DType.FP8_E4M3, 72, "depth=72 makes rows of 72 bytes.*depth=80"),
     (DType.BF16, 60, "depth=60.*depth=64"),
     (DType.BF16, 264, "depth=264.*depth=256")],
)  # fmt: skip
def test_what_does_not_exist(dtype: DType, head_dim: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SM90Spec.for_attention(dtype, head_dim)


@pytest.mark.parametrize(
    ("head_dim", "variant", "apart"),
    [
        (64, {"mask": CAUSAL}, True), (96, {}, True),
        (64, {"mask": CAUSAL, "ragged_q": True}, True),
        (128, {"mask": CAUSAL}, False), (64, {"mask": SlidingWindowMask(9, 0)}, False),
        (64, {"mask": CAUSAL, "used_k": True}, False), (64, {"ragged_k": True}, False),
        (64, {"mask": CAUSAL, "partition": Partition.WORKSPACE}, False),
    ],
)  # fmt: skip
def test_three_consumers_end_apart(head_dim: int, variant: dict[str, Any], apart: bool) -> None:
    made = SM90Spec.for_attention(DType.BF16, head_dim, variant=Variant(**variant))
    assert made.ends_apart is apart
    if head_dim == 128:
        assert made.with_long_keys().ends_apart


@pytest.mark.parametrize(
    ("mask", "scheduler", "consumers", "keys"),
    [
        (NULL, Scheduler.TILE, 3, 112), (CAUSAL, Scheduler.TILE, 3, 112),
        (NULL, Scheduler.PERSISTENT, 3, 112), (CAUSAL, Scheduler.PERSISTENT, 3, 96),
        (SlidingWindowMask(60, 10), Scheduler.PERSISTENT, 3, 96),
    ],
)  # fmt: skip
def test_persistent_tiles_of_96_columns(
    mask: Mask, scheduler: Scheduler, consumers: int, keys: int
) -> None:
    variant = Variant(mask=mask, scheduler=scheduler)
    config = SM90Spec.for_attention(DType.BF16, 96, variant=variant).config
    assert (config.num_consumers, config.BN) == (consumers, keys)


def test_over_pages_a_warp_of_its_own_loads_v() -> None:
    """Measured on an H200 (docs/hopper.md): boxes of small pages keep one warp."""
    for page in (16, 64, 128):
        made = spec(128, used_k=True, page_size=page)
        assert made.loads_values_apart
        assert made.schedule == SM90_SCHEDULES[2].apart()
        loads, values = made.schedule["load"], made.schedule[VALUES]
        assert (values.first_warp, values.num_warps) == (loads.first_warp + 1, 1)
        assert values.registers == loads.registers
        assert made.num_threads == spec(128).num_threads
    assert not spec(128).loads_values_apart
    assert not spec(128, used_k=True, page_size=16).with_few_rows().loads_values_apart, (
        "a step of decoding"
    )
    fp8 = SM90Spec.for_attention(DType.FP8_E4M3, 128, variant=Variant(used_k=True, page_size=16))
    assert not fp8.loads_values_apart, "the other warps transpose V"


@pytest.mark.parametrize("head_dim", [64, 96, 128])
@pytest.mark.parametrize("mask", [HALVES, HALVES & CAUSAL, replace(HALVES, at_once=8)])
def test_biases_of_16_bits_are_staged_where_two_slots_of_them_fit(
    head_dim: int, mask: Mask
) -> None:
    made, plain = spec(head_dim, mask=mask), spec(head_dim)
    config, copies = made.config, made.schedule[BIASES]
    assert config.stages_biases
    assert config.num_kv_stages >= 2
    assert config.bias_stage_bytes >= config.BM * config.BN * 2
    assert config.smem_used <= config.smem_share
    assert (copies.num_warps, copies.registers) == (3, made.schedule["load"].registers)
    assert copies.num_warps == config.num_bias_warps
    assert not plain.config.stages_biases
    assert plain.config.bias_stage_bytes == 0
    assert not made.starts_biases, "nobody loads them from memory"
    assert not made.with_few_rows().config.stages_biases
    paged = spec(head_dim, mask=mask, used_k=True, page_size=16)
    assert (paged.schedule[BIASES].num_warps, paged.schedule[VALUES].num_warps) == (2, 1)


@pytest.mark.parametrize(
    "variant",
    [
        Variant(FLOATS), Variant(DenseBiasMask(0, DType.BF16)), Variant(HALVES, score_mod=MOD),
        Variant(HALVES & replace(HALVES, slot=1)), Variant(HALVES | CAUSAL),
        Variant(HALVES & CAUSAL, by_rows=True, ragged_q=True),
    ],
)  # fmt: skip
def test_other_biases_are_loaded_by_who_adds_them(variant: Variant) -> None:
    made = SM90Spec.for_attention(DType.BF16, 128, variant=variant)
    assert not made.config.stages_biases
    with pytest.raises(KeyError):
        made.schedule[BIASES]


def test_biases_of_wide_heads_and_beside_fp8_are_not_staged() -> None:
    assert not spec(256, mask=HALVES).config.stages_biases, "one slot would be left"
    made = SM90Spec.for_attention(DType.FP8_E4M3, 64, variant=Variant(HALVES))
    assert not made.config.stages_biases
    assert not made.adds_biases


def test_slots_of_biases_lie_apart_from_those_of_others() -> None:
    layout = SM90SMemLayout(spec(128, mask=HALVES).config)
    config, region = layout.config, layout.table["bias"]
    starts = [
        layout.bias_byte_offset(slot, consumer)
        for slot in range(config.num_kv_stages)
        for consumer in range(config.num_consumers)
    ]
    assert starts[0] == region.start
    assert starts == list(range(region.start, region.end, BiasTile(config.BN).num_bytes))
    assert all(start % 128 == 0 for start in starts)
