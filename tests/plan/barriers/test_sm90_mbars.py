from __future__ import annotations

from collections import Counter

import pytest

from fa4_cute.plan.barriers.sm90_mbars import SM90MBarsLayout
from fa4_cute.plan.facts.hardware import WARP_THREADS
from fa4_cute.plan.spec.schedule import SM90_SCHEDULES, TRANSPOSE

LAYOUTS = [
    SM90MBarsLayout(2, 2), SM90MBarsLayout(4, 3), SM90MBarsLayout(3, 2, persistent=True),
    SM90MBarsLayout(4, 2, persistent=True, num_raw_stages=3),
    SM90MBarsLayout(2, 2, num_bias_warps=3),
]  # fmt: skip


@pytest.mark.parametrize("mbars", LAYOUTS)
def test_every_barrier_gets_exactly_its_count(mbars: SM90MBarsLayout) -> None:
    transposes = mbars.num_raw_stages > 0
    plain = SM90_SCHEDULES[mbars.num_consumers]
    schedule = plain.transposing() if transposes else plain
    warps = schedule["consumer"].num_warps
    # V of fp8 operands arrives when all warps that transpose it have stored their part.
    writers = schedule[TRANSPOSE].num_warps if transposes else 1
    counted: Counter[int] = Counter()
    for consumer in range(mbars.num_consumers):
        counted[mbars.query(consumer)] += 1
        if mbars.persistent:
            counted[mbars.stored(consumer)] += warps // mbars.num_consumers
    for ring in (mbars.k_ring, mbars.v_ring):
        for slot in range(mbars.num_kv_stages):
            counted[ring.producer_mbar(slot)] += 1 if ring == mbars.k_ring else writers
            counted[ring.consumer_mbar(slot)] += warps
    for slot in range(mbars.num_raw_stages):
        counted[mbars.raw_ring.producer_mbar(slot)] += 1
        counted[mbars.raw_ring.consumer_mbar(slot)] += writers
    for slot in range(mbars.num_bias_stages):
        # Every lane of the warps that copy arrives when its copies have.
        counted[mbars.bias_ring.producer_mbar(slot)] += mbars.num_bias_warps * WARP_THREADS
        counted[mbars.bias_ring.consumer_mbar(slot)] += warps
    assert tuple(counted[i] for i in range(mbars.size)) == mbars.counts()


def test_names_of_biases_that_are_copied() -> None:
    specs = SM90MBarsLayout(1, 2, num_bias_warps=3).specs
    assert [(spec.name, spec.waits) for spec in specs[-2:]] == [
        ("bias_full[0]", "consumer"), ("bias_empty[0]", "biases"),
    ]  # fmt: skip
    assert SM90MBarsLayout(1, 2).num_bias_stages == 0


def test_names_are_in_the_order_of_the_table() -> None:
    names = [spec.name for spec in SM90MBarsLayout(1, 2, persistent=True).specs]
    assert names == [
        "Q_full[0]", "Q_full[1]", "K_full[0]", "K_empty[0]", "V_full[0]", "V_empty[0]",
        "stored[0]", "stored[1]",
    ]  # fmt: skip


def test_names_of_a_v_that_is_transposed() -> None:
    specs = SM90MBarsLayout(1, 2, num_raw_stages=1).specs
    names = {spec.name: spec.waits for spec in specs[4:]}
    assert names == {
        "V_full[0]": "consumer", "V_empty[0]": "transpose", "raw_full[0]": "transpose",
        "raw_empty[0]": "load",
    }  # fmt: skip


def test_one_lane_initialises_where_v_is_not_transposed() -> None:
    assert SM90MBarsLayout(2, 2, persistent=True).one_lane_initialises
    assert not SM90MBarsLayout(2, 2, num_raw_stages=1).one_lane_initialises


def test_no_buffers_of_scales() -> None:
    assert SM90MBarsLayout(2, 2).scale_ring.num_mbars == 0
