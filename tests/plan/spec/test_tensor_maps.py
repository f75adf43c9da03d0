"""Tensor maps against the tiles they fill: sizes, rows, and where a row ends up."""

from math import prod

import pytest

from fa4_cute.plan.compute.mma_plans import k_operand, q_operand, v_operand
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.tensor_maps import (
    L2_PROMOTION_128B,
    L2_PROMOTION_NONE,
    OperandLayout,
    query_map,
    tensor_maps,
)
from fa4_cute.plan.spec.variant import Variant

HEAD_DIMS = (8, 64, 72, 128, 192)


def spec_of(head_dim: int, group: int = 1) -> KernelSpec:
    return KernelSpec.for_attention(DType.BF16, head_dim, group=group)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_boxes_fill_exactly_one_tile(head_dim: int) -> None:
    spec = spec_of(head_dim)
    layout = OperandLayout.contiguous((2, 300, 4, head_dim))
    q, k, v, o = tensor_maps(spec, layout, layout, layout, layout)
    for tensor_map, operand in ((q, q_operand), (k, k_operand), (v, v_operand)):
        tile = operand(spec.config)
        chunks = spec.config.padded_qk_depth // tensor_map.box[0]
        assert chunks * prod(tensor_map.box) * tensor_map.dtype.size == tile.bytes
    assert (o.dims, o.strides_bytes, o.box) == (q.dims, q.strides_bytes, q.box)


def test_fp8_operands_are_bytes_and_their_output_is_not() -> None:
    spec = KernelSpec.for_attention(DType.FP8_E4M3, 80)
    layout = OperandLayout.contiguous((2, 300, 4, 80))
    q, k, v, o = tensor_maps(spec, layout, layout, layout, layout)
    assert {m.fields(1024).element_type for m in (q, k, v)} == {"UINT8"}
    assert {m.box[0] * m.dtype.size for m in (q, k, v)} == {64}
    assert q.strides_bytes[1] == 320
    assert (o.fields(1024).element_type, o.strides_bytes[1]) == ("BFLOAT16", 640)
    assert (o.box, o.swizzle.bytes) == (q.box, 128)


@pytest.mark.parametrize("group", [1, 2, 4, 8, 128])
def test_fused_rows_are_position_major(group: int) -> None:
    """Row r of a tile is head r % group at position r // group, as the masks assume."""
    spec = spec_of(64, group)
    layout = OperandLayout.contiguous((1, 300, 2 * group, 64))
    q = query_map(spec, "q", layout)
    assert q.box[1] * q.box[2] == spec.config.MMA_M
    assert q.dims == (64, group, 300, 2, 1)
    by_row, by_head = layout.strides[1] * 2, layout.strides[2] * 2
    for row in (0, 1, group - 1, 127):
        head, position = row % q.box[1], row // q.box[1]
        offset = head * q.strides_bytes[0] * (group > 1) + position * q.strides_bytes[1]
        assert offset == row % group * by_head + row // group * by_row


def test_unfused_group_keeps_query_heads() -> None:
    spec = spec_of(64, group=3)
    q = query_map(spec, "q", OperandLayout.contiguous((1, 10, 6, 64)))
    assert q.dims == (64, 1, 10, 6, 1)
    assert q.box == (64, 1, 128, 1, 1)


def test_each_sequence_is_its_own_dimension() -> None:
    """Rows past a sequence are outside the map: they never reach the next batch entry."""
    spec = spec_of(128)
    layout = OperandLayout((3, 5, 1, 128), (5 * 128, 128, 128, 1))
    _, k, v, _ = tensor_maps(spec, layout, layout, layout, layout)
    assert k.dims == v.dims == (128, 5, 1, 3)


def test_strides_of_single_elements_do_not_matter() -> None:
    spec = spec_of(64)
    q = query_map(spec, "q", OperandLayout((1, 7, 1, 64), (3, 64, 1, 1)))
    assert all(stride % 16 == 0 for stride in q.strides_bytes)


@pytest.mark.parametrize(
    ("strides", "message"),
    [((6400, 64, 64, 2), "contiguous"), ((640, 68, 64, 1), "multiples of 16"),
     ((0, 64, 64, 1), "positive multiples")],
)  # fmt: skip
def test_unmappable_strides_are_refused(strides: tuple[int, ...], message: str) -> None:
    a, b, c, d = strides
    with pytest.raises(ValueError, match=message):
        query_map(spec_of(64), "q", OperandLayout((2, 10, 2, 64), (a, b, c, d)))


def test_empty_operands_have_a_valid_map() -> None:
    spec = spec_of(64)
    q = query_map(spec, "q", OperandLayout.contiguous((1, 0, 1, 64)))
    assert min(q.dims) == 1


@pytest.mark.parametrize(
    ("head_dim_v", "page_size", "k_rows", "v_rows"),
    [
        (64, 0, 96, 192), (64, 64, 32, 64), (64, 16, 16, 16), (64, 32, 32, 32), (64, 256, 64, 128),
        (128, 64, 64, 64), (128, 256, 64, 128), (128, 16, 16, 16),
    ],
)  # fmt: skip
def test_boxes_of_a_pair_lie_in_one_page(
    head_dim_v: int, page_size: int, k_rows: int, v_rows: int
) -> None:
    """Each CTA loads half of the keys of K, which may begin in the middle of a page."""
    variant = Variant(used_k=page_size > 0, page_size=page_size)
    spec = KernelSpec.for_attention(
        DType.BF16, head_dim_v + 64, head_dim_v=head_dim_v, pair_cta=True, variant=variant
    )
    wide, narrow = (
        OperandLayout.contiguous((9, page_size or 300, 4, d))
        for d in (head_dim_v + 64, head_dim_v)
    )
    _, k, v, _ = tensor_maps(spec, wide, wide, narrow, narrow)
    assert (k.box[1], v.box[1]) == (k_rows, v_rows)
    assert v.box[0] == min(64, spec.config.v_cols_per_cta())
    assert v.swizzle.bytes == 2 * v.box[0]
    rows = spec.config.k_rows_per_cta()
    for first in range(0, rows * 4, k_rows):
        assert not page_size or first % page_size + k_rows <= page_size
    assert rows % k_rows == spec.config.BN % v_rows == 0


@pytest.mark.parametrize(
    ("dtype", "head_dim", "whole"),
    [(DType.BF16, 64, True), (DType.BF16, 128, True), (DType.FP8_E4M3, 64, True),
     (DType.BF16, 96, False), (DType.BF16, 80, False), (DType.FP8_E4M3, 96, False)],
)  # fmt: skip
def test_lines_are_fetched_whole_where_rows_divide_them(
    dtype: DType, head_dim: int, whole: bool
) -> None:
    """Or where rows of a head follow one another; those of Q are a group's."""
    spec = KernelSpec.for_attention(dtype, head_dim, group=2)
    queries, keys = (
        OperandLayout.contiguous((2, 300, heads, head_dim)) for heads in (8, 4)
    )
    by_head = OperandLayout(keys.shape, (4 * 300 * head_dim, head_dim, 300 * head_dim, 1))
    for layout, lines in ((keys, whole), (by_head, True)):
        promotions = [
            tensor_map.fields(0x1000).l2_promotion
            for tensor_map in tensor_maps(spec, queries, layout, layout, queries)
        ]
        expected = L2_PROMOTION_128B if lines else L2_PROMOTION_NONE
        assert promotions[1:3] == [expected, expected]
        assert promotions[0] == L2_PROMOTION_128B
