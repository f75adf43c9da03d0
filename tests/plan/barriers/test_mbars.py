"""Barrier counts against who really arrives, re-derived from the roles' thread counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given, settings

from fa4_cute.plan.barriers.barrier_spec import render_barriers
from fa4_cute.plan.barriers.mbars import FA4MiscMBarsLayout
from fa4_cute.plan.barriers.pipeline_plan import BarrierWait
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SMEM_CAPACITY, WARP_THREADS, SwizzleMode
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.plan.spec.limits import supported
from fa4_cute.plan.spec.schedule import ATTENTION_SCHEDULE
from tests.plan.strategies import configs

D128 = FA4Config.for_attention(DType.BF16, 128).misc_mbars


def arrivals_per_phase(config: FA4Config) -> Counter[int]:
    """Play one phase of every role through the accessors, and count the arrivals."""
    mbars, ctas = config.misc_mbars, config.cta_group()
    counted: Counter[int] = Counter()

    def arrive(mbar: int, times: int) -> None:
        counted[mbar] += times

    correction = ATTENTION_SCHEDULE["correction"].num_threads
    for chain in (0, 1):
        softmax = ATTENTION_SCHEDULE[f"softmax{chain}"].num_threads
        for stage in range(config.num_pv_stages):
            arrive(mbars.consumer_s(chain).release(sub=stage), softmax * ctas)
        arrive(mbars.producer_c(chain).commit(), softmax)
        arrive(mbars.consumer_o(chain).release(), correction * ctas)
        arrive(mbars.consumer_c(chain).release(), correction)
        if config.persistent:
            arrive(mbars.stored(chain), softmax)
        if config.crosses:
            arrive(mbars.scores_read(chain), softmax)
        for producer in (mbars.producer_s(chain), mbars.producer_o(chain)):
            arrive(producer.commit(), 1)
    for part in range(config.num_qk_stages if config.num_qo == 2 else 0):
        arrive(mbars.q1_wait_mbar(part), 1)
    if config.dynamic:
        answers, base = mbars.answers, mbars.answer_offset
        arrive(answers.producer(base).commit(), 1)
        apart = config.loads_values_apart
        schedule = ATTENTION_SCHEDULE.with_single_warps(asks=True, loads_apart=apart)
        warps = sum(role.num_warps for role in schedule.roles if not role.is_idle)
        arrive(answers.consumer(base).release(), warps + (ctas > 1))
        assert answers.first_arrivals == warps - schedule["load"].num_warps
    if config.splitk_partitions > 1:
        # Every warp of both groups of every CTA arrives once here.
        warps = ATTENTION_SCHEDULE["softmax0"].num_warps + ATTENTION_SCHEDULE["softmax1"].num_warps
        arrive(mbars.publish_offset, warps * config.splitk_partitions)
    lanes = WARP_THREADS if config.copies_by_lanes else 1
    for ring in {mbars.k_ring, mbars.v_ring}:
        for slot in range(config.num_kv_stages):
            for part in range(ring.num_qk_stages):
                arrive(ring.producer_mbar(slot, part), lanes)
                arrive(ring.consumer_mbar(slot, part), 1)
    for slot in range(config.num_own_scale_bufs):
        arrive(mbars.scale_ring.producer_mbar(slot), 1)
    num_scales = config.num_own_scale_bufs or config.num_kv_stages
    for slot in range(num_scales if config.has_token_scales else 0):
        # With one Q tile the groups take turns, with two each tile is everybody's. The scales of a
        # pair are each CTA's own.
        for wg in range(config.num_qo):
            threads = ATTENTION_SCHEDULE[f"softmax{wg}"].num_threads
            arrive(mbars.scale_ring.consumer_mbar(slot, 0), threads)
    return counted


@settings(deadline=None)
@given(configs())
@example(FA4Config(1, 1, 128, 128, page_size=16, persistent=True, dynamic=True))
def test_every_barrier_gets_exactly_its_count(config: FA4Config) -> None:
    counts = config.misc_mbars.counts()
    assert dict(arrivals_per_phase(config)) == dict(enumerate(counts))


@settings(deadline=None)
@given(configs())
def test_the_size_formula(config: FA4Config) -> None:
    pv, qk, kv = config.num_pv_stages, config.num_qk_stages, config.num_kv_stages
    expected = 2 * pv + 8 + (qk if config.num_qo == 2 else 0) + 2 * qk * kv
    expected += 0 if config.use_fused_kv else 2 * kv
    expected += 1 if config.splitk_partitions > 1 else 0
    expected += 4 if config.pair_cta and config.scale_dtype.is_valid else 0
    expected += 2 if config.crosses else 0
    expected += 2 * config.persistent + 2 * config.dynamic
    assert config.misc_mbars.size == config.misc_mbars.num_mbars() == expected
    assert len(config.misc_mbars.specs) == expected


def test_counts_of_the_d128_kernel_by_hand() -> None:
    assert D128.counts() == (256, 256, *[128] * 4, *[1] * 15, 128, 128)
    in_parts = replace(D128, crosses=False, num_pv_stages=2).counts()
    assert in_parts == (256, 128, 256, 128, *D128.counts()[2:-2])


def test_a_pair_doubles_the_shared_counts_only() -> None:
    pair = FA4Config(8, 1, 128, 128, pair_cta=True).misc_mbars
    assert pair.counts()[:8] == (512, 256, 512, 256, 128, 128, 128, 128)
    assert set(pair.counts()[8:]) == {1}


BY_LANES = FA4Config(
    1, 1, 8, 8, page_size=16, num_qo=1, row_copies=4, swizzle_mode=SwizzleMode.B64
)
DYNAMIC_PAIR = FA4Config(8, 1, 128, 128, pair_cta=True, persistent=True, dynamic=True)


@settings(deadline=None)
@given(configs())
@example(DYNAMIC_PAIR)
@example(BY_LANES)
def test_after_the_chains_only_readers_of_scales_outputs_and_clusters_count_more_than_one(
    config: FA4Config,
) -> None:
    """No index is special: the kernel initialises every barrier with its own count."""
    mbars, group = config.misc_mbars, ATTENTION_SCHEDULE["softmax0"].num_threads
    readers = config.num_qo * group
    expected = dict.fromkeys(range(mbars.offset("S0_prod"), mbars.size), 1)
    if config.has_token_scales:
        # Softmax threads free the scales of a slot: with its K, or on a barrier of its own.
        with_keys = 0 if config.num_own_scale_bufs else 1
        ring = mbars.scale_ring
        for slot in range(ring.num_kv_stages):
            expected[ring.consumer_mbar(slot, 0)] = with_keys + readers
    for ring in (mbars.k_ring, mbars.v_ring) if config.copies_by_lanes else ():
        for slot, stage in product(range(ring.num_kv_stages), range(ring.num_qk_stages)):
            expected[ring.producer_mbar(slot, stage)] = WARP_THREADS
    for chain in range(2 if config.persistent else 0):
        expected[mbars.stored(chain)] = group
    for chain in range(2 if config.crosses else 0):
        expected[mbars.scores_read(chain)] = group
    if config.splitk_partitions > 1:
        expected[mbars.publish_offset] = 2 * group // 32 * config.splitk_partitions
    if config.dynamic:
        # Warps tell their own CTA; the scheduler of a pair's peer tells the leader for all of its.
        # A warp that loads V is one more.
        warps = 15 + config.loads_values_apart
        expected[mbars.answer_offset + 1] = warps + (config.cta_group() - 1)
    assert dict(enumerate(mbars.counts())).items() >= expected.items()


def test_readers_of_scales_count_on_barriers_of_any_index() -> None:
    """Many slots: the barriers that say "K read" then lie beyond the first 32."""
    config = FA4Config(
        num_q_heads=1, group=1, qk_depth=80, ov_depth=16, page_size=64, is_mla=True, num_qo=1,
        qkv_dtype=DType.FP8_E4M3, rope_dtype=DType.FP8_E4M3, scale_dtype=DType.FP32,
        two_rings=True, swizzle_mode=SwizzleMode.B32,
    )  # fmt: skip
    assert supported(config)
    assert set(config.misc_mbars.counts()[32:]) == {1, 1 + 128}


def test_accessors_of_the_d128_kernel() -> None:
    assert [D128.producer_s(chain).commit() for chain in (0, 1)] == [6, 7]
    assert D128.producer_o(1).acquire(0) == BarrierWait(1, 0)
    in_parts = replace(D128, crosses=False, num_pv_stages=2)
    assert in_parts.producer_o(1).acquire(0, sub=1) == BarrierWait(3, 0)
    assert (D128.consumer_c(0).wait(0).mbar, D128.consumer_c(1).release()) == (2, 5)
    assert D128.q1_wait_mbar() == 8
    assert D128.K_offset == D128.V_offset == 9
    assert [D128.combined_p_o_consumer(chain) for chain in (0, 1)] == [0, 1]
    assert [D128.consumer_o(chain).wait(1) for chain in (0, 1)] == [
        BarrierWait(19, 1),
        BarrierWait(20, 1),
    ]


def test_each_chain_of_a_persistent_cta_has_a_barrier_for_its_stored_output() -> None:
    mbars = replace(D128, persistent=True)
    assert mbars.size == D128.size + 2
    assert [mbars.specs[mbars.stored(chain)].name for chain in (0, 1)] == ["stored[0]", "stored[1]"]


@pytest.mark.parametrize("chain", [0, 1])
def test_both_sides_of_a_hand_over_name_the_same_barriers(chain: int) -> None:
    for name in "sco":
        producer = getattr(D128, f"producer_{name}")(chain)
        consumer = getattr(D128, f"consumer_{name}")(chain)
        assert producer.is_producer
        assert replace(producer, is_producer=False) == consumer


def test_scales_of_keys_keep_their_slot_until_all_softmax_threads_have_read_them() -> None:
    plain = FA4Config.for_attention(DType.FP8_E4M3, 128)
    config = replace(plain, scale_dtype=DType.FP32)
    mbars = config.misc_mbars
    assert not config.use_fused_kv
    assert config.num_qk_stages == 2
    for slot in range(config.num_kv_stages):
        counts = [mbars.counts()[mbars.k_ring.consumer_mbar(slot, part)] for part in (0, 1)]
        assert counts == [1 + 2 * 128, 1]
        assert mbars.counts()[mbars.v_ring.consumer_mbar(slot)] == 1
    unscaled = plain.misc_mbars
    assert set(unscaled.counts()[unscaled.offset("S0_prod") : unscaled.scores_read(0)]) == {1}


@pytest.mark.parametrize("head_dim", [16, 64, 80, 128, 144, 192])
def test_scales_of_keys_take_two_rings_and_fit(head_dim: int) -> None:
    config = replace(FA4Config.for_attention(DType.FP8_E4M3, head_dim), scale_dtype=DType.FP32)
    assert supported(config)
    assert not config.use_fused_kv
    assert config.num_k_scale_bufs() == config.num_kv_stages
    layout = AttentionSMemLayout(config)
    assert config.misc_mbars.scale_ring == config.misc_mbars.k_ring
    assert layout.q_scale_bytes == 4 * config.BM
    assert layout.k_scale_stride_bytes == 4 * config.BN
    assert layout.k_scale_byte_offset % 16 == layout.k_scale_stride_bytes % 16 == 0
    assert layout.smem_size() <= config.smem_used


def test_split_rings_follow_each_other() -> None:
    mbars = FA4Config(8, 1, 128, 128, num_qo=1).misc_mbars
    assert mbars.V_offset == mbars.K_offset + 2 * 2 * 3
    with pytest.raises(ValueError, match="only num_qo=2"):
        mbars.q1_wait_mbar()


def test_names_are_unique_and_events_are_told() -> None:
    names = [spec.name for spec in D128.specs]
    assert len(names) == len(set(names))
    text = render_barriers(D128.specs)
    assert "softmax0 x128 + correction x128 -> mma" in text
    assert len(text.splitlines()) == 1 + D128.size


def test_there_are_two_chains() -> None:
    with pytest.raises(ValueError, match="chain=2: the chains are 0 and 1"):
        D128.consumer_s(2)


@pytest.mark.parametrize("num_qo", [1, 2])
@pytest.mark.parametrize("rope_dtype", [DType.BF16, DType.FP8_E4M3])
def test_scales_beside_rope_columns_take_two_rings_too(rope_dtype: DType, num_qo: int) -> None:
    shared = replace(
        FA4Config.for_attention(
            DType.FP8_E4M3, 192, ov_depth=128, rope_dtype=rope_dtype, num_qo=num_qo
        ),
        scale_dtype=DType.FP32,
    )
    config = replace(shared, two_rings=True)
    # What the source plans for one Q tile is a ring of seven slots, with a scale for each row.
    assert shared.use_fused_kv == (num_qo == 1)
    assert shared.num_q_scales == shared.BM
    assert supported(config)
    assert not config.use_fused_kv
    assert config.num_q_scales == 256
    assert config.num_k_scale_bufs() == config.num_kv_stages
    assert config.misc_mbars.num_scale_readers == 128 * num_qo
    assert AttentionSMemLayout(config).smem_size() <= config.smem_used


@pytest.mark.parametrize(("qk_depth", "ov_depth"), [(128, 128), (192, 128), (128, 64)])
def test_scales_of_a_pair_have_barriers_of_their_own(qk_depth: int, ov_depth: int) -> None:
    plain = FA4Config.for_attention(DType.FP8_E4M3, qk_depth, ov_depth=ov_depth, pair_cta=True)
    config = replace(plain, scale_dtype=DType.FP32)
    mbars, layout = config.misc_mbars, AttentionSMemLayout(config)
    assert supported(config)
    assert mbars.scale_ring.producer_mbar(0) == mbars.scale_offset == mbars.size - 4
    # Slots of K have no other readers, so the rings may be shared as without scales.
    assert set(mbars.counts()[mbars.offset("S0_prod") : mbars.scale_offset]) == {1}
    names = [spec.name for spec in mbars.specs[mbars.scale_offset :]]
    assert names == ["scale_full[0]", "scale_full[1]", "scale_empty[0]", "scale_empty[1]"]
    assert config.num_k_scale_bufs() == layout.num_k_scale_bufs == 2
    assert layout.k_scale_bytes == 2 * 4 * config.BN
    assert layout.k_scale_byte_offset % 16 == layout.k_scale_stride_bytes % 16 == 0
    assert layout.smem_size() <= config.smem_used <= SMEM_CAPACITY


def test_every_lane_arrives_where_lanes_copy_keys_and_values() -> None:
    mbars = FA4MiscMBarsLayout(1, 1, 3, lane_copies=True, num_qo=1)
    boxes = FA4MiscMBarsLayout(1, 1, 3, num_qo=1)
    changed = {
        new.name: (new.count, old.count)
        for new, old in zip(mbars.specs, boxes.specs, strict=True)
        if new != old
    }
    assert changed == dict.fromkeys([f"{x}_full[{n}.0]" for x in "KV" for n in range(3)], (32, 1))
