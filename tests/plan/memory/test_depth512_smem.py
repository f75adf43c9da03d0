from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from fa4_cute.plan.compute.depth512_mma import pv_block_plan, qk_stage_plan
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SMEM_CAPACITY, SwizzleMode
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from fa4_cute.plan.spec.depth512_limits import supported
from testing.kernels import KERNELS
from tests.plan.operand_elements import element_offset
from tests.plan.strategies import depth512_configs

# Computed from docs/sources.md 10, of 256 without P: P, KV, correction, mbars, tmem word, total.
MAPS = {
    (256, "bf16"): (65536, 65536, 229376, 229888, 230112, 230116),
    (256, "fp8_e4m3"): (32768, 32768, 131072, 131584, 131840, 131844),
    (512, "bf16"): (65536, 98304, 229376, 229632, 229776, 229780),
    (512, "fp8_e4m3"): (32768, 49152, 229376, 229632, 229888, 229892),
}


@pytest.mark.parametrize(("depth", "dtype"), MAPS)
def test_memory_map(depth: int, dtype: str) -> None:
    layout = Depth512SMemLayout(Depth512Config.for_attention(DType(dtype), depth))
    computed = (
        layout.p_stage_byte_offset(),
        layout.kv_slot_byte_offset(),
        layout.correction_byte_offset,
        layout.mbar_byte_offset,
        layout.tmem_addr_byte_offset,
        layout.smem_size(),
    )
    assert computed == MAPS[depth, dtype]
    assert layout.q_byte_offset == 0


@pytest.mark.parametrize("name", ["depth512 d256 persistent everything", "depth512 d256 ragged"])
def test_where_registers_are_scarce_p_goes_through_shared_memory(name: str) -> None:
    spec: Any = KERNELS[name]
    config = spec.config
    scarce = "everything" in name
    assert config.p_in_tmem != scarce
    assert bool(config.p_bytes) == (pv_block_plan(config).a is not None) == scarce


@pytest.mark.parametrize(("depth", "slots"), [(256, (12, 10)), (512, (11, 9))])
def test_scales_per_token_cost_the_ring_the_slots_of_their_barriers(
    depth: int, slots: tuple[int, int]
) -> None:
    plain = Depth512Config.for_attention(DType.FP8_E4M3, depth)
    config = replace(plain, scale_dtype=DType.FP32)
    assert (plain.num_kv_stages, config.num_kv_stages) == slots
    assert supported(config)
    layout = Depth512SMemLayout(config)
    assert layout.q_scale_byte_offset == layout.correction_byte_offset + 4 * config.BM
    assert layout.k_scale_byte_offset == layout.q_scale_byte_offset + 4 * 128
    assert layout.k_scale_stride_bytes == 4 * config.BN
    assert layout.mbar_byte_offset == layout.k_scale_byte_offset + 2 * 4 * config.BN
    # Bulk copies and vector loads need multiples of 16.
    assert layout.k_scale_byte_offset % 16 == layout.k_scale_stride_bytes % 16 == 0
    names = [region.name for region in Depth512SMemLayout(plain).regions()]
    assert not {"q_scale", "k_scale"} & {*names}


@settings(deadline=None)
@given(depth512_configs())
def test_regions_are_ordered_disjoint_and_inside(config: Depth512Config) -> None:
    layout = Depth512SMemLayout(config)
    regions = layout.regions()
    assert regions[0].start == 0
    for low, high in pairwise(regions):
        assert low.end == high.start
    assert regions[-1].end == layout.smem_size() == config.smem_used <= SMEM_CAPACITY
    assert layout.render().count("\n") == len(regions) - 1


@settings(deadline=None)
@given(depth512_configs())
def test_tiles_start_on_their_swizzle_pattern_and_fill_their_regions(
    config: Depth512Config,
) -> None:
    layout = Depth512SMemLayout(config)
    pattern = config.swizzle_mode.pattern_bytes
    q = [layout.q_stage_byte_offset(stage) for stage in range(config.num_qk_stages)]
    stages = 0 if config.p_in_tmem else config.num_pv_stages
    p = [layout.p_stage_byte_offset(stage) for stage in range(stages)]
    kv = [layout.kv_slot_byte_offset(slot) for slot in range(config.num_kv_stages)]
    assert all(start % pattern == 0 for start in q + p + kv)
    assert q[-1] + layout.q_stage_bytes <= layout.p_byte_offset
    end = p[-1] + layout.p_stage_bytes if p else layout.p_byte_offset
    assert end == layout.kv_byte_offset
    assert kv[-1] + layout.kv_stage_bytes == layout.correction_byte_offset
    assert layout.mbar_byte_offset % 8 == 0
    assert layout.mbar_byte_offset_of(config.misc_mbars.size) == layout.tmem_addr_byte_offset


@settings(deadline=None)
@given(depth512_configs())
def test_chunks_are_where_the_mma_reads_them(config: Depth512Config) -> None:
    """P in chunks, and Q and O in chunks, agree with the element map of the MMA operands."""
    layout = Depth512SMemLayout(config)
    p, span = pv_block_plan(config).a, config.swizzle_elems
    assert (p is None) == config.p_in_tmem
    for key in range(0, config.BN if p else 0, span):
        assert p is not None
        stage, within = divmod(key, config.BK1)
        start = layout.p_stage_byte_offset(stage) + element_offset(p, 0, within)
        assert layout.p_chunk_byte_offset(key // span) == start
    for column in range(0, config.num_qk_stages * config.BK0, span):
        part, within = divmod(column, config.BK0)
        q = qk_stage_plan(config, part).a
        assert q is not None
        start = layout.q_stage_byte_offset(part) + element_offset(q, 0, within)
        if config.qkv_dtype_size == 2 and config.swizzle_mode is SwizzleMode.B128:
            assert layout.o_chunk_byte_offset(column // span) == start


@settings(deadline=None)
@given(depth512_configs())
def test_o_is_staged_over_memory_that_is_free_by_then(config: Depth512Config) -> None:
    layout = Depth512SMemLayout(config)
    chunks = config.padded_depth * config.qkv_dtype.output.size // 128
    assert layout.o_chunk_byte_offset(chunks) <= layout.correction_byte_offset
    if config.split_o:
        # The MMAs of the high half still read P and the ring when the low half is staged.
        assert layout.o_chunk_byte_offset(chunks // 2) <= layout.p_byte_offset
