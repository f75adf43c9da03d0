"""Costs of few keys: start and query tile of each length."""

from __future__ import annotations

from typing import Any

from benchmarks.tune import costs, few_keys
from benchmarks.tune.few_keys import KEYS, Prompts
from fa4_cute.plan.config.predicted import SHORT
from fa4_cute.plan.config.prediction import Costs

KIND = costs.SHORT[0]


class Fixed(Prompts):
    """Launches that take 100 cycles to begin, 30 for a CTA and two for a key."""

    def cycles(self, scheduler: str, keys: int, rounds: int) -> list[float]:
        return [100.0 + 30 + rounds * 2 * keys] * 3


class Maker:
    """Three draws of a chip."""

    draws = ({"launch_cycles": 100.0},) * 3


def test_start_and_query_tile_are_told_apart(monkeypatch: Any) -> None:
    monkeypatch.setattr(costs, "ptx_of", lambda kind, scheduler: scheduler)
    record = Fixed(KIND, Maker()).record()
    assert record["ptx"] == {"tile": "tile", "persistent": "persistent"}
    for place, keys in enumerate(KEYS):
        assert record["tile"][place] == [(0.0, 30 + 2 * keys)] * 3
        assert record["persistent"][place] == [(30, 2 * keys)] * 3
    text = few_keys.rows_text(KIND, record)
    assert text.count("PredictedRow(") == len(KEYS)
    assert 'PredictedRow("1q", 2, 64, 64, Costs(0, 286, 0), Costs(30, 256, 0),' in text


def test_costs_leave_out_the_chips_own_values() -> None:
    assert few_keys.costs_of([(9.0, 9.0), (1.0, 10.0), (2.0, 21.0)]) == Costs(2, 16, 0)
    assert few_keys.costs_of([(9.0, 9.0), (-3.0, 10.0)]) == Costs(0, 10, 0)


def test_rows_of_a_kernel_go_up_to_the_keys_from_which_others_hold() -> None:
    for kind in costs.SHORT:
        name = (kind.kernel, kind.depth)
        assert tuple(r.most_keys for r in SHORT if (r.kernel, r.depth) == name) == KEYS
