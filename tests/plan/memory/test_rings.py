from __future__ import annotations

import pytest
from hypothesis import given, settings

from fa4_cute.plan.barriers.pipeline_plan import PipelineState
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.rings import TMAConsumerPlan, TMAProducerPipeline
from fa4_cute.plan.memory.smem_layout import SM100AttentionSMem
from tests.plan.strategies import configs


def rings(config: FA4Config, is_k: bool) -> tuple[TMAProducerPipeline, TMAConsumerPlan]:
    layout, mbars = SM100AttentionSMem(config), config.misc_mbars
    base = layout.k_smem_base() if is_k else layout.v_smem_base()
    mbar = mbars.K_offset if is_k else mbars.V_offset
    return TMAProducerPipeline(config, is_k, mbar, base), TMAConsumerPlan(
        config, is_k, mbar, base
    )


@settings(deadline=None)
@given(configs())
def test_both_ends_agree_on_every_slot(config: FA4Config) -> None:
    layout = SM100AttentionSMem(config)
    for is_k in (True, False):
        load, mma = rings(config, is_k)
        write, read = load.initial_state(), PipelineState.consumer(config.num_kv_stages)
        slot_bytes = layout.k_stage_bytes if is_k else layout.v_stage_bytes
        assert mma.slot_bytes == slot_bytes
        for slot in range(2 * config.num_kv_stages):
            index = slot % config.num_kv_stages
            assert mma.get(read) == mma.smem_base + index * slot_bytes
            if not config.is_mla:
                assert load.get_smem(write) == mma.get(read)
            full = load.get_tile(write, load.pipeline.last_stage)[0]
            assert mma.pipeline.num_qk_stages == mma.num_qk_stages_effective
            assert mma.pipeline.consumer_wait(read).mbar == full
            write, read = load.commit_step(write), read.step()


@settings(deadline=None)
@given(configs())
def test_parts_tile_a_slot(config: FA4Config) -> None:
    if config.is_mla:
        return  # rope columns come by a load of their own
    for is_k in (True, False):
        load, mma = rings(config, is_k)
        parts = load.pipeline.num_qk_stages
        starts = [load.get_smem(load.initial_state(), part) for part in range(parts)]
        assert starts == [load.smem_base + part * load.tile_bytes for part in range(parts)]
        assert parts * load.tile_bytes == mma.full_kv_bytes == mma.slot_bytes
        if is_k:
            assert mma.staged_k_bytes == load.tile_bytes


def test_members_of_the_seed_for_d128_1q() -> None:
    config = FA4Config(8, 1, 128, 128, num_qo=1)
    _, k = rings(config, True)
    _, v = rings(config, False)
    assert (k.BK, k.BMN, k.is_k_major, k.num_qk_stages_effective) == (64, 128, True, 2)
    assert (v.BK, v.BMN, v.is_k_major, v.num_qk_stages_effective) == (128, 128, False, 1)
    assert (k.full_kv_bytes, v.full_kv_bytes, k.staged_k_bytes) == (32768, 32768, 16384)


def test_the_slot_of_a_fused_ring_has_no_rope_columns() -> None:
    config = FA4Config(8, 1, 192, 128, is_mla=True, rope_dtype=DType.BF16)
    assert config.use_fused_kv
    _, k = rings(config, True)
    assert k.full_kv_bytes == 128 * (128 + 64) * 2
    assert k.slot_bytes == SM100AttentionSMem(config).k_stage_bytes == 32768


def test_a_k_ring_has_no_v_methods() -> None:
    _, k = rings(FA4Config(8, 1, 64, 64), True)
    k.require_operand(k=True)
    with pytest.raises(ValueError, match="this pipeline consumes K"):
        k.require_operand(k=False)
