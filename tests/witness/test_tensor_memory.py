"""Lane and column of every element in Tensor Memory, against CuTe's fragments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from fa4_cute.plan.compute.depth512_lanes import first_key, first_output, lane_half, row_of_lane
from fa4_cute.plan.compute.depth512_mma import pv_block_plan, qk_stage_plan
from fa4_cute.plan.compute.mma_plans import pv_plan, qk_plan
from fa4_cute.plan.facts.hardware import TMEM_COLUMN_BYTES, TMEM_LANE_SHIFT, TMEM_LANES
from fa4_cute.plan.facts.umma import MmaPlan
from fa4_cute.plan.memory.tmem import AttentionTmem
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.kernels import KERNELS
from tests.witness.cute_mma import witness
from tests.witness.plans import PLANS


def index(layout: tuple[Any, Any], coordinate: Any) -> int:
    """Evaluate a CuTe layout (shape, stride); the first mode of a group varies fastest."""
    shape, stride = layout
    if isinstance(coordinate, tuple):
        modes = zip(shape, stride, coordinate, strict=True)
        return sum(index((sh, st), at) for sh, st, at in modes)
    if isinstance(shape, int):
        return coordinate * stride
    total = 0
    for inner, step in zip(shape, stride, strict=True):
        extent = size(inner)
        total += index((inner, step), coordinate % extent)
        coordinate //= extent
    return total


def size(shape: Any) -> int:
    if isinstance(shape, int):
        return shape
    product = 1
    for inner in shape:
        product *= size(inner)
    return product


@lru_cache(maxsize=64)
def accumulator_cells(plan: MmaPlan) -> dict[tuple[int, int], int]:
    """Return CuTe's Tensor Memory address of (row, column) of this CTA's D, from column 0."""
    layout = witness(plan).accumulator
    rows = plan.m // plan.cta_group
    return {
        (row, column): index(layout, ((row, column), 0, 0))
        for row in range(rows)
        for column in range(plan.n)
    }


TWO_Q = {name: spec for name, spec in KERNELS.items() if isinstance(spec, KernelSpec)}
DEPTH512 = {name: spec for name, spec in KERNELS.items() if isinstance(spec, Depth512Spec)}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO_Q)
def test_a_row_of_s_and_o_fills_a_lane(name: str) -> None:
    """2Q and 1Q kernels: thread ``l`` reads row ``l`` of S and O as consecutive columns."""
    config = TWO_Q[name].config
    for plan in (qk_plan(config), pv_plan(config)):
        ours = {
            (row, column): (row << TMEM_LANE_SHIFT) + column
            for row in range(TMEM_LANES)
            for column in range(plan.n)
        }
        assert accumulator_cells(plan) == ours


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO_Q)
def test_p_is_packed_from_the_first_column_of_its_scores(name: str) -> None:
    """Two keys a column with 16-bit types, four with fp8; one row per lane."""
    config = TWO_Q[name].config
    plan = pv_plan(config)
    layout = witness(plan).a_in_tmem
    assert layout is not None
    per_column = TMEM_COLUMN_BYTES // plan.dtype.size
    last = 0
    for row in (0, 1, 31, 32, 77, TMEM_LANES - 1):
        for key in range(plan.k):
            block, within = divmod(key, plan.dtype.mma_k)
            address = index(layout, ((row, within), 0, block, 0)) // per_column
            column = plan.a_offset(block) + within // per_column
            assert address == (row << TMEM_LANE_SHIFT) + column, (row, key)
            last = max(last, column)
    assert last + 1 == AttentionTmem.of(config).p_columns


@pytest.mark.slow
@pytest.mark.parametrize("name", DEPTH512)
def test_lanes_of_the_depth512_kernel_are_those_of_cute(name: str) -> None:
    """64 rows per CTA fill 128 lanes: the upper lanes continue the rows (layouts A and B)."""
    config = DEPTH512[name].config
    scores, output = accumulator_cells(qk_stage_plan(config, 0)), accumulator_cells(
        pv_block_plan(config)
    )
    for lane in range(TMEM_LANES):
        row, part = row_of_lane(config, lane), lane_half(config, lane)
        key = first_key(config, part)
        for column in range(config.s_columns):
            assert scores[row, key + column] == (lane << TMEM_LANE_SHIFT) + column
        first = first_output(config, 0, part)
        for column in range(config.o_columns):
            assert output[row, first + column] == (lane << TMEM_LANE_SHIFT) + column
    assert len(scores) == TMEM_LANES * config.s_columns
    assert len(output) == TMEM_LANES * config.o_columns


def test_the_kernels_cover_all_operand_types_and_both_cta_groups() -> None:
    assert {plan.dtype.value for plan in PLANS} == {"bf16", "fp16", "fp8_e4m3"}
    assert {plan.cta_group for plan in PLANS} == {1, 2}
    assert {plan.m // plan.cta_group for plan in PLANS} == {64, 128}
