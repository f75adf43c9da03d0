from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.plan.barriers.sm90_mbars import TRANSPOSING_WARPS
from fa4_cute.plan.compute.sm90_mma import column_blocks, pv_plan, qk_plan
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.config.sm90_tiles import MAX_DEPTH
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import (
    SMEM_CAPACITY,
    SMEM_PER_SM,
    SMEM_RESERVED_PER_CTA,
    SwizzleMode,
)
from fa4_cute.plan.memory.chunks import value_chunks
from fa4_cute.plan.memory.rings import Ring
from fa4_cute.plan.memory.sm90_smem import SM90SMemLayout
from fa4_cute.plan.spec.schedule import SM90_FEW_ROWS_SCHEDULES, SM90_SCHEDULES
from fa4_cute.plan.spec.sm90_spec import sm90_schedule
from fa4_cute.plan.spec.variant import PAGE_SIZES, Variant

FOR_ADDRESSES = 24
"""Registers that a consumer needs besides its tiles, at the least."""


def config(depth: int, **more: int) -> SM90Config:
    return SM90Config.for_attention(DType.BF16, depth, **more)


@pytest.mark.parametrize("depth", range(8, MAX_DEPTH + 1, 8))
def test_tiles_fit_registers_and_memory(depth: int) -> None:
    found = config(depth)
    scores, output = qk_plan(found), pv_plan(found)
    held = scores.num_registers + scores.num_registers // 2 + output.num_registers
    budget = SM90_SCHEDULES[found.num_consumers]["consumer"].registers
    assert held + FOR_ADDRESSES <= budget
    assert 2 <= found.num_kv_stages <= 4
    assert found.smem_used <= SMEM_CAPACITY
    assert output.n == depth
    assert scores.k - depth in range(16)


@pytest.mark.parametrize(
    ("depth", "consumers", "keys", "stages"),
    [(64, 3, 128, 4), (72, 3, 112, 3), (96, 3, 112, 3), (104, 2, 128, 3), (128, 2, 128, 3),
     (192, 2, 112, 2), (256, 2, 80, 2)],
)
def test_tiles_are_those_of_the_table(depth: int, consumers: int, keys: int, stages: int) -> None:
    found = config(depth)
    assert (found.num_consumers, found.BN, found.num_kv_stages) == (consumers, keys, stages)
    assert found.tile.consumers == found.BM / 64 == consumers
    assert f"tile {consumers} x 64 x {keys}" in found.describe()


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("depth", [64, 192, 256])
def test_pages_divide_tiles_or_tiles_divide_pages(depth: int, page_size: int) -> None:
    keys = config(depth, page_size=page_size).BN
    assert keys % page_size == 0 or page_size % keys == 0
    assert keys % 16 == 0


@pytest.mark.parametrize(("group", "fused"), [(1, False), (2, True), (3, False), (64, True),
                                              (128, False)])  # fmt: skip
def test_groups_that_divide_a_consumer_are_packed(group: int, fused: bool) -> None:
    found = config(128, group=group)
    assert found.fuse_gqa is fused
    assert found.BM_eff() == (128 // group if fused else 128)


def test_caps_narrow_a_tile() -> None:
    found = config(64, bn_cap=32, most_consumers=2)
    assert (found.BN, found.num_consumers) == (32, 2)


@pytest.mark.parametrize("depth", [0, 264])
def test_depths_that_do_not_exist(depth: int) -> None:
    with pytest.raises(ValueError, match=f"depth={depth}"):
        config(depth)


@pytest.mark.parametrize("depth", [8, 72, 128, 200, 256])
def test_swizzled_tiles_start_on_their_pattern(depth: int) -> None:
    found = config(depth)
    layout, pattern = SM90SMemLayout(found), found.swizzle_mode.pattern_bytes
    starts = [layout.q_tile_byte_offset(c) for c in range(found.num_consumers)]
    chunks = range(0, found.padded_depth, 64)
    starts += [layout.o_chunk_byte_offset(c, i) for c in (0, 1) for i in range(len(chunks))]
    for ring in (Ring.of_sm90_keys(found), Ring.of_sm90_values(found)):
        starts += [ring.byte_offset + i * ring.slot_bytes for i in range(ring.num_slots)]
    assert not [start for start in starts if start % pattern]
    assert layout.table.end == found.smem_used
    assert layout.o_chunk_byte_offset(1, 0) == layout.q_tile_byte_offset(1)


@pytest.mark.parametrize(
    ("depth", "apart", "stages"),
    [(64, True, 4), (128, False, 3), (192, False, 2), (256, False, 2)],
)
def test_a_persistent_cta_has_memory_for_o_where_it_fits(
    depth: int, apart: bool, stages: int
) -> None:
    found = replace(config(depth), persistent=True)
    assert (found.o_apart, found.num_kv_stages) == (apart, stages)
    assert stages == config(depth).num_kv_stages
    assert found.o_by_rows is not apart
    assert not config(depth).o_by_rows
    assert found.smem_used <= SMEM_CAPACITY
    layout = SM90SMemLayout(found)
    first = layout.q_tile_byte_offset(1)
    assert (layout.o_chunk_byte_offset(1) == first) is not apart
    assert layout.o_chunk_byte_offset(0) % 1024 == 0


@pytest.mark.parametrize("depth", range(8, MAX_DEPTH + 1, 8))
def test_few_rows_leave_room_for_other_ctas(depth: int) -> None:
    found = config(depth).with_few_rows()
    assert (found.num_consumers, found.BM) == (1, 64)
    assert found.ctas_per_sm == (2 if depth <= 192 else 1)
    assert found.ctas_per_sm * (found.smem_used + SMEM_RESERVED_PER_CTA) <= SMEM_PER_SM
    assert 3 <= found.num_kv_stages <= 4
    schedule = SM90_FEW_ROWS_SCHEDULES[found.ctas_per_sm]
    scores, output = qk_plan(found), pv_plan(found)
    held = scores.num_registers + scores.num_registers // 2 + output.num_registers
    assert held + FOR_ADDRESSES <= schedule["consumer"].registers
    # ptxas wants the registers of a product among those that a thread starts with.
    assert output.num_registers + FOR_ADDRESSES <= schedule.launch_registers
    assert f"{found.ctas_per_sm} CTAs per SM" in found.describe()


@pytest.mark.parametrize(
    ("group", "positions", "rows"),
    [(1, 64, 64), (8, 8, 64), (3, 21, 63), (7, 9, 63), (12, 5, 60), (64, 1, 64), (128, 64, 64)],
)
def test_few_rows_of_a_group_are_positions(group: int, positions: int, rows: int) -> None:
    found = config(128, group=group).with_few_rows()
    assert (found.BM_eff(), found.q_rows) == (positions, rows)
    assert found.fuse_gqa is (1 < group <= 64)
    assert found.q_load_bytes == rows * 256 <= found.q_tile_bytes
    table = config(128, group=group)
    assert table.q_load_bytes == table.q_tile_bytes


@pytest.mark.parametrize(
    ("depth", "ov_depth", "tile", "stages"),
    [(192, 128, (2, 128), 2), (192, 136, (2, 112), 2), (256, 64, (2, 80), 3), (64, 8, (3, 128), 4)],
)
def test_a_narrower_v_has_slots_and_o_of_its_own(
    depth: int, ov_depth: int, tile: tuple[int, int], stages: int
) -> None:
    found = config(depth, ov_depth=ov_depth)
    assert (found.num_consumers, found.BN) == tile
    assert found.num_kv_stages == stages
    assert found.smem_used <= SMEM_CAPACITY
    assert pv_plan(found).n == ov_depth
    assert qk_plan(found).k == depth
    keys, values = Ring.of_sm90_keys(found), Ring.of_sm90_values(found)
    assert keys.byte_offset + stages * keys.slot_bytes == values.byte_offset
    assert keys.slot_bytes == found.BN * depth * 2
    assert values.slot_bytes == found.BN * found.padded_ov_depth * 2
    assert f"head dim {depth}/{ov_depth} " in found.describe()
    apart = replace(found, persistent=True)
    assert not apart.o_apart or apart.o_bytes == found.num_consumers * found.o_tile_bytes


def test_a_wider_v_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"ov_depth=128 exceeds depth=64.*ov_depth=64"):
        config(64, ov_depth=128)


def fp8(depth: int, **more: int) -> SM90Config:
    return SM90Config.for_attention(DType.FP8_E4M3, depth, **more)


FP8_DEPTHS = [*((d, d) for d in range(16, 257, 16)), (192, 128), (256, 128), (160, 16), (256, 144),
              (208, 192), (224, 200)]  # fmt: skip


def registers_held(found: SM90Config) -> int:
    """Registers of O, P, and P V of a block of columns with S beside it, or after it."""
    scores, blocks = qk_plan(found).num_registers, column_blocks(found)
    product = max(block.plan.num_registers for block in blocks)
    both = scores + product if found.tile.scores_ahead else max(scores, product)
    return pv_plan(found).num_registers + scores // 4 + both


@pytest.mark.parametrize("scales", [DType.INVALID, DType.FP32])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(("depth", "ov_depth"), FP8_DEPTHS)
def test_fp8_tiles_fit_registers_and_memory(
    depth: int, ov_depth: int, persistent: bool, scales: DType
) -> None:
    # Scales per token narrow the tile beside wide sums (`register_tuning`).
    cap = 96 if scales is DType.FP32 and ov_depth > 64 else 0
    found = fp8(depth, ov_depth=ov_depth, bn_cap=cap)
    found = replace(found, persistent=persistent, scale_dtype=scales)
    budget = sm90_schedule(found, Variant())["consumer"].registers
    assert registers_held(found) + FOR_ADDRESSES <= budget
    assert found.num_raw_stages == found.num_kv_stages - 1 >= 1
    assert found.smem_used <= SMEM_CAPACITY
    layout = SM90SMemLayout(found)
    assert layout.table.end == found.smem_used
    pattern = found.swizzle_mode.pattern_bytes
    starts = [layout.q_tile_byte_offset(1), layout.raw_byte_offset, layout.v_byte_offset]
    for ring in (Ring.of_sm90_loads(found), Ring.of_sm90_values(found)):
        starts += [ring.byte_offset + i * ring.slot_bytes for i in range(ring.num_slots)]
    assert not [start for start in starts if start % pattern]
    assert layout.o_chunk_byte_offset(0) % 1024 == 0
    assert layout.table["k_scale"].size == found.num_kv_stages * found.BN * scales.size
    assert layout.table["q_scale"].size == 2 * 128 * found.num_consumers * scales.size
    # A bulk copy writes aligned memory.
    assert layout.k_scale_byte_offset % 16 == layout.k_scale_stride_bytes % 16 == 0
    # Each warp that transposes cleans a chunk.
    assert len(value_chunks(found).starts) <= TRANSPOSING_WARPS


@pytest.mark.parametrize(
    ("depths", "keys"),
    [((64, 64), 192), ((16, 16), 192), ((80, 80), 128), ((96, 48), 128), ((112, 112), 128),
     ((128, 128), 128), ((192, 128), 128), ((144, 128), 128)],
)  # fmt: skip
def test_fp8_tiles_of_many_keys_have_three_consumers(depths: tuple[int, int], keys: int) -> None:
    found = replace(fp8(depths[0], ov_depth=depths[1]), long_keys=True)
    assert (found.num_consumers, found.BN, found.owes_factors) == (3, keys, False)
    assert registers_held(found) + 8 <= sm90_schedule(found, Variant())["consumer"].registers
    assert found.num_kv_stages >= 2
    assert found.smem_used <= SMEM_CAPACITY
    assert found.holds_exponents == (depths[1] <= 96)
    assert fp8(256).holds_exponents
    assert not fp8(256).owes_factors


@pytest.mark.parametrize("depths", [(192, 192), (256, 128), (144, 144)])
def test_wider_fp8_operands_have_no_tile_of_many_keys(depths: tuple[int, int]) -> None:
    assert fp8(depths[0], ov_depth=depths[1]).long_tile is None
    assert config(96).long_tile is None


def test_persistent_ctas_of_narrow_fp8_operands_have_three_consumers_too() -> None:
    alone, in_turn = fp8(64), replace(fp8(64), persistent=True)
    assert (alone.num_consumers, alone.BN, alone.owes_factors) == (3, 96, True)
    assert (in_turn.num_consumers, in_turn.BN, in_turn.owes_factors) == (3, 128, False)
    assert replace(in_turn, most_consumers=2).owes_factors


@pytest.mark.parametrize(
    ("depth", "swizzle", "padded"),
    [(16, SwizzleMode.B64, 64), (80, SwizzleMode.B128, 128), (192, SwizzleMode.B64, 192),
     (256, SwizzleMode.B128, 256)],
)  # fmt: skip
def test_fp8_chunks_are_as_wide_as_padding_allows(
    depth: int, swizzle: SwizzleMode, padded: int
) -> None:
    found = fp8(depth, ov_depth=16)
    assert (found.swizzle_mode, found.padded_depth) == (swizzle, padded)


@pytest.mark.parametrize(
    ("keys", "swizzle"),
    [(128, SwizzleMode.B128), (192, SwizzleMode.B64), (96, SwizzleMode.B32)],
)
def test_rows_of_transposed_values_are_whole_spans(keys: int, swizzle: SwizzleMode) -> None:
    found = replace(fp8(64), keys=keys)
    assert found.transposed_swizzle is swizzle
    assert not pv_plan(found).b.mn_major
    assert pv_plan(found).b_steps[:2] == (0, 2 if keys != 96 else 64 * 32 // 16)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"keys": 80}, "BN=80.*keys=96"), ({"ov_depth": 144}, "ov_depth=144 exceeds depth=64")],
)
def test_fp8_tiles_that_do_not_exist(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(fp8(64), **changes)


@pytest.mark.parametrize("depth", [192, 208, 256])
def test_fp8_tiles_of_few_rows_fit_registers_and_memory(depth: int) -> None:
    found = fp8(depth).with_few_rows()
    schedule = sm90_schedule(found, Variant())
    assert registers_held(found) + FOR_ADDRESSES <= schedule["consumer"].registers
    assert found.tile.scores_ahead
    assert found.ctas_per_sm == (2 if depth <= 192 else 1)
    assert found.num_kv_stages >= 3


@pytest.mark.parametrize(
    ("depth", "columns", "ahead", "cap"),
    [(128, 128, True, 0), (144, 48, True, 0), (192, 64, True, 0), (208, 104, False, 0),
     (256, 128, False, 0), (256, 64, False, 64), (192, 64, False, 64), (208, 32, False, 32)],
)  # fmt: skip
def test_columns_of_v_are_multiplied_in_blocks_of_a_width(
    depth: int, columns: int, ahead: bool, cap: int
) -> None:
    found = fp8(depth, column_cap=cap)
    assert (column_blocks(found)[0].plan.n, found.tile.scores_ahead) == (columns, ahead)
    assert found.tile.columns == (cap or (0 if depth == 128 else 64 if depth <= 192 else 128))


def test_other_tiles_can_be_asked_for() -> None:
    wide = replace(config(128), keys=176)
    assert (wide.BN, wide.num_kv_stages) == (176, 2)
    long = replace(config(128), long_keys=True)
    assert (long.num_consumers, long.BN, long.num_kv_stages) == (3, 80, 4)
    assert not replace(wide, persistent=True).o_apart
    assert replace(wide, bn_cap=64).BN == 64
