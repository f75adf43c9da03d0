"""Few keys: Q tiles and scheduler of Blackwell kernels by costs of launches of as few."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import choose, require
from fa4_cute.plan.config.predicted import LAUNCH_CYCLES
from fa4_cute.plan.config.prediction import Costs, PredictedRow
from fa4_cute.plan.launch import sm100_selection
from fa4_cute.plan.launch.sm100_selection import (
    choose_blackwell_query_tiles,
    choose_blackwell_scheduler,
)
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler

SHORT = Problem("bf16", 32, 1024, 1024, 16, 16, 128, 128)
FEW = replace(SHORT, seqlen_q=64, seqlen_k=64, head_dim=64, head_dim_v=64)


def two_tiles() -> KernelSpec:
    asked = replace(SHORT, num_qo=2, features=Features(scheduler=Scheduler.TILE))
    spec = require(choose(asked)).spec
    assert isinstance(spec, KernelSpec)
    return spec



def test_rules_decide_with_few_keys_that_were_not_predicted() -> None:
    """A table that starts at 1,024 keys does not say what 100 with a mask cost."""
    for unknown in ({"causal": True}, {"dtype": "fp8_e4m3"}, {"head_dim": 192, "head_dim_v": 128}):
        found: Any = require(choose(replace(FEW, **unknown))).query_tiles
        assert found.num_qo == 1
        assert "predicted" not in found.text


def test_few_keys_have_costs_of_their_own() -> None:
    spec = two_tiles()
    for keys, most in ((1, 128), (128, 128), (129, 256), (1000, 1024)):
        sizes = replace(SHORT, seqlen_k=keys).sizes
        rows = sm100_selection._comparable_rows(spec, sizes)
        assert [row and row.most_keys for row in rows] == [most, most]
    assert not any(row and row.most_keys for row in
                   sm100_selection._comparable_rows(spec, SHORT.sizes))  # fmt: skip


def test_two_q_tiles_may_win_though_one_holds_all_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both softmax groups have work with a single key tile; close predictions leave the rule."""
    spec = two_tiles()
    sizes = replace(SHORT, seqlen_q=64, seqlen_k=64).sizes
    one = PredictedRow("1q", 2, 128, 128, Costs(0, 9000, 0), Costs(0, 9000, 0), most_keys=128)
    for cycles, best in ((7000, 2), (8900, 1), (11000, 1)):
        costs = Costs(0, cycles, 0)
        two = PredictedRow("2q", 2, 128, 128, costs, costs, most_keys=128)
        monkeypatch.setattr(sm100_selection, "SHORT", (one, two))
        found = choose_blackwell_query_tiles(spec, sizes, 148)
        assert found.num_qo == best
        assert "cycles with one Q tile" in found.text
    assert choose_blackwell_query_tiles(spec, sizes, 148, 1).num_qo == 1


def test_few_keys_have_a_scheduler_by_their_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = two_tiles()
    sizes = replace(SHORT, seqlen_k=200).sizes
    for tile, best in ((5000, Scheduler.TILE), (5200, Scheduler.PERSISTENT)):
        row = PredictedRow("2q", 2, 128, 128, Costs(0, tile, 0), Costs(0, 5100, 0), most_keys=256)
        monkeypatch.setattr(sm100_selection, "SHORT", (row,))
        found = choose_blackwell_scheduler(spec, sizes, 148)
        assert found is not None
        assert (found.scheduler, found.tile_cycles) == (best, LAUNCH_CYCLES + 14 * tile)
