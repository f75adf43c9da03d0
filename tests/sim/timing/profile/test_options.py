"""Options of a profile: what is refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest

import sm100sim
from sm100sim.timing.profile.options import Settings, checked_work


@pytest.mark.parametrize(
    ("option", "error", "words"),
    [
        ({"draws": 2.5}, TypeError, "draws: 2.5 is no whole number; nearest supported choice: 8"),
        ({"draws": 0}, ValueError, "draws: 0; nearest supported choice: 1"),
        ({"seed": "x"}, TypeError, "seed: 'x' is no whole number"),
        ({"most": -1}, ValueError, "most: -1; nearest supported choice: 1"),
        ({"most": "3"}, TypeError, "most: '3' is no whole number; nearest supported choice: 10"),
        ({"roles": ["a"]}, TypeError, r"roles: \['a'\] is no mapping"),
        ({"roles": {"a": 3}}, TypeError, "roles: a has 3, no warps; give e.g. range"),
        ({"roles": {"a": "0-3"}}, TypeError, "roles: a has '0-3', no warps"),
        ({"roles": {"a": [0.5]}}, TypeError, "roles: a warp of a: 0.5 is no whole number"),
        ({"cold": 1}, TypeError, "cold: 1 is none of True, False and None"),
        ({"clusters": 5}, TypeError, "clusters: 5 is no sequence; give e.g. range"),
        ({"clusters": "all"}, TypeError, "clusters: 'all' is no sequence; None takes all"),
        ({"clusters": (0.5,)}, TypeError, "clusters: 0.5 is no whole number"),
    ],
)
def test_options_of_another_kind_are_refused_before_the_call_runs(
    option: dict[str, Any], error: type[Exception], words: str
) -> None:
    def never() -> None:
        raise AssertionError("it ran")

    with pytest.raises(error, match=words):
        sm100sim.profile(never, **option)


def test_an_option_without_a_meaning_is_refused() -> None:
    unknown: dict[str, Any] = {"role": {}}
    with pytest.raises(TypeError, match="role"):
        sm100sim.profile(lambda: None, **unknown)
    assert Settings().draws == 8


def test_work_is_a_pair() -> None:
    assert checked_work([2, 1]) == (2, 1)
    for work in (1, (1,), ("x", 1), "xy", (float("nan"), 1), (0, 1), (1, -1)):
        with pytest.raises((TypeError, ValueError), match=r"work: .*(pair|numbers|positive)"):
            checked_work(work)
