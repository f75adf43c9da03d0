from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SMEM_CAPACITY, SwizzleMode, ceil_div
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from tests.plan.strategies import configs

BF16 = DType.BF16
TMA_BOX_ALIGN = 128
"""Alignment of a TMA box in shared memory (PTX ISA, "cp.async.bulk.tensor")."""
MLA: dict[str, Any] = {"is_mla": True, "rope_dtype": BF16}
FP8_MLA: dict[str, Any] = MLA | {"qkv_dtype": DType.FP8_E4M3, "swizzle_mode": SwizzleMode.B64}
FP8_ROPE: dict[str, Any] = {"rope_dtype": DType.FP8_E4M3}

# Computed from docs/sources.md 1 and 2: Q rope, K, V, rope, correction, q_scale, k_scale,
# mbars, tmem word, end.
REGION_MAP = {
    "d64 2Q": (
        FA4Config(8, 1, 64, 64),
        (None, 32768, 131072, None, 229376, None, None, 230400, 230632, 230636),
    ),
    "d64 1Q": (
        FA4Config(8, 1, 64, 64, num_qo=1),
        (None, 16384, 114688, None, 212992, None, None, 214016, 214240, 214244),
    ),
    "d128 2Q": (
        FA4Config(8, 1, 128, 128),
        (None, 65536, 65536, None, 229376, None, None, 230400, 230584, 230588),
    ),
    "d128 1Q": (
        FA4Config(8, 1, 128, 128, num_qo=1),
        (None, 32768, 131072, None, 229376, None, None, 230400, 230640, 230644),
    ),
    "d128 pair": (
        FA4Config(8, 1, 128, 128, pair_cta=True),
        (None, 65536, 147456, None, 229376, None, None, 230400, 230752, 230756),
    ),
    "MLA bf16": (
        FA4Config(8, 1, 192, 128, **MLA),
        (65536, 98304, 98304, 196608, 229376, None, None, 230400, 230552, 230556),
    ),
    # Ours: the layout of a pair in the source does not hold what its budget counts.
    "MLA fp8 pair scaled": (
        FA4Config(8, 1, 192, 128, pair_cta=True, scale_dtype=DType.FP32, **(FP8_MLA | FP8_ROPE)),
        (32768, 49152, 49152, 188416, 225280, 226304, 227328, 228352, 228760, 228764),
    ),
    "MLA fp8 scaled": (
        FA4Config(8, 1, 192, 128, scale_dtype=DType.FP32, **FP8_MLA),
        (32768, 65536, 163840, None, 212992, 214016, 215040, 216576, 216776, 216780),
    ),
}


@pytest.mark.parametrize("name", REGION_MAP)
def test_region_map(name: str) -> None:
    config, expected = REGION_MAP[name]
    layout = AttentionSMemLayout(config)
    present = {region.name for region in layout.regions()}
    computed = (
        layout.q_rope_byte_offset if "Q rope" in present else None,
        layout.kv_byte_offset,
        layout.v_byte_offset,
        layout.rope_byte_offset if "rope" in present else None,
        layout.correction_byte_offset,
        layout.q_scale_byte_offset if "q_scale" in present else None,
        layout.k_scale_byte_offset if "k_scale" in present else None,
        layout.mbar_byte_offset,
        layout.tmem_addr_byte_offset,
        layout.smem_size(),
    )
    assert computed == expected
    assert layout.q_byte_offset == 0


def test_slot_bytes_of_the_scaled_mla_config() -> None:
    layout = AttentionSMemLayout(REGION_MAP["MLA fp8 scaled"][0])
    assert (layout.k_stage_bytes, layout.v_stage_bytes) == (32768, 16384)
    assert layout.k_scale_stride_bytes == 512
    assert layout.num_k_scale_bufs == 3


@settings(deadline=None)
@given(configs())
def test_regions_are_ordered_disjoint_and_inside(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    regions = layout.regions()
    assert regions[0].start == 0
    for low, high in pairwise(regions):
        assert low.end == high.start, (low, high)
    assert regions[-1].end == layout.smem_size() <= SMEM_CAPACITY


@settings(deadline=None)
@given(configs())
def test_operand_tiles_start_on_their_swizzle_pattern(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    pattern = max(config.swizzle_mode.pattern_bytes, TMA_BOX_ALIGN)
    values = max(config.value_swizzle.pattern_bytes, TMA_BOX_ALIGN)
    tiles = [
        layout.q_tile_byte_offset(tile, stage)
        for tile in range(config.num_qo)
        for stage in range(config.num_qk_stages)
        if not config.is_mla
    ]
    for slot in range(config.num_kv_stages):
        tiles.append(layout.kv_byte_offset + slot * layout.k_stage_bytes)
        assert (layout.v_byte_offset + slot * layout.v_stage_bytes) % values == 0
    assert all(tile % pattern == 0 for tile in tiles)
    assert layout.mbar_byte_offset % 8 == 0
    assert layout.correction_byte_offset % 16 == 0
    assert layout.tmem_addr_byte_offset % 4 == 0


@settings(deadline=None)
@given(configs())
def test_tiles_fill_their_regions(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    if not config.is_mla:
        rows = 128
        part = rows * config.BK0 * config.qkv_dtype_size
        tiles = config.BM // rows * config.num_qk_stages
        last = divmod(tiles - 1, config.num_qk_stages)
        assert layout.q_tile_byte_offset(*last) + part == layout.q_bytes
    k_bytes = config.k_rows_per_cta() * config.padded_ov_depth * config.qkv_dtype_size
    v_bytes = config.BN * config.v_cols_per_cta() * config.qkv_dtype_size
    assert layout.v_stage_bytes == v_bytes == k_bytes
    assert layout.correction_bytes == 256 * 4 * (2 if config.joins_in_smem else 1)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
@pytest.mark.parametrize("head_dim", [16, 64, 80, 128, 160, 192])
def test_where_groups_join_in_shared_memory_the_ring_keeps_its_slots(
    dtype: DType, head_dim: int
) -> None:
    staged = replace(FA4Config.for_attention(dtype, head_dim, num_qo=1), persistent=True)
    rows = replace(staged, writes_rows=True)
    assert (rows.use_fused_kv, rows.num_kv_stages) == (staged.use_fused_kv, staged.num_kv_stages)
    assert rows.smem_used == staged.smem_used + 1024
    maxima, sums = (AttentionSMemLayout(c).correction_byte_offset for c in (rows, staged))
    assert maxima == sums  # factors stay where they were, sums come after them


@pytest.mark.slow
@settings(deadline=None)
@given(configs().filter(lambda c: c.swizzle_mode is c.qkv_dtype.default_swizzle))
def test_o_is_staged_over_memory_that_is_free_by_then(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    chunks = ceil_div(config.padded_ov_depth * config.qkv_dtype.output.size, 128)
    spans = [
        (layout.o_chunk_byte_offset(chain), layout.o_chunk_byte_offset(chain, chunks))
        for chain in range(config.num_qo)
    ]
    assert all(start % 1024 == 0 for start, _ in spans)
    assert all(low[1] <= high[0] for low, high in pairwise(spans))
    # The first chain's MMAs are over when its O is staged, the other chain's last P V is not.
    assert config.num_qo == 1 or spans[0][1] <= layout.kv_byte_offset
    assert spans[-1][1] <= layout.correction_byte_offset


@given(configs())
@settings(deadline=None, max_examples=300)
def test_copies_of_rows_leave_their_sums_where_nothing_else_is(config: FA4Config) -> None:
    """In a persistent CTA apart; else behind what is staged of O, or exchanged in a cluster."""
    if config.row_copies == 1:
        return
    layout, size = AttentionSMemLayout(config), config.copies_plan.size
    start = layout.copies_byte_offset
    assert start % 16 == 0
    if config.persistent:
        assert layout.table["copies"].size == size
        return
    assert layout.table["copies"].size == 0
    staged = layout.o_tile_bytes
    if config.splitk_partitions > 1:
        staged = max(staged, config.reduce_scatter.size)
    assert layout.q_byte_offset + staged <= start
    assert start + size == layout.correction_byte_offset


def test_o_of_16_bit_operands_is_staged_over_its_own_q_tile() -> None:
    for depth in (64, 128, 192):
        layout = AttentionSMemLayout(FA4Config(8, 1, depth, depth))
        for tile in (0, 1):
            assert layout.o_chunk_byte_offset(tile) == layout.q_tile_byte_offset(tile)


def test_element_offsets_count_elements_of_the_region() -> None:
    layout = AttentionSMemLayout(FA4Config(8, 1, 64, 64))
    assert layout.kv_offset * 2 == layout.kv_byte_offset
    assert layout.correction_offset * 4 == layout.correction_byte_offset
    assert layout.mbar_offset * 8 == layout.mbar_byte_offset


def test_rope_columns_need_a_type() -> None:
    with pytest.raises(ValueError, match="rope_dtype='invalid' with rope_depth=64"):
        AttentionSMemLayout(FA4Config(8, 1, 192, 128))


def test_render_draws_every_region() -> None:
    text = AttentionSMemLayout(FA4Config(8, 1, 128, 128)).render()
    assert [line.split("|")[-1].strip() for line in text.splitlines()] == [
        "Q",
        "KV",
        "correction",
        "mbars",
        "tmem address",
    ]
    assert "65536 ..  229376" in text
