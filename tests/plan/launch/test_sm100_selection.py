"""Who takes the query tiles of the Blackwell kernels: by predicted cycles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.config.predicted import LAUNCH_CYCLES
from fa4_cute.plan.config.prediction import Costs
from fa4_cute.plan.launch.sm100_selection import BlackwellSpec, QueryTileLoad
from fa4_cute.plan.spec.variant import Scheduler

SHORT = Problem("bf16", 32, 1024, 1024, 16, 16, 128, 128)


def chosen(**changes: Any) -> Choice:
    return require(choose(replace(SHORT, **changes)))


def spec_of(**changes: object) -> BlackwellSpec:
    spec = chosen(**changes).spec
    assert isinstance(spec, BlackwellSpec)
    return spec


def test_short_sequences_take_persistent_ctas() -> None:
    for causal in (False, True):
        found = chosen(causal=causal)
        assert found.spec.variant.scheduler is Scheduler.PERSISTENT
        assert found.scheduler is not None
        assert found.scheduler.persistent_cycles < found.scheduler.tile_cycles
        assert f"{found.scheduler.tile_cycles:,} cycles with a CTA" in found.scheduler.text
        assert found.spec is chosen(causal=causal).spec


def test_what_has_no_prediction_has_a_cta_for_every_query_tile() -> None:
    for change in (
        {"batch": 1, "num_q_heads": 2, "num_kv_heads": 2},
        {"features": Features(ragged_q=True)},
        {"features": Features(sink=True)},
        {"features": Features(num_splits=2)},
        {"pair_cta": True},
        {"seqlen_k": 0},
        {"num_qo": 1},
    ):
        found = chosen(**change)
        assert (found.spec.variant.scheduler, found.scheduler) == (Scheduler.TILE, None)


def test_who_asks_gets_what_is_asked_for() -> None:
    for asked in Scheduler:
        found = chosen(features=Features(scheduler=asked))
        assert (found.spec.variant.scheduler, found.scheduler) == (asked, None)


def test_long_causal_sequences_are_evened_out_by_the_sms() -> None:
    found = chosen(batch=1, seqlen_q=32768, seqlen_k=32768, causal=True)
    assert found.spec.variant.scheduler is Scheduler.TILE
    assert found.scheduler is not None


def test_cycles_follow_from_rounds_or_from_the_mean_and_the_longest() -> None:
    spec = spec_of()
    even = QueryTileLoad.of(spec, SHORT.sizes, 148)
    assert even == QueryTileLoad(2048, 148, 1024, 1024, is_even=True)
    costs = Costs(first=50, tile=100, per_keys=1000)
    assert even.cycles(costs, in_order=True) == LAUNCH_CYCLES + 50 + 14 * 1100
    causal = QueryTileLoad.of(spec_of(causal=True), SHORT.sizes, 148)
    assert causal == QueryTileLoad(2048, 148, 1024, 640, is_even=False)
    work = (2048 * 100 + 2048 * 640 * 1000 // 1024) // 148
    assert causal.cycles(costs, in_order=False) == LAUNCH_CYCLES + 50 + work
    assert causal.cycles(costs, in_order=True) == LAUNCH_CYCLES + 50 + work + 1000


@pytest.mark.parametrize(("seqlen_q", "first"), [(512, 768), (2048, 0), (1024, 256)])
def test_the_shortest_query_tile_sees_what_its_last_row_sees(seqlen_q: int, first: int) -> None:
    spec = spec_of(causal=True)
    load = QueryTileLoad.of(spec, replace(SHORT, seqlen_q=seqlen_q).sizes, 148)
    assert load.mean == (first + 1024) // 2


def test_pairs_count_for_two_sms() -> None:
    wide = spec_of(head_dim=256, head_dim_v=256, num_q_heads=8, num_kv_heads=8)
    sizes = replace(SHORT, num_q_heads=8, num_kv_heads=8).sizes
    load = QueryTileLoad.of(wide, sizes, 148)
    assert (load.units, load.places) == (32 * 8 * 4, 74)
