from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from fa4_cute.plan.compute.depth512_mma import pv_block_plan, qk_stage_plan
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from tests.plan.strategies import depth512_configs


@pytest.mark.parametrize(
    ("depth", "qk", "pv"),
    [(256, (256, 128, 128), (256, 256, 64)), (512, (128, 256, 128), (128, 256, 128))],
)
def test_shapes(depth: int, qk: tuple[int, ...], pv: tuple[int, ...]) -> None:
    config = Depth512Config.for_attention(DType.BF16, depth)
    part, half = qk_stage_plan(config, 0), pv_block_plan(config)
    assert (part.m, part.n, part.k) == qk
    assert (half.m, half.n, half.k) == pv


@settings(deadline=None)
@given(depth512_configs())
def test_parts_multiply_every_column_once(config: Depth512Config) -> None:
    stages = range(config.num_qk_stages)
    blocks = [len(qk_stage_plan(config, stage).k_blocks(0)) for stage in stages]
    assert all(blocks)
    assert 0 <= sum(blocks) * config.MMA_K - config.depth < config.MMA_K
    with pytest.raises(ValueError, match="depth parts"):
        qk_stage_plan(config, config.num_qk_stages)


@settings(deadline=None)
@given(depth512_configs())
def test_operands_are_as_large_as_their_regions(config: Depth512Config) -> None:
    layout = Depth512SMemLayout(config)
    part, half = qk_stage_plan(config, 0), pv_block_plan(config)
    assert part.a is not None
    assert part.a.bytes == layout.q_stage_bytes
    assert part.b.bytes == half.b.bytes == layout.kv_stage_bytes
    assert half.b.mn_major
    if config.p_in_tmem:
        assert half.a is None
        assert config.p_bytes == 0
    else:
        assert half.a is not None
        assert half.a.bytes == layout.p_stage_bytes
        assert not half.a.mn_major


@settings(deadline=None)
@given(depth512_configs())
def test_p_in_tensor_memory_fits_its_scores_key_block_by_key_block(config: Depth512Config) -> None:
    starts = [config.p_column(block) for block in range(config.num_pv_stages)]
    columns = config.BK1 * config.qkv_dtype_size // 4
    assert starts == [0, columns]
    if config.p_in_tmem:
        assert starts[-1] + columns <= config.s_columns


@pytest.mark.parametrize("copies", [2, 4])
@pytest.mark.parametrize("dtype", [DType.FP8_E4M3, DType.BF16])
def test_key_blocks_are_those_of_all_copies_of_the_rows(dtype: DType, copies: int) -> None:
    """A lane is written by the K blocks of its copy's keys, and begun by the first of them."""
    config = replace(Depth512Config.for_attention(dtype, 256), row_copies=copies)
    begun = []
    for key_block in range(config.num_pv_stages):
        plan = pv_block_plan(config, key_block)
        for k in plan.k_blocks(0):
            copy = (key_block * config.BK1 + k * config.MMA_K) // config.keys_of_copy
            lanes = [copy * 4 // copies <= word % 4 < (copy + 1) * 4 // copies for word in range(8)]
            assert [word == 0 for word in plan.disabled_lanes(k)] == lanes
            begun += [copy] if plan.is_first_of_copy(k) else []
    assert begun == list(range(copies))
