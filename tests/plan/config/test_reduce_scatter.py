"""The exchange of a cluster: bands cover O once, regions are disjoint, and all of it fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.reduce_scatter import MAX_CLUSTER, PIECE_COLUMNS, ReduceScatterPlan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Partition, Variant

clusters = st.integers(2, MAX_CLUSTER)
plans = st.builds(
    ReduceScatterPlan,
    clusters,
    st.just(128),
    st.integers(1, 24).map(lambda n: 8 * n),
    st.sampled_from((DType.BF16, DType.FP16)),
)


def in_cluster(size: int) -> Variant:
    return Variant(partition=Partition.CLUSTER, num_partitions=size)


@given(plans)
def test_every_column_is_added_up_by_one_group_of_one_cta(plan: ReduceScatterPlan) -> None:
    columns = [
        plan.band_start(rank) + unit + i
        for rank in range(plan.num_partitions)
        for group in (0, 1)
        for unit in plan.units(group)
        for i in range(plan.unit_columns)
    ]
    assert sorted(columns) == list(range(plan.num_partitions * plan.band_columns))
    assert len(columns) >= plan.block_end >= plan.depth


@given(plans)
def test_every_column_that_is_read_was_left_by_one_group(plan: ReduceScatterPlan) -> None:
    left = [c for group in (0, 1) for c in plan.pieces(group)]
    assert left == list(plan.pieces(None))
    assert left == list(range(0, plan.staged_columns, PIECE_COLUMNS))
    assert plan.staged_columns >= plan.block_end
    assert plan.staged_columns % plan.unit_columns == 0


@given(plans)
def test_blocks_are_boxes_of_whole_sectors(plan: ReduceScatterPlan) -> None:
    assert plan.block_columns * plan.dtype.size == plan.swizzle.bytes >= 32
    assert plan.band_columns == len(plan.blocks) * plan.block_columns
    assert plan.band_columns % plan.unit_columns == 0
    for rank in range(plan.num_partitions):
        # A block starts on its own swizzle span of O, so that its box is one chunk.
        assert all((plan.band_start(rank) + b) % plan.block_columns == 0 for b in plan.blocks)


@given(plans)
def test_addresses_are_distinct_aligned_and_inside(plan: ReduceScatterPlan) -> None:
    vectors = [
        plan.partial_offset(column) + row * plan.row_stride
        for column in range(0, plan.staged_columns, 4)
        for row in (0, 1, plan.rows - 1)
    ]
    assert len(set(vectors)) == len(vectors)
    assert all(v % 16 == 0 for v in vectors)
    assert max(vectors) + 16 <= plan.row_values_offset
    end = plan.row_values_offset + plan.rows * plan.row_values_stride
    assert plan.row_values_offset % 8 == 0
    assert end <= plan.output_offset
    assert plan.output_offset % plan.swizzle.pattern_bytes == 0
    assert plan.block_bytes % plan.swizzle.pattern_bytes == 0
    assert plan.size == plan.output_offset + len(plan.blocks) * plan.block_bytes


@pytest.mark.parametrize(
    ("depth", "size", "swizzle", "band"),
    [
        (128, 2, SwizzleMode.B128, 64),
        (128, 4, SwizzleMode.B64, 32),
        (128, 8, SwizzleMode.B32, 16),
        (64, 2, SwizzleMode.B64, 32),
        # Four blocks of 16 columns are the narrowest, so four of eight CTAs add up nothing.
        (64, 8, SwizzleMode.B32, 16),
        (192, 3, SwizzleMode.B128, 64),
        (192, 2, SwizzleMode.B64, 96),
        (72, 2, SwizzleMode.B32, 48),
        (8, 2, SwizzleMode.B32, 16),
    ],
)
def test_blocks_are_as_wide_as_the_bands_allow(
    depth: int, size: int, swizzle: SwizzleMode, band: int
) -> None:
    plan = ReduceScatterPlan(size, 128, depth, DType.BF16)
    assert (plan.swizzle, plan.band_columns) == (swizzle, band)


def test_the_map_of_four_ctas_and_128_columns_by_hand() -> None:
    plan = ReduceScatterPlan(4, 128, 128, DType.BF16)
    assert plan.partial_offset(64) == 16 * 128 * 16
    assert plan.row_values_offset == 64 * 1024
    assert plan.output_offset == 65 * 1024
    assert plan.size == 65 * 1024 + 128 * 64
    # 32 columns of float32 and, for both groups, two numbers of 128 rows, from three CTAs.
    assert plan.remote_bytes == 3 * 128 * (32 * 4 + 2 * 8)
    assert plan.units(0) == range(0, 16, 8)
    assert plan.units(1) == range(16, 32, 8)


@pytest.mark.parametrize("size", [1, 9])
def test_sizes_that_are_no_cluster(size: int) -> None:
    with pytest.raises(ValueError, match=f"num_partitions={size}: a cluster has 2 to 8"):
        ReduceScatterPlan(size, 128, 128, DType.BF16)


@settings(deadline=None)
@given(
    dtype=st.sampled_from((DType.BF16, DType.FP16, DType.FP8_E4M3)),
    head_dim=st.integers(1, 12).map(lambda n: 16 * n),
    group=st.integers(1, 130),
    size=clusters,
    page_size=st.sampled_from((0, 16, 256)),
)
def test_the_stage_fits_into_the_memory_of_q_k_and_v(
    dtype: DType, head_dim: int, group: int, size: int, page_size: int
) -> None:
    variant = Variant(
        partition=Partition.CLUSTER, num_partitions=size, used_k=True, page_size=page_size
    )
    spec = KernelSpec.for_attention(dtype, head_dim, group=group, variant=variant)
    config, plan = spec.config, spec.config.reduce_scatter
    layout = AttentionSMemLayout(config)
    used = range(layout.q_byte_offset, layout.q_byte_offset + plan.size)
    dead = [r for r in layout.regions() if r.name in ("Q", "K", "V", "KV")]
    assert used.start == 0
    assert used.stop <= max(region.end for region in dead) == layout.correction_byte_offset
    # The padding that is packed lies within the accumulator.
    assert plan.staged_columns <= config.padded_ov_depth
    assert (plan.rows, plan.depth) == (config.BM, config.ov_depth)
    assert spec.output_elems == plan.block_columns
    assert spec.cluster_size == config.cluster_size() == size


def test_a_stage_that_does_not_fit_is_refused() -> None:
    config = KernelSpec.for_attention(DType.BF16, 128, variant=in_cluster(2)).config

    class Small(FA4Config):
        num_kv_stages = 1
        use_fused_kv = True

    with pytest.raises(ValueError, match="splitk_partitions=2: partial results of 82944 bytes"):
        AttentionSMemLayout(Small(**vars_of(config)))


def vars_of(config: FA4Config) -> dict[str, Any]:
    return {name: getattr(config, name) for name in FA4Config.__dataclass_fields__}


def test_rope_columns_take_no_part() -> None:
    spec = KernelSpec.for_attention(DType.BF16, 192, head_dim_v=128, variant=in_cluster(4))
    assert spec.config.reduce_scatter.depth == 128
