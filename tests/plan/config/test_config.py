from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import MAX_MBARRIERS, SMEM_CAPACITY, TMEM_COLUMNS, SwizzleMode
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.plan.spec.limits import supported, unsupported_reason
from tests.plan.strategies import any_configs, configs
from tests.plan.worked_tables import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "_".join(row.cells[:7]).replace("/", "x"))
def test_worked_table(row: Row) -> None:
    config = row.config
    computed = {
        "padded": (config.padded_qk_depth, config.padded_ov_depth),
        "ring": "fused" if config.use_fused_kv else "split",
    }
    for name, value in row.stated.items():
        assert computed.get(name, getattr(config, name, None)) == value, name
    if row.has_tiles and not row.is_capped:
        assert AttentionSMemLayout(config).smem_size() == row.layout_bytes
        assert config.misc_mbars.size == row.mbars
    assert supported(config) == row.verdict


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_capped], ids=lambda row: row.line)
def test_plans_with_too_many_barriers_get_shorter_rings(row: Row) -> None:
    config = row.config
    assert config.use_fused_kv == (row.cells[10] == "fused")
    assert config.num_kv_stages < int(row.cells[11])
    assert config.misc_mbars.size <= MAX_MBARRIERS
    more = 2 * 2 if config.use_fused_kv else 2 * config.num_qk_stages + 2
    assert config.misc_mbars.size + more > MAX_MBARRIERS


def test_the_table_covers_every_kind_of_row() -> None:
    assert {row.config.qkv_dtype for row in ROWS} == {DType.BF16, DType.FP16, DType.FP8_E4M3}
    assert any(row.config.is_mla and row.config.scale_dtype.is_valid for row in ROWS)
    assert {row.config.page_size for row in ROWS} == {0, 64, 128, 256}
    assert sum(not row.has_tiles for row in ROWS) == 9  # head dim 256 in three modes, three types
    assert sum(row.is_capped for row in ROWS) == 7


@pytest.mark.parametrize(
    ("index_text", "rope_buffers", "scale_buffers"),
    [
        ("bf16 bf16 - 0 192/128 2Q", 2, 0),
        ("fp8 bf16 fp32 0 192/128 1Q", 4, 4),
        ("fp8 bf16 fp32 0 192/128 2Q", 0, 3),
    ],
)
def test_mla_buffers(index_text: str, rope_buffers: int, scale_buffers: int) -> None:
    (row,) = [row for row in ROWS if row.line.startswith(index_text + " ")]
    assert row.config.num_rope_buffers() == rope_buffers
    assert row.config.num_k_scale_bufs() == scale_buffers


@settings(deadline=None)
@given(configs())
def test_supported_configs_fit_the_machine(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    assert layout.smem_size() <= config.smem_used <= SMEM_CAPACITY
    assert config.tmem_used <= TMEM_COLUMNS
    assert config.misc_mbars.size <= 64
    assert config.BK0 * config.num_qk_stages == config.padded_qk_depth
    assert config.BK0 % config.swizzle_elems == 0
    assert config.BK0 % config.MMA_K == 0
    assert config.BN % config.MMA_K == 0


@settings(deadline=None)
@given(configs())
def test_one_more_slot_would_not_fit(config: FA4Config) -> None:
    # Every second slot holds K, and K brings rope columns and scales along.
    slot = config.BN * config.v_cols_per_cta() * config.qkv_dtype_size
    scale = 0 if config.num_own_scale_bufs else config.scale_dtype_size
    extra = config.k_rows_per_cta() * (config.rope_depth() * config.rope_dtype_size + scale)
    if config.two_rings:
        slot = 2 * slot + 16  # Slots of K and of V only come together.
    fits = config.smem_used + slot + 16 + extra <= SMEM_CAPACITY
    # Where one more fits, a ring of the same kind would need too many barriers.
    more = 2 * 2 if config.use_fused_kv else 2 * config.num_qk_stages + 2
    assert not fits or config.misc_mbars.size + more > MAX_MBARRIERS


def test_what_a_pair_with_rope_columns_and_scales_holds() -> None:
    """The budget by hand: 48 KiB of Q, two factors and scales a row, 17 slots, 9 rope buffers."""
    config = replace(
        FA4Config.for_attention(DType.FP8_E4M3, 192, ov_depth=128, pair_cta=True),
        scale_dtype=DType.FP32,
    )
    assert (config.use_fused_kv, config.num_kv_stages) == (True, 17)
    assert config.num_rope_buffers() == 9
    barriers = 8 + 4 + 1 + 4 + 2 * 17
    operands = 256 * 192 + 17 * 128 * 64 + 9 * 64 * 64
    assert config.smem_used == operands + 1024 + 1024 + 2 * 128 * 4 + 8 * barriers + 4
    assert AttentionSMemLayout(config).smem_size() == config.smem_used


@settings(deadline=None)
@given(configs())
def test_an_odd_number_of_slots_shares_one_unstaged_ring(config: FA4Config) -> None:
    if config.use_fused_kv:
        assert config.num_kv_stages % 2 == 1
        assert config.num_qk_stages == 1


@settings(deadline=None)
@given(any_configs())
def test_every_config_gets_a_verdict_with_a_sentence(config: FA4Config) -> None:
    reason = unsupported_reason(config)
    assert supported(config) == (reason is None)
    if reason is not None:
        assert len(reason.split()) > 5
        assert config.describe()


def test_positions_per_tile_with_and_without_packed_heads() -> None:
    packed = FA4Config.for_attention(DType.BF16, 128, group=4)
    assert packed.fuse_gqa
    assert (packed.BM_eff(), packed.PairBM_eff()) == (64, 64)
    plain = FA4Config.for_attention(DType.BF16, 128, group=3)
    assert not plain.fuse_gqa
    assert plain.BM_eff() == 256
    for depth, ov_depth in ((192, 128), (128, 64)):  # rope columns, too
        rope = FA4Config.for_attention(DType.BF16, depth, group=4, ov_depth=ov_depth, num_qo=1)
        assert rope.fuse_gqa
        assert rope.BM_eff() == 32
    pair = FA4Config(8, 8, 128, 128, pair_cta=True)
    assert (pair.BM_eff(), pair.PairBM_eff(), pair.cta_group()) == (32, 64, 2)
    assert (pair.v_cols_per_cta(), pair.k_rows_per_cta()) == (64, 64)
    # more heads than a CTA of the pair has rows: each has query tiles of its own
    many = FA4Config(256, 256, 128, 128, pair_cta=True)
    assert not many.fuse_gqa
    assert many.PairBM_eff() == 512


def test_a_page_that_does_not_divide_the_tile_shrinks_it_to_a_power_of_two() -> None:
    assert FA4Config(8, 1, 64, 64, page_size=96).BN == 192  # 192 % 96 == 0
    assert FA4Config(8, 1, 64, 64, page_size=128).BN == 128


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_q_heads": 0}, "num_q_heads=0"),
        ({"group": 3}, "num_q_heads=8 is not a multiple of group=3"),
        ({"num_qo": 3}, "num_qo=3: choose 1 or 2"),
        ({"page_size": -1}, "page_size=-1"),
        ({"qk_depth": 0}, "qk_depth=0"),
        ({"qkv_dtype": DType.FP32}, "qkv_dtype=fp32: choose bf16"),
    ],
)
def test_nonsense_is_refused(change: dict[str, Any], message: str) -> None:
    inputs: dict[str, Any] = {"num_q_heads": 8, "group": 1, "qk_depth": 64, "ov_depth": 64}
    with pytest.raises(ValueError, match=message):
        FA4Config(**(inputs | change))


def test_describe_states_the_deciding_numbers() -> None:
    text = FA4Config.for_attention(DType.BF16, 128).describe()
    for part in ("256 x 128", "fused ring, 5 slots", "23 mbarriers", "230596 of 232448"):
        assert part in text


def test_the_swizzle_of_the_dtype_is_the_default_choice() -> None:
    assert FA4Config.for_attention(DType.FP8_E4M3, 128).swizzle_mode is SwizzleMode.B64
    assert FA4Config.for_attention(DType.FP16, 128).swizzle_mode is SwizzleMode.B128


@pytest.mark.parametrize(
    ("config", "swizzle"),
    [
        (FA4Config.for_attention(DType.FP8_E4M3, 128, page_size=16), SwizzleMode.B128),
        (FA4Config.for_attention(DType.FP8_E4M3, 128, page_size=32), SwizzleMode.B128),
        (FA4Config.for_attention(DType.FP8_E4M3, 128, page_size=64), SwizzleMode.B64),
        (FA4Config.for_attention(DType.FP8_E4M3, 128), SwizzleMode.B64),
        (FA4Config.for_attention(DType.FP8_E4M3, 64, page_size=16), SwizzleMode.B64),
        # Of either chunk two are 128 columns.
        (FA4Config.for_attention(DType.FP8_E4M3, 96, page_size=16), SwizzleMode.B128),
        # Rope columns are half a chunk of 128, which is one box all the same.
        (
            FA4Config.for_attention(DType.FP8_E4M3, 192, ov_depth=128, page_size=16),
            SwizzleMode.B128,
        ),
        (FA4Config.for_attention(DType.FP8_E4M3, 192, ov_depth=64, page_size=16), SwizzleMode.B64),
        (FA4Config.for_attention(DType.FP8_E4M3, 192, page_size=16), SwizzleMode.B64),
        (FA4Config.for_attention(DType.BF16, 64, page_size=16), SwizzleMode.B128),
        (Depth512Config.for_attention(DType.FP8_E4M3, 512, page_size=16), SwizzleMode.B128),
        # The stages of P have 64 keys, but lie in Tensor Memory.
        (Depth512Config.for_attention(DType.FP8_E4M3, 256, page_size=16), SwizzleMode.B128),
    ],
)
def test_fp8_operands_over_small_pages_have_chunks_of_128_columns(
    config: FA4Config | Depth512Config, swizzle: SwizzleMode
) -> None:
    assert config.swizzle_mode is swizzle
