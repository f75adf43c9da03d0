from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SMEM_CAPACITY, TMEM_COLUMNS
from fa4_cute.plan.spec.depth512_limits import supported, unsupported_reason
from tests.plan.strategies import any_depth512_configs, depth512_configs

# docs/sources.md 10, column by column; bf16 and fp16 agree.
TABLE = {
    256: {
        "MMA_M": 256,
        "BM": 128,
        "BN": 128,
        "num_qk_stages": 2,
        "BK0": 128,
        "num_pv_stages": 2,
        "BK1": 64,
        "TMEM_O_lo": 0,
        "TMEM_S_even": 256,
        "TMEM_S_odd": 384,
        "tmem_used": 512,
        "slots_per_tile": 4,
        "split_o": False,
    },
    512: {
        "MMA_M": 128,
        "BM": 64,
        "BN": 256,
        "num_qk_stages": 4,
        "BK0": 128,
        "num_pv_stages": 2,
        "BK1": 128,
        "TMEM_O_lo": 0,
        "TMEM_S_even": 256,
        "TMEM_S_odd": 384,
        "tmem_used": 512,
        "slots_per_tile": 8,
        "split_o": True,
    },
}
RING = {
    (256, "bf16"): (16384, 10),
    (256, "fp16"): (16384, 10),
    (256, "fp8_e4m3"): (8192, 12),
    (512, "bf16"): (32768, 4),
    (512, "fp16"): (32768, 4),
    (512, "fp8_e4m3"): (16384, 11),
}


@pytest.mark.parametrize(("depth", "dtype"), RING)
def test_table(depth: int, dtype: str) -> None:
    config = Depth512Config.for_attention(DType(dtype), depth)
    for name, value in TABLE[depth].items():
        assert getattr(config, name) == value, name
    assert config.v_cols_per_cta() == 128
    assert (config.kv_stage_bytes, config.num_kv_stages) == RING[depth, dtype]
    assert config.misc_mbars.num_fixed == (10 if depth == 512 else 8)
    assert supported(config)


@settings(deadline=None)
@given(depth512_configs())
def test_supported_configs_fit_the_machine(config: Depth512Config) -> None:
    assert config.smem_used <= SMEM_CAPACITY
    assert config.tmem_used <= TMEM_COLUMNS
    assert config.misc_mbars.size <= 32
    assert config.num_kv_stages >= config.num_qk_stages


@settings(deadline=None)
@given(depth512_configs())
def test_k_and_v_slots_are_equal(config: Depth512Config) -> None:
    assert config.k_rows_per_cta() * config.BK0 == config.BK1 * config.v_cols_per_cta()


@settings(deadline=None)
@given(depth512_configs())
def test_the_pair_covers_every_output_column_once(config: Depth512Config) -> None:
    columns = [
        column
        for part in range(config.num_o_blocks)
        for rank in (0, 1)
        for column in range(
            config.v_column(rank, part), config.v_column(rank, part) + config.v_cols_per_cta()
        )
    ]
    assert sorted(columns) == list(range(config.padded_depth))


@pytest.mark.parametrize(
    ("depth", "padded", "parts"), [(200, 256, 2), (264, 512, 3), (384, 512, 3), (392, 512, 4)]
)
def test_depths_between_are_padded_but_not_all_loaded(depth: int, padded: int, parts: int) -> None:
    config = Depth512Config.for_attention(DType.FP16, depth)
    assert (config.padded_depth, config.num_qk_stages) == (padded, parts)
    assert unsupported_reason(config) is None


@pytest.mark.parametrize(
    ("depth", "group", "positions"), [(256, 8, 16), (512, 8, 8), (512, 64, 1), (512, 128, 64)]
)
def test_heads_are_packed_when_they_divide_the_rows_of_a_cta(
    depth: int, group: int, positions: int
) -> None:
    config = Depth512Config.for_attention(DType.BF16, depth, group=group)
    assert config.BM_eff() == positions
    assert config.PairBM_eff() == 2 * positions


@settings(deadline=None)
@given(any_depth512_configs())
def test_every_config_gets_a_verdict(config: Depth512Config) -> None:
    assert supported(config) == (unsupported_reason(config) is None)
    assert config.describe()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 0}, "depth=0"),
        ({"group": 3}, "not a multiple of group=3"),
        ({"page_size": -4}, "page_size=-4"),
        ({"qkv_dtype": DType.FP32}, "choose bf16"),
    ],
)
def test_nonsense_is_refused(change: dict[str, Any], message: str) -> None:
    inputs: dict[str, Any] = {"num_q_heads": 8, "group": 1, "depth": 256}
    with pytest.raises(ValueError, match=message):
        Depth512Config(**(inputs | change))
