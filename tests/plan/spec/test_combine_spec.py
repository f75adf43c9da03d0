"""The combine kernel's choices that do not depend on a launch."""

from __future__ import annotations

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.combine_spec import CombineSpec


@pytest.mark.parametrize(
    ("depth", "warps", "blocks"), [(64, 1, 3), (128, 1, 3), (136, 2, 5), (256, 2, 5), (512, 4, 9)]
)
def test_a_row_has_a_warp_for_each_128_columns(depth: int, warps: int, blocks: int) -> None:
    """Nine rows, four warps to a CTA."""
    spec = CombineSpec(DType.BF16, depth)
    assert spec.warps_per_row == warps
    assert (warps - 1) * spec.columns_per_step < depth <= warps * spec.columns_per_step
    assert spec.num_blocks(9) == blocks


def test_rows_are_whole_units_of_16_bytes() -> None:
    with pytest.raises(ValueError, match="depth=132: must be a positive multiple of 8"):
        CombineSpec(DType.BF16, 132)
