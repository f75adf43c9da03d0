"""setmaxnreg on an H200 and on the simulator: which kernels end, and which wait for ever."""

from __future__ import annotations

import json

import pytest

from sm100sim.report import SimulationFault
from testing.hardware.records import DIRECTORY
from testing.hardware.registers import CASES
from testing.hardware.simulate import simulate

RECORDED = json.loads((DIRECTORY / "setmaxnreg.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_ends_exactly_where_the_chip_ended(name: str) -> None:
    found = RECORDED[name]
    assert not found["error"]
    if found["ends"]:
        assert int(simulate(CASES[name])[0].sum()) == found["sum"]
        return
    with pytest.raises(SimulationFault, match=r"deadlock: .* waits for setmaxnreg"):
        simulate(CASES[name])


def test_the_record_holds_both_outcomes() -> None:
    assert set(RECORDED) == set(CASES)
    assert {entry["ends"] for entry in RECORDED.values()} == {False, True}
