from __future__ import annotations

import pytest
from hypothesis import given, settings

from fa4_cute.plan.compute.mma_plans import (
    k_operand,
    pv_plan,
    q_operand,
    qk_plan,
    query_stage_bytes,
    rope_plan,
    v_operand,
)
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode, ceil_div
from fa4_cute.plan.memory.chunks import rope_chunks, value_chunks
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.plan.memory.tmem import AttentionTmem
from fa4_cute.plan.spec.issue_order import IssueOrder
from fa4_cute.plan.spec.limits import supported
from tests.plan.strategies import configs


@pytest.mark.slow
@settings(deadline=None)
@given(configs())
def test_qk_multiplies_every_column_once(config: FA4Config) -> None:
    plan, rope = qk_plan(config), rope_plan(config)
    blocks = [block for stage in range(plan.num_stages) for block in plan.k_blocks(stage)]
    assert blocks == list(range(plan.num_k_mmas))
    assert all(plan.k_blocks(stage) for stage in range(plan.num_stages))
    assert (plan.m, plan.n) == (config.MMA_M, config.BN)
    columns = plan.num_k_mmas * config.MMA_K
    if rope is None:
        assert 0 <= columns - config.qk_depth < config.MMA_K
        return
    # Rope columns begin where the others end, which fill their chunks.
    assert columns == config.nope_depth()
    rest = rope.num_k_mmas * rope.dtype.mma_k - (config.qk_depth - columns)
    assert 0 <= rest < rope.dtype.mma_k
    assert (rope.m, rope.n, rope.num_stages) == (plan.m, plan.n, 1)


@settings(deadline=None)
@given(configs())
def test_depth_parts_begin_where_their_tma_tile_begins(config: FA4Config) -> None:
    plan = qk_plan(config)
    for stage in range(plan.num_stages):
        first = plan.k_blocks(stage)[0]
        part = config.nope_depth() // config.num_qk_stages * config.qkv_dtype_size
        assert plan.b_offset(first) == stage * config.k_rows_per_cta() * part
        assert plan.a_offset(first) == stage * 128 * part


@settings(deadline=None)
@given(configs())
def test_operands_are_as_large_as_their_slots(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    assert v_operand(config).bytes == layout.v_stage_bytes
    tiles, rope = config.BM // 128, rope_plan(config)
    assert q_operand(config).bytes * tiles == layout.q_nope_bytes
    assert query_stage_bytes(config) * config.num_qk_stages * tiles == layout.q_bytes
    k_bytes = k_operand(config).bytes
    if rope is not None:
        assert rope.a is not None
        assert rope.a.bytes * tiles == layout.q_rope_bytes
        k_bytes += 0 if config.use_fused_kv else rope.b.bytes
    assert k_bytes == layout.k_stage_bytes


def mla_configs() -> list[FA4Config]:
    """Every supported configuration with rope columns over a grid of depths and types."""
    all_of = (
        FA4Config.for_attention(
            dtype, ov + more, ov_depth=ov, rope_dtype=rope, num_qo=num_qo, pair_cta=pair
        )
        for dtype in (DType.BF16, DType.FP8_E4M3)
        for rope in (DType.BF16, DType.FP16, DType.FP8_E4M3)
        for ov in (64, 72, 96, 128, 192)
        for more in (16, 64, 80, 128)
        for num_qo, pair in ((1, False), (2, False), (2, True))
    )
    return [config for config in all_of if config.rope_depth() and supported(config)]


def test_rope_configs_cover_both_kinds_of_rings() -> None:
    rings = {(c.use_fused_kv, c.num_qo, c.qkv_dtype) for c in mla_configs()}
    assert {(True, 2, DType.BF16), (False, 1, DType.BF16), (False, 2, DType.FP8_E4M3)} <= rings
    assert any(c.use_fused_kv and c.num_qo == 1 for c in mla_configs())
    assert {c.use_fused_kv for c in mla_configs() if c.pair_cta} == {False, True}


@pytest.mark.parametrize("config", mla_configs(), ids=lambda c: c.describe().splitlines()[0])
def test_rope_columns_have_memory_of_their_own(config: FA4Config) -> None:
    layout, rope = AttentionSMemLayout(config), rope_plan(config)
    assert rope is not None
    assert rope.a is not None
    chunks = rope_chunks(config)
    assert chunks.columns == rope.b.padded_k == len(chunks.starts) * rope.b.span
    last_tile = config.BM // 128 - 1
    assert layout.q_rope_tile_byte_offset(0) == layout.q_rope_byte_offset
    assert layout.q_rope_tile_byte_offset(last_tile) + rope.a.bytes == layout.kv_byte_offset
    for tile in range(2 * config.num_kv_stages + 3):
        start = layout.k_rope_byte_offset(tile % config.num_kv_stages, tile)
        if config.use_fused_kv:
            first, size, num = layout.rope_byte_offset, layout.rope_bytes, layout.num_rope_bufs
            assert start == first + tile % num * (size // num)
        else:
            slot = layout.kv_byte_offset + tile % config.num_kv_stages * layout.k_stage_bytes
            assert start == slot + k_operand(config).bytes
        assert start % rope.b.swizzle.pattern_bytes == 0
    assert rope.b.mn * config.cta_group() == config.BN
    if config.use_fused_kv:
        # Each CTA of a pair holds half of the keys, and lays out no more.
        assert layout.rope_bytes == layout.num_rope_bufs * rope.b.bytes


@pytest.mark.parametrize(
    ("order", "lead"),
    [(IssueOrder(1), 0), (IssueOrder(2), 0), (IssueOrder(2, True, True, True), 1)],
)
@pytest.mark.parametrize("num_slots", [3, 5, 7, 9])
@pytest.mark.parametrize("works", [(30,), (1, 1, 1, 1, 1, 1, 1), (2, 5, 1, 7), (4, 3, 0, 2, 8)])
def test_a_free_slot_of_k_comes_with_a_free_rope_buffer(
    order: IssueOrder, lead: int, num_slots: int, works: tuple[int, ...]
) -> None:
    """A fused ring: whatever frees the slot was issued after the buffer's last MMAs.

    ``works`` are the key tiles of the query tiles that a persistent CTA takes in turn.
    """
    num_buffers = ceil_div(num_slots, 2)
    operands = {"S": "K", "O": "V"}
    slots: list[tuple[str, int]] = []
    freed: list[tuple[str, int]] = []
    before = 0
    for num_tiles in works:
        slots += [(operand, before + tile) for operand, tile in order.loads(num_tiles, lead)]
        issues = [i for i in order.issues(num_tiles, lead=lead) if i.releases]
        freed += [(operands[i.product], before + i.key_tile) for i in issues]
        before += num_tiles + lead * bool(num_tiles)
        freed += [("V", before - 1)] if num_tiles else []
    for position, (operand, tile) in enumerate(slots):
        last, user = position - num_slots, tile - num_buffers
        if operand == "K" and user >= 0:
            assert last >= 0
            assert freed.index(("K", user)) <= freed.index(slots[last])


@pytest.mark.slow
@settings(deadline=None)
@given(configs())
def test_p_reads_the_columns_that_p_occupies(config: FA4Config) -> None:
    plan = pv_plan(config)
    end = plan.a_offset(plan.num_k_mmas - 1) + plan.a_columns_per_mma
    assert end == AttentionTmem.of(config).borrow_s_as_p(0).size
    last = plan.b_offset(plan.num_k_mmas - 1)
    assert last + config.MMA_K * config.value_swizzle.bytes == plan.b.lbo
    assert (plan.m, plan.n) == (config.MMA_M, config.padded_ov_depth)


@pytest.mark.parametrize(
    ("pair", "qk", "pv"), [(True, 0x10200490, 0x10210490), (False, 0x08200490, 0x08210490)]
)
def test_instruction_descriptors_of_d128(pair: bool, qk: int, pv: int) -> None:
    config = FA4Config(8, 1, 128, 128, pair_cta=pair)
    assert (qk_plan(config).idesc, pv_plan(config).idesc) == (qk, pv)
    assert qk_plan(config).kind == "f16"


@pytest.mark.parametrize(
    ("dtype", "ov_depth", "swizzle"),
    [
        (DType.BF16, 128, SwizzleMode.B128),
        (DType.BF16, 64, SwizzleMode.B64),
        (DType.FP8_E4M3, 128, SwizzleMode.B64),
        (DType.FP8_E4M3, 64, SwizzleMode.B32),
    ],
)
def test_values_of_a_pair_are_whole_chunks(
    dtype: DType, ov_depth: int, swizzle: SwizzleMode
) -> None:
    """Half of 64 columns is half a chunk of K, so V has a narrower one."""
    config = FA4Config.for_attention(dtype, ov_depth + 64, ov_depth=ov_depth, pair_cta=True)
    operand = v_operand(config)
    assert (operand.swizzle, operand.mn) == (swizzle, ov_depth // 2)
    assert operand.mn % operand.span == 0
    assert value_chunks(config).columns == operand.mn
    assert value_chunks(config).row_bytes == swizzle.bytes
    assert k_operand(config).swizzle is dtype.default_swizzle
    assert pv_plan(config).n == ov_depth


def test_fp8_uses_its_own_kind() -> None:
    plan = qk_plan(FA4Config.for_attention(DType.FP8_E4M3, 128))
    assert (plan.kind, plan.num_k_mmas) == ("f8f6f4", 4)
