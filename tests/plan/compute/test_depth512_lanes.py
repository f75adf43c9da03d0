"""The lane map of the pair against the simulator's own table of accumulator layouts."""

from __future__ import annotations

import pytest

from fa4_cute.plan.compute.depth512_lanes import first_key, first_output, lane_half, row_of_lane
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import CTA_GROUP, TMEM_LANES
from testing.layouts.tmem_addr import d_cells


def owners(config: Depth512Config, columns: int) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Return (CTA, lane, column) of an accumulator -> (row of the pair, lane part)."""
    return {
        (cta, lane, column): (
            cta * config.BM + row_of_lane(config, lane),
            lane_half(config, lane),
        )
        for cta in range(CTA_GROUP)
        for lane in range(TMEM_LANES)
        for column in range(columns)
    }


@pytest.mark.slow
@pytest.mark.parametrize("depth", [256, 512])
def test_scores_are_where_the_mma_writes_them(depth: int) -> None:
    config = Depth512Config.for_attention(DType.BF16, depth)
    cells = d_cells(config.MMA_M, config.BN, CTA_GROUP)
    for (cta, lane, column), (row, part) in owners(config, config.s_columns).items():
        key = first_key(config, part) + column
        assert tuple(cells[row, key]) == (cta, lane, column)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [256, 512])
def test_outputs_are_where_the_mma_writes_them(depth: int) -> None:
    config = Depth512Config.for_attention(DType.BF16, depth)
    width = config.padded_depth // config.num_o_blocks
    cells = d_cells(config.MMA_M, width, CTA_GROUP)
    seen = set()
    for o_block in range(config.num_o_blocks):
        for (cta, lane, column), (row, part) in owners(config, config.o_columns).items():
            head_column = first_output(config, o_block, part) + column
            assert tuple(cells[row, head_column - o_block * width]) == (cta, lane, column)
            seen.add((row, head_column))
    assert len(seen) == config.MMA_M * config.padded_depth


@pytest.mark.parametrize("depth", [256, 512])
def test_each_cta_holds_the_v_columns_of_the_b_operand(depth: int) -> None:
    """The leader's V is the first half of an output part's columns, the peer's the second."""
    config = Depth512Config.for_attention(DType.BF16, depth)
    columns = [
        config.v_column(rank, part) + i
        for part in range(config.num_o_blocks)
        for rank in range(CTA_GROUP)
        for i in range(config.v_cols_per_cta())
    ]
    assert columns == list(range(config.padded_depth))
