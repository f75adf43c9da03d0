from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from fa4_cute.plan.barriers.depth512_mbars import Depth512MBarsLayout
from fa4_cute.plan.barriers.pipeline_plan import BarrierWait
from fa4_cute.plan.spec.schedule import DEPTH512_SCHEDULE

D512 = Depth512MBarsLayout(4)
D256 = Depth512MBarsLayout(8, split_o=False)
SCALED = Depth512MBarsLayout(4, num_scale_bufs=2)
PERSISTENT = Depth512MBarsLayout(4, persistent=True)
BOTH = Depth512MBarsLayout(4, persistent=True, num_scale_bufs=2)
DYNAMIC = Depth512MBarsLayout(4, persistent=True, num_scale_bufs=2, dynamic=True)
APART = replace(DYNAMIC, values_apart=True)
ROWS = Depth512MBarsLayout(4, persistent=True, writes_rows=True, correction_writes=True)
PARTS = Depth512MBarsLayout(4, persistent=True, writes_rows=True)
CTAS = 2

# Offset in d512, offset in d256, count.
OFFSETS = {
    "PO_lo_offset": (0, 0, 512),
    "PO_hi_offset": (1, None, 256),
    "S_even_consumer_offset": (2, 1, 256),
    "S_odd_consumer_offset": (3, 2, 256),
    "C_producer_offset": (4, 3, 128),
    "C_consumer_offset": (5, 4, 128),
    "S_even_producer_offset": (6, 5, 1),
    "S_odd_producer_offset": (7, 6, 1),
    "O_mma_lo_offset": (8, 7, 1),
    "O_mma_hi_offset": (9, None, 1),
    "KV_offset": (10, 8, 1),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_offsets_and_counts(name: str) -> None:
    d512, d256, count = OFFSETS[name]
    assert getattr(D512, name) == d512
    assert D512.counts()[d512] == count
    if d256 is not None:
        assert getattr(D256, name) == d256
        assert D256.counts()[d256] == count


@pytest.mark.parametrize(
    ("mbars", "fixed", "high", "ring", "size"), [(D512, 10, 6, 8, 18), (D256, 8, 5, 16, 24)]
)
def test_sizes(mbars: Depth512MBarsLayout, fixed: int, high: int, ring: int, size: int) -> None:
    assert (mbars.num_fixed, mbars.num_high_count_barriers) == (fixed, high)
    assert (mbars.KV_barriers, mbars.size, mbars.num_mbars()) == (ring, size, size)
    assert sum(count >= 128 for count in mbars.counts()) == high


@pytest.mark.parametrize(
    "mbars", [D512, D256, SCALED, PERSISTENT, BOTH, DYNAMIC, APART, ROWS, PARTS]
)
def test_every_barrier_gets_exactly_its_count(mbars: Depth512MBarsLayout) -> None:
    softmax = DEPTH512_SCHEDULE["softmax"].num_threads
    correction = DEPTH512_SCHEDULE["correction"].num_threads
    counted: Counter[int] = Counter()
    counted[mbars.po_lo_mbar()] += softmax * CTAS
    outputs = [(mbars.producer_o_lo(), mbars.consumer_o_lo())]
    if mbars.split_o:
        outputs.append((mbars.producer_o_hi(), mbars.consumer_o_hi()))
    for producer, consumer in outputs:
        counted[producer.commit()] += 1
        counted[consumer.release()] += correction * CTAS
    for step in (0, 1):
        counted[mbars.producer_s().commit(step)] += 1
        counted[mbars.consumer_s().release(step)] += softmax * CTAS
    counted[mbars.producer_c().commit()] += softmax
    counted[mbars.consumer_c().release()] += correction
    for slot in range(mbars.num_kv_stages):
        counted[mbars.kv_ring.producer_mbar(slot)] += 1
        counted[mbars.kv_ring.consumer_mbar(slot)] += 1
    for buffer in range(mbars.num_scale_bufs):
        counted[mbars.scale_ring.producer_mbar(buffer)] += 1
        counted[mbars.scale_ring.consumer_mbar(buffer)] += softmax
    if mbars.writes_rows:
        counted[mbars.query_read_offset] += 1
    if mbars.persistent and not mbars.correction_writes:
        counted[mbars.stored(0)] += softmax
    if mbars.dynamic:
        counted[mbars.answers.producer(mbars.answer_offset).commit()] += 1
        apart = mbars.values_apart
        schedule = DEPTH512_SCHEDULE.with_single_warps(asks=True, loads_apart=apart)
        warps = sum(role.num_warps for role in schedule.roles if not role.is_idle)
        counted[mbars.answers.consumer(mbars.answer_offset).release()] += warps + 1
    assert dict(counted) == dict(enumerate(mbars.counts()))


@pytest.mark.parametrize("split_o", [True, False])
def test_one_wave_initialises_every_barrier(split_o: bool) -> None:
    limit = 11 if split_o else 12
    mbars = Depth512MBarsLayout(limit, split_o)
    assert mbars.size == 32
    assert Depth512MBarsLayout(0, split_o).most_kv_stages == limit


def test_a_persistent_pair_has_one_barrier_more_after_all_others() -> None:
    assert PERSISTENT.counts() == (*D512.counts(), 128)
    assert PERSISTENT.specs[:-1] == D512.specs
    last = PERSISTENT.specs[-1]
    assert (last.name, last.index) == ("stored", PERSISTENT.stored_offset)
    assert (D512.most_kv_stages, PERSISTENT.most_kv_stages) == (11, 10)


def test_where_rows_are_written_one_by_one_a_commit_says_that_q_is_free() -> None:
    """In the place of the arrivals that say that O is stored."""
    assert ROWS.counts() == (*D512.counts(), 1)
    assert ROWS.specs[:-1] == D512.specs
    last = ROWS.specs[-1]
    assert (last.name, last.index) == ("Q_read", ROWS.query_read_offset)
    assert ROWS.most_kv_stages == PERSISTENT.most_kv_stages


def test_where_the_softmax_writes_rows_both_say_that_something_is_free() -> None:
    assert PARTS.counts() == (*PERSISTENT.counts(), 1)
    assert [barrier.name for barrier in PARTS.specs[-2:]] == ["stored", "Q_read"]
    assert PARTS.most_kv_stages == PERSISTENT.most_kv_stages


def test_pipelines_meet_on_the_same_barriers() -> None:
    for mbars in (D512, D256):
        for name in ("s", "c", "o_lo", *(["o_hi"] if mbars.split_o else [])):
            producer = getattr(mbars, f"producer_{name}")()
            consumer = getattr(mbars, f"consumer_{name}")()
            assert producer.is_producer
            assert replace(producer, is_producer=False) == consumer
            # Factors stay in the CTA; all else is told across the pair.
            assert producer.cta_group == (1 if name == "c" else CTAS)


def test_the_first_pv_waits_and_the_first_qk_does_not() -> None:
    assert D512.producer_o_lo().acquire(0) == BarrierWait(0, 0)
    assert [D512.producer_s().acquire(step).phase for step in range(4)] == [1, 1, 0, 0]


def test_d256_has_no_high_half() -> None:
    for accessor in (D256.producer_o_hi, D256.consumer_o_hi):
        with pytest.raises(ValueError, match="split_o=False"):
            accessor()


def test_ring_barriers_are_all_producers_then_all_consumers() -> None:
    assert D512.KV_offset == 10
    assert [D512.kv_ring.producer_mbar(i) for i in range(4)] == [10, 11, 12, 13]
    assert [D512.kv_ring.consumer_mbar(i) for i in range(4)] == [14, 15, 16, 17]


def test_buffers_of_scales_follow_the_ring() -> None:
    assert SCALED.k_scale_offset == D512.size == 18
    assert [SCALED.scale_ring.producer_mbar(i) for i in range(2)] == [18, 19]
    assert [SCALED.scale_ring.consumer_mbar(i) for i in range(2)] == [20, 21]
    assert SCALED.counts()[18:] == (1, 1, 128, 128)
    assert SCALED.counts()[:18] == D512.counts()
    assert D512.scale_ring.num_mbars == 0
