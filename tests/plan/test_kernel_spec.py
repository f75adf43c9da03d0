"""Specifications: names that tell kernels apart, and rows that belong to positions."""

import re

import pytest

from fa4_cute.plan.dtypes import DType
from fa4_cute.plan.kernel_spec import KernelSpec
from fa4_cute.plan.masks import CAUSAL


def test_names_are_unique_identifiers() -> None:
    specs = [
        KernelSpec.for_attention(dtype, head_dim, group=group, causal=causal, return_lse=lse)
        for dtype in (DType.BF16, DType.FP16)
        for head_dim in (64, 128)
        for group in (1, 4)
        for causal in (False, True)
        for lse in (False, True)
    ]
    names = {spec.name for spec in specs}
    assert len(names) == len(specs)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)


@pytest.mark.parametrize(("group", "rows"), [(1, 1), (2, 2), (8, 8), (128, 128), (3, 1), (256, 1)])
def test_groups_that_divide_a_tile_share_positions(group: int, rows: int) -> None:
    spec = KernelSpec.for_attention(DType.BF16, 64, group=group)
    assert spec.rows_per_position == rows
    assert spec.tile_positions * rows == spec.config.MMA_M


def test_mask_and_element_names() -> None:
    spec = KernelSpec.for_attention(DType.FP16, 64, causal=True)
    assert spec.variant.mask == CAUSAL
    assert spec.ptx_type == "f16"
    assert spec.exp2_plan.bn == spec.config.BN


def test_impossible_kernels_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="256"):
        KernelSpec.for_attention(DType.BF16, 256)
