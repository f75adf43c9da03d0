"""Costs that stand for those of many draws."""

from __future__ import annotations

from benchmarks.tune import averages


def test_costs_are_medians_over_the_draws_without_the_chips_own() -> None:
    draws = [(9.0, 9.0, 9.0), (1.0, 10.0, 0.5), (2.0, 20.0, 1.0), (6.0, 30.0, 2.0)]
    assert averages.costs_of(draws) == (2, 20, 1024)


def test_parts_of_launches_are_means_so_that_their_sums_are() -> None:
    draws = [(9.0, 9.0, 9.0), (1.0, 10.0, 0.5), (2.0, 20.0, 1.0), (6.0, 33.0, 2.4)]
    assert averages.means_of(draws) == (3, 21, round(1.3 * 1024))
