from __future__ import annotations

import pytest
from hypothesis import given, settings

from fa4_cute.plan.config import FA4Config
from fa4_cute.plan.dtypes import DType
from fa4_cute.plan.mma_plans import k_operand, pv_plan, q_operand, qk_plan, v_operand
from fa4_cute.plan.smem_layout import SM100AttentionSMem
from fa4_cute.plan.tmem import AttentionTmem
from tests.plan.strategies import configs


@settings(deadline=None)
@given(configs())
def test_qk_multiplies_every_column_once(config: FA4Config) -> None:
    plan = qk_plan(config)
    blocks = [block for stage in range(plan.num_stages) for block in plan.k_blocks(stage)]
    assert blocks == list(range(plan.num_k_mmas))
    assert 0 <= plan.num_k_mmas * config.MMA_K - config.qk_depth < config.MMA_K
    assert all(plan.k_blocks(stage) for stage in range(plan.num_stages))
    assert (plan.m, plan.n) == (config.MMA_M, config.BN)


@settings(deadline=None)
@given(configs())
def test_depth_parts_begin_where_their_tma_tile_begins(config: FA4Config) -> None:
    plan = qk_plan(config)
    for stage in range(plan.num_stages):
        first = plan.k_blocks(stage)[0]
        part = config.BK0 * config.qkv_dtype_size
        assert plan.b_offset(first) == stage * config.k_rows_per_cta() * part
        assert plan.a_offset(first) == stage * 128 * part


@settings(deadline=None)
@given(configs())
def test_operands_are_as_large_as_their_slots(config: FA4Config) -> None:
    layout = SM100AttentionSMem(config)
    assert v_operand(config).bytes == layout.v_stage_bytes
    if not config.is_mla:
        assert k_operand(config).bytes == layout.k_stage_bytes
        assert q_operand(config).bytes * (config.BM // 128) == layout.q_bytes


@settings(deadline=None)
@given(configs())
def test_p_reads_the_columns_that_p_occupies(config: FA4Config) -> None:
    plan = pv_plan(config)
    end = plan.a_offset(plan.num_k_mmas - 1) + plan.a_columns_per_mma
    assert end == AttentionTmem.of(config).borrow_s_as_p(0).size
    last = plan.b_offset(plan.num_k_mmas - 1)
    assert last + config.MMA_K * config.swizzle_mode.bytes == plan.b.lbo
    assert (plan.m, plan.n) == (config.MMA_M, config.padded_ov_depth)


@pytest.mark.parametrize(
    ("pair", "qk", "pv"), [(True, 0x10200490, 0x10210490), (False, 0x08200490, 0x08210490)]
)
def test_instruction_descriptors_of_d128(pair: bool, qk: int, pv: int) -> None:
    config = FA4Config(8, 1, 128, 128, pair_cta=pair)
    assert (qk_plan(config).idesc, pv_plan(config).idesc) == (qk, pv)
    assert qk_plan(config).kind == "f16"


def test_fp8_uses_its_own_kind() -> None:
    plan = qk_plan(FA4Config.for_attention(DType.FP8_E4M3, 128))
    assert (plan.kind, plan.num_k_mmas) == ("f8f6f4", 4)
