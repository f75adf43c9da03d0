"""Blocks of columns of the Hopper kernel's P V: they cover V and the registers of O once."""

from __future__ import annotations

import pytest

from fa4_cute.plan.compute.sm90_mma import column_blocks, pv_plan
from fa4_cute.plan.compute.value_transpose import SlotRows
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.facts.dtypes import DType

DEPTHS = range(16, 257, 16)


def fp8(depth: int, cap: int = 0, keys: int = 0) -> SM90Config:
    return SM90Config.for_attention(DType.FP8_E4M3, depth, column_cap=cap, bn_cap=keys)


@pytest.mark.parametrize("cap", [0, 32, 64])
@pytest.mark.parametrize("depth", DEPTHS)
def test_blocks_follow_one_another(depth: int, cap: int) -> None:
    blocks, whole = column_blocks(fp8(depth, cap)), pv_plan(fp8(depth, cap))
    columns = [block.first + i for block in blocks for i in range(block.columns)]
    assert columns == list(range(depth))
    registers = list(range(whole.num_registers))
    assert [i for block in blocks for i in registers[block.registers]] == registers
    assert all(block.columns <= block.plan.n <= (cap or 128) for block in blocks)
    assert len({block.plan.n for block in blocks}) == 1
    assert blocks[-1].first + blocks[-1].plan.n <= fp8(depth, cap).padded_ov_depth
    assert all(block.plan.b_steps == whole.b_steps for block in blocks)


@pytest.mark.parametrize("keys", [32, 64, 96, 0])
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_block_starts_where_its_columns_do(depth: int, keys: int) -> None:
    """Eight rows are the pattern of a swizzle, which a descriptor must not cut."""
    config = fp8(depth, 64, keys)
    rows = SlotRows(config.transposed_swizzle, config.padded_ov_depth)
    for block in column_blocks(config):
        assert block.first % 8 == 0
        if block.first % 16 == 0:
            assert block.first_byte == rows.byte(0, block.first, 0)


@pytest.mark.parametrize("depth", [64, 136, 256])
def test_16_bit_operands_are_multiplied_at_once(depth: int) -> None:
    config = SM90Config.for_attention(DType.BF16, depth)
    (block,) = column_blocks(config)
    assert block.plan == pv_plan(config)
    assert (block.first, block.first_byte) == (0, 0)
    assert config.tile.scores_ahead
