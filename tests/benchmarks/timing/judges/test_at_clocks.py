"""Judged kernels at the clocks that a measurement recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.timing.judges.at_clocks import CHIP, OF_L2, at_clock
from benchmarks.timing.sharing.together_kernels import KERNELS, LIMIT_SHARED, limit_at
from sm100sim.timing.chips import load_chip

JUDGES = Path("benchmarks/timing/judges")


def test_slower_sms_get_more_of_the_l2_in_a_cycle_and_as_much_of_all_else() -> None:
    draw = load_chip(CHIP).draw()
    slow = at_clock(draw, draw["clock_mhz"] / 2)
    assert all(slow[name] == 2 * draw[name] for name in OF_L2)
    assert slow["clock_mhz"] == draw["clock_mhz"] / 2
    same = set(draw.values) - {*OF_L2, "clock_mhz"}
    assert all(slow[name] == draw[name] for name in same)


def test_a_pace_is_in_cycles_already() -> None:
    assert at_clock(load_chip(CHIP).draw(), 990, pace=50)["l2_shared_bytes"] == 50


def test_the_limit_of_all_sms_is_that_of_a_kernels_own_clock() -> None:
    rows = json.loads((JUDGES / "measured.json").read_text())["rows"]
    mhz = {row["name"]: row["mhz"] for row in rows if "mhz" in row}
    name = KERNELS[0].name
    assert limit_at(name) * mhz[name] == pytest.approx(LIMIT_SHARED * 1980)


def test_what_was_kept_is_of_judged_kernels() -> None:
    kept = json.loads((JUDGES / "at_clocks.json").read_text())
    predicted = json.loads((JUDGES / "predicted.json").read_text())
    assert set(kept) <= set(predicted)
    paced = {key.partition(": ")[2] for key, row in kept.items() if "paced" in row}
    assert paced == {product.name for product in KERNELS}
