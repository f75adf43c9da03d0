"""The device classes of shared memory add the base to the layout, traced here with integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.smem import Depth512AttentionSMem, SharedMemory, SM100AttentionSMem
from tests.plan.strategies import configs, depth512_configs

BASE: Any = 0x0100_0400
"""A shared address in another CTA of a cluster; an integer in the place of a register."""

SEED_CONSTANTS = """correction_byte_offset correction_bytes correction_offset k_scale_byte_offset
k_scale_bytes k_scale_stride_bytes k_stage_bytes k_total_bytes kv_byte_offset kv_bytes kv_offset
kv_stages_bytes mbar_byte_offset mbar_bytes mbar_offset MiscMBarsType num_k_scale_bufs
num_rope_bufs q_byte_offset q_bytes q_nope_bytes q_offset q_rope_byte_offset q_rope_bytes
q_scale_byte_offset q_scale_bytes rope_byte_offset rope_bytes rope_depth rope_dt_size
rope_stage_elems tmem_addr_byte_offset v_byte_offset v_stage_bytes smem_size"""
SEED_ACCESSORS = """misc_mbars q_smem q_rope_smem o_smem k_smem_base v_smem_base rope_smem_base
correction_smem q_scale_smem k_scale_smem tmem_addr_ptr"""
"""Members of ``SM100AttentionSMem``: numbers known while compiling, and addresses."""


def accessors(smem: type[SharedMemory]) -> set[str]:
    """Names of the public methods that return an address."""
    others = {"at", "with_base", "misc_mbars"}
    return {name for name in dir(smem) if not name.startswith("_")} - others - {"base", "layout"}


def test_the_class_and_its_layout_have_every_member_of_the_seed() -> None:
    constants, methods = SEED_CONSTANTS.split(), SEED_ACCESSORS.split()
    assert len(constants) + len(methods) == 46
    assert [name for name in constants if not hasattr(AttentionSMemLayout, name)] == []
    assert [name for name in methods if not hasattr(SM100AttentionSMem, name)] == []
    assert {*SM100AttentionSMem.__dataclass_fields__} == {"base", "layout"}


@settings(deadline=None)
@given(configs())
def test_every_accessor_is_the_base_and_an_offset_of_the_layout(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    smem: Any = SM100AttentionSMem(BASE, layout)
    tile, stage, slot = config.num_qo - 1, config.num_qk_stages - 1, config.num_kv_stages - 1
    found = {
        "q_smem": (smem.q_smem(), layout.q_byte_offset),
        "o_smem": (smem.o_smem(), layout.q_byte_offset),
        "copies_smem": (smem.copies_smem(), layout.copies_byte_offset),
        "reduce_scatter_smem": (smem.reduce_scatter_smem(), layout.q_byte_offset),
        "q_tile_smem": (smem.q_tile_smem(tile, stage), layout.q_tile_byte_offset(tile, stage)),
        "q_rope_smem": (smem.q_rope_smem(), layout.q_rope_byte_offset),
        "q_rope_tile_smem": (smem.q_rope_tile_smem(tile), layout.q_rope_tile_byte_offset(tile)),
        "o_chunk_smem": (smem.o_chunk_smem(tile, 1), layout.o_chunk_byte_offset(tile, 1)),
        "k_smem_base": (smem.k_smem_base(), layout.kv_byte_offset),
        "v_smem_base": (smem.v_smem_base(), layout.v_byte_offset),
        "rope_smem_base": (smem.rope_smem_base(), layout.rope_byte_offset),
        **tail(smem, layout),
    }
    if config.rope_depth():
        offset = layout.k_rope_byte_offset(slot, 5)
        found["k_rope_smem"] = (smem.k_rope_smem(slot, 5), offset)
    compare(smem, found, {"k_rope_smem"} - {*found})
    assert smem.at(48) == BASE + 48
    assert smem.with_base(0).k_smem_base() == layout.kv_byte_offset


@settings(deadline=None)
@given(depth512_configs())
def test_so_it_is_in_the_kernel_of_large_head_dims(config: Depth512Config) -> None:
    layout = Depth512SMemLayout(config)
    smem: Any = Depth512AttentionSMem(BASE, layout)
    slot, stage = config.num_kv_stages - 1, config.num_qk_stages - 1
    compare(
        smem,
        {
            "q_smem": (smem.q_smem(stage), layout.q_stage_byte_offset(stage)),
            "o_smem": (smem.o_smem(), layout.q_byte_offset),
            "o_chunk_smem": (smem.o_chunk_smem(3), layout.o_chunk_byte_offset(3)),
            "p_smem": (smem.p_smem(1), layout.p_stage_byte_offset(1)),
            "p_chunk_smem": (smem.p_chunk_smem(1), layout.p_chunk_byte_offset(1)),
            "kv_smem": (smem.kv_smem(slot), layout.kv_slot_byte_offset(slot)),
            "copies_smem": (smem.copies_smem(), layout.copies_byte_offset),
            **tail(smem, layout),
        },
        set(),
    )


def tail(smem: Any, layout: Any) -> dict[str, tuple[int, int]]:
    """What both kernels have."""
    return {
        "correction_smem": (smem.correction_smem(), layout.correction_byte_offset),
        "q_scale_smem": (smem.q_scale_smem(), layout.q_scale_byte_offset),
        "k_scale_smem": (smem.k_scale_smem(), layout.k_scale_byte_offset),
        "answer_smem": (smem.answer_smem(), layout.answer_byte_offset),
        "stretch_smem": (smem.stretch_smem(), layout.stretch_byte_offset),
        "mbar_base": (smem.mbar_base(), layout.mbar_byte_offset),
        "tmem_addr_ptr": (smem.tmem_addr_ptr(), layout.tmem_addr_byte_offset),
    }


def compare(smem: SharedMemory, found: dict[str, tuple[int, int]], without: set[str]) -> None:
    assert {*found} == accessors(type(smem)) - without
    for name, (address, offset) in found.items():
        assert address == BASE + offset, name


@pytest.mark.parametrize("scaled", [False, True])
def test_accessors_name_the_regions_of_the_drawn_map(scaled: bool) -> None:
    config = FA4Config.for_attention(DType.FP8_E4M3, 192, ov_depth=128)
    if scaled:
        config = replace(config, scale_dtype=DType.FP32)
    layout = AttentionSMemLayout(config)
    smem: Any = SM100AttentionSMem(0, layout)
    starts = {region.name: region.start for region in layout.regions()}
    named = {
        "Q": smem.q_smem(), "Q rope": smem.q_rope_smem(), "KV": smem.k_smem_base(),
        "K": smem.k_smem_base(), "V": smem.v_smem_base(), "rope": smem.rope_smem_base(),
        "correction": smem.correction_smem(), "q_scale": smem.q_scale_smem(),
        "k_scale": smem.k_scale_smem(), "mbars": smem.mbar_base(),
        "tmem address": smem.tmem_addr_ptr(),
    }  # fmt: skip
    assert starts == {name: named[name] for name in starts}
    assert ("k_scale" in starts) == scaled


def test_the_barriers_are_those_of_the_plan() -> None:
    config = FA4Config.for_attention(DType.BF16, 128)
    smem: Any = SM100AttentionSMem(BASE, AttentionSMemLayout(config))
    assert smem.misc_mbars().layout == config.misc_mbars
    assert smem.misc_mbars().block.address == smem.mbar_base()
    large = Depth512Config.for_attention(DType.BF16, 512)
    smem = Depth512AttentionSMem(BASE, Depth512SMemLayout(large))
    assert smem.misc_mbars().layout == large.misc_mbars
    assert smem.misc_mbars().block.address == smem.mbar_base()
