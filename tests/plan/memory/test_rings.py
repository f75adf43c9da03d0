from __future__ import annotations

import pytest
from hypothesis import given, settings

from fa4_cute.plan.barriers.pipeline_plan import PipelineState
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.chunks import depth_chunks, value_chunks
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from fa4_cute.plan.memory.rings import Ring, TMAConsumerPlan, slots_since_scores
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.plan.spec.issue_order import IssueOrder
from tests.plan.strategies import configs, depth512_configs


def consumers(config: FA4Config) -> tuple[TMAConsumerPlan, TMAConsumerPlan]:
    return TMAConsumerPlan(config, True), TMAConsumerPlan(config, False)


def starts(ring: Ring) -> list[int]:
    """Byte offsets of all stages of all slots."""
    state = PipelineState.producer(ring.num_slots)
    found = []
    for _ in range(ring.num_slots):
        found += [ring.get_smem(state, stage) for stage in range(ring.num_qk_stages)]
        state = state.step()
    assert state.index == 0
    return found


@settings(deadline=None)
@given(configs())
def test_slots_lie_where_the_layout_puts_them(config: FA4Config) -> None:
    layout = AttentionSMemLayout(config)
    keys, values = Ring.of_keys(config), Ring.of_values(config)
    first, slot = layout.kv_byte_offset, layout.k_stage_bytes
    assert starts(keys)[:: keys.num_qk_stages] == [
        first + i * slot for i in range(config.num_kv_stages)
    ]
    first, slot = layout.v_byte_offset, layout.v_stage_bytes
    assert starts(values) == [first + i * slot for i in range(config.num_kv_stages)]
    mbars = config.misc_mbars
    assert (keys.pipeline.mbar_base, values.pipeline.mbar_base) == (mbars.K_offset, mbars.V_offset)
    assert (keys.num_qk_stages, values.num_qk_stages) == (config.num_qk_stages, 1)


@pytest.mark.slow
@settings(deadline=None)
@given(configs())
def test_both_ends_agree_on_every_slot(config: FA4Config) -> None:
    for ring, mma in zip(
        (Ring.of_keys(config), Ring.of_values(config)), consumers(config), strict=True
    ):
        write = PipelineState.producer(ring.num_slots)
        read = PipelineState.consumer(ring.num_slots)
        for _ in range(2 * config.num_kv_stages):
            assert ring.get_smem(write) == mma.get(read)
            full = ring.pipeline.producer_mbar(write.index, mma.num_qk_stages_effective - 1)
            assert mma.pipeline.consumer_wait(read).mbar == full
            write, read = write.step(), read.step()


@settings(deadline=None)
@given(configs())
def test_stages_tile_a_slot(config: FA4Config) -> None:
    keys, values = Ring.of_keys(config), Ring.of_values(config)
    k, v = consumers(config)
    rope = config.k_rows_per_cta() * config.rope_depth() * config.rope_dtype_size
    assert keys.tile_bytes == keys.stage_bytes + rope
    assert keys.num_qk_stages * keys.stage_bytes + rope == k.full_kv_bytes
    assert values.tile_bytes == values.stage_bytes == values.slot_bytes == v.full_kv_bytes
    if not config.is_mla:  # its rope columns come by a load of their own
        assert k.full_kv_bytes == keys.slot_bytes
        assert k.staged_k_bytes == keys.tile_bytes


def test_the_stages_of_k_follow_one_another_in_each_slot() -> None:
    ring = Ring.of_keys(FA4Config(8, 1, 128, 128, num_qo=1))
    assert (ring.num_slots, ring.num_qk_stages) == (3, 2)
    assert starts(ring) == [ring.byte_offset + i * 128 * 64 * 2 for i in range(6)]


@pytest.mark.slow
@settings(deadline=None)
@given(configs())
def test_boxes_bring_the_bytes_that_are_expected(config: FA4Config) -> None:
    for stage in range(config.num_qk_stages):
        chunks = depth_chunks(config, stage)
        size = len(chunks.starts) * chunks.row_bytes * config.k_rows_per_cta()
        assert size == Ring.of_keys(config).stage_bytes
    chunks = value_chunks(config)
    size = len(chunks.starts) * chunks.row_bytes * config.BN
    assert size == Ring.of_values(config).tile_bytes


@settings(deadline=None)
@given(depth512_configs())
def test_the_depth512_ring_holds_a_stage_of_k_or_v_in_each_slot(config: Depth512Config) -> None:
    ring, layout = Ring.of_depth512(config), Depth512SMemLayout(config)
    slots = range(config.num_kv_stages)
    assert starts(ring) == [layout.kv_slot_byte_offset(slot) for slot in slots]
    assert ring.pipeline == config.misc_mbars.kv_ring
    columns = [c for i in range(config.num_qk_stages) for c in depth_chunks(config, i).starts]
    assert columns == [*range(0, config.num_qk_stages * config.BK0, config.swizzle_elems)]
    keys = depth_chunks(config, 0)
    size = len(keys.starts) * keys.row_bytes * config.k_rows_per_cta()
    values = value_chunks(config)
    assert size == len(values.starts) * values.row_bytes * config.BK1 == ring.tile_bytes


def test_members_of_the_seed_for_d128_1q() -> None:
    k, v = consumers(FA4Config(8, 1, 128, 128, num_qo=1))
    assert (k.BK, k.BMN, k.is_k_major, k.num_qk_stages_effective) == (64, 128, True, 2)
    assert (v.BK, v.BMN, v.is_k_major, v.num_qk_stages_effective) == (128, 128, False, 1)
    assert (k.full_kv_bytes, v.full_kv_bytes, k.staged_k_bytes) == (32768, 32768, 16384)


def test_the_slot_of_a_fused_ring_has_no_rope_columns() -> None:
    config = FA4Config(8, 1, 192, 128, is_mla=True, rope_dtype=DType.BF16)
    assert config.use_fused_kv
    k, _ = consumers(config)
    assert k.full_kv_bytes == 128 * (128 + 64) * 2
    assert k.ring.slot_bytes == AttentionSMemLayout(config).k_stage_bytes == 32768


def test_a_k_ring_has_no_v_methods() -> None:
    k, _ = consumers(FA4Config(8, 1, 64, 64))
    k.require_operand(k=True)
    with pytest.raises(ValueError, match="this pipeline consumes K"):
        k.require_operand(k=False)


@pytest.mark.parametrize("num_tiles", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("head_dim", "crosses", "lead"),
    [(128, True, 0), (128, False, 0), (192, False, 0), (128, True, 1)],
)
def test_the_slot_that_the_next_q_waits_for_is_free_after_all_scores_and_before_the_last_output(
    num_tiles: int, head_dim: int, crosses: bool, lead: int
) -> None:
    """Also where nothing else is held: the last V, which is freed later, is not waited for."""
    config = FA4Config.for_attention(DType.BF16, head_dim)
    order = IssueOrder(config.num_qo, crosses, bool(lead), bool(lead))
    loads = list(order.loads(num_tiles, lead))
    if not config.use_fused_kv:
        loads = [load for load in loads if load[0] == "K"]
    product, tile = loads[-slots_since_scores(config, lead)]
    issues = list(order.issues(num_tiles, lead=lead))
    reader = ({"K": "S", "V": "O"}[product], tile)
    freed = max(i for i, x in enumerate(issues) if (x.product, x.key_tile) == reader)
    assert freed >= max(i for i, x in enumerate(issues) if x.product == "S")
    assert freed < max(i for i, x in enumerate(issues) if x.product == "O") - 1 or num_tiles == 1


@pytest.mark.parametrize("num_tiles", [1, 2, 3, 8])
@pytest.mark.parametrize(("head_dim", "fused"), [(64, True), (128, False), (192, True)])
def test_the_slot_that_the_next_q_waits_for_with_one_q_tile(
    num_tiles: int, head_dim: int, fused: bool
) -> None:
    """It is free after all scores, and before the last P V: whoever frees it does so before."""
    config = FA4Config.for_attention(DType.BF16, head_dim, num_qo=1)
    assert config.use_fused_kv == fused
    order = IssueOrder(1)
    loads = [load for load in order.loads(num_tiles) if fused or load[0] == "K"]
    product, tile = loads[-slots_since_scores(config)]
    issues = list(order.issues(num_tiles))
    reader = next(
        i for i, x in enumerate(issues)
        if (x.product, x.key_tile) == ({"K": "S", "V": "O"}[product], tile)
    )
    assert max(i for i, x in enumerate(issues) if x.product == "S") <= reader < len(issues) - 1
    assert issues[reader].releases
