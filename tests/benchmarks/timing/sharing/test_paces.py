"""Rows out of the L2 while the clock of SMs is low: who shares them, what two chips answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.timing.sharing.paces import Around, across, questions

HERE = Path("benchmarks/timing/sharing")
GPCS = [[0, 1, 2], [3, 4], [5, 6, 7]]
OWN = "128 and 128 rows, 132 CTAs, every SM its own"


def answers(chip: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Bytes a cycle of an SM and MHz, cool and hot, by question."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for row in json.loads((HERE / f"{chip}_paces.json").read_text())["rates"]:
        means = [sum(row[key]) / len(row[key]) for key in ("rates", "mhz")]
        found.setdefault(row["name"], {})[row["before"]] = (means[0], means[1])
    return found


def test_sets_of_sms_of_other_gpcs() -> None:
    assert across(GPCS, 2) == [[0, 3], [5], [1, 4], [6], [2, 7]]
    assert [sm for (sm,) in across(GPCS, 1)] == [0, 3, 5, 1, 4, 6, 2, 7]


def test_questions_have_names_of_their_own_and_are_those_that_were_asked() -> None:
    record = json.loads((HERE / "h200_paces.json").read_text())
    names = [asked.name for asked in questions(record["gpcs"])]
    assert len(set(names)) == len(names)
    assert set(names) == set(answers("h200")) == set(answers("h100"))


def test_a_launch_lies_between_two_readings() -> None:
    seen: list[str] = []

    class Driver:
        def cuLaunchKernelEx(self, *_: Any) -> tuple[int]:
            seen.append("launch")
            return (0,)

        def other(self) -> str:
            return "driver"

    class Clocks:
        def around(self, call: Any, before: Any) -> tuple[float, float]:
            before()
            seen.append("reading")
            call()
            seen.append("reading")
            return 100.0, 1500.0

    clocks: Any = Clocks()
    around = Around(Driver(), clocks)
    around.before = lambda: seen.append("heat")
    assert around.cuLaunchKernelEx(1, 2) == (0,)
    assert seen == ["heat", "reading", "launch", "reading"]
    assert around.mhz == 1500.0
    assert around.other() == "driver"


def test_an_h200s_l2_keeps_its_pace_while_sms_slow_down() -> None:
    """Rows of own SMs: the same bytes a second at three quarters of the clock."""
    cool, hot = (answers("h200")[OWN][when] for when in ("cool", "hot"))
    assert hot[1] < 0.8 * cool[1]
    assert hot[0] * hot[1] == pytest.approx(cool[0] * cool[1], rel=0.04)


def test_what_the_port_of_an_sm_limits_is_of_the_sms_clock() -> None:
    for chip in ("h200", "h100"):
        alone = answers(chip)["128 and 128 rows, 1 CTAs, alone"]
        assert alone["hot"][0] == pytest.approx(alone["cool"][0], rel=0.01)


def test_counters_say_that_the_l2_has_a_clock_of_its_own() -> None:
    record = json.loads((HERE / "h200_paces_counters.json").read_text())
    every = (*record["probes"], *record["kernels"])
    assert all(1695 <= one["l2_mhz"] <= 1715 for one in every)
    assert min(one["sm_mhz"] for one in every) < 1510
    assert max(one["sm_mhz"] for one in every) > 1975


def test_far_rows_hardly_cross_between_the_halves_of_the_l2() -> None:
    """Of rows that stay in the L2 less than one sector in 100 comes through the fabric."""
    (own, *_) = json.loads((HERE / "h200_paces_counters.json").read_text())["probes"]
    assert own["name"] == OWN
    fabric = own["lts__t_sectors_srcunit_ltcfabric.sum"]
    assert fabric < 0.01 * own["lts__t_sectors_srcunit_tex.sum"]
