"""Values are moved until a case has the chip's cycles, and a table says what becomes of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.timing.judges import what_if
from benchmarks.timing.judges.what_if import FOUND, MOST, all_wait, measured, reaching
from benchmarks.timing.judges.what_if_table import AIM, section
from sm100sim.timing.chips import load_chip
from sm100sim.timing.model.happenings import happening_of
from sm100sim.timing.records import Action, DynamicEvent

DRAW = what_if.drawn()
TWO, FEWER, OTHER = AIM, "fa4_cute: fa4_cute d64-1024 fewer consumers", "quack: gemm"
CHIP = {TWO: 100.0, FEWER: 100.0, OTHER: 100.0}


def load(fresh: float, *detail: str) -> DynamicEvent:
    return DynamicEvent(Action.GLOBAL, -1, sectors=4, detail=detail, fresh=fresh)


def latency(event: DynamicEvent) -> float:
    found = happening_of(event, DRAW)
    assert found is not None
    return found.latency


def test_all_who_share_wait_for_memory() -> None:
    """Of a 16th the machine counts a 16th of the latency, the mechanism all of it."""
    memory, copy = DRAW["hbm_latency"], DynamicEvent(Action.COPY_LOAD, 1, size=8192, fresh=1 / 16)
    loads = (copy, load(1 / 16, "ld"))
    before = [latency(event) for event in loads]
    with all_wait():
        assert [latency(e) - b for e, b in zip(loads, before, strict=True)] == [
            memory * 15 / 16
        ] * 2
        assert latency(replace(copy, fresh=0)) == DRAW["copy_latency"]
        assert latency(replace(copy, fresh=1)) == DRAW["copy_latency"] + memory
        assert latency(load(1 / 16, "st")) == DRAW["global_latency"]
    assert [latency(event) for event in loads] == before


def test_a_value_is_moved_until_the_cycles_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles are the latency here; what never gets there goes as far as is tried."""

    def cycles(_: Any, values: Mapping[str, float]) -> float:
        return values.get("copy_latency", 0) + 1 / values.get("copy_bytes", 111)

    monkeypatch.setattr(what_if, "cycles_of", cycles)
    launch: Any = None
    assert reaching(launch, "copy_latency", 700) == pytest.approx(700, abs=4)
    assert reaching(launch, "copy_bytes", 0.05) == pytest.approx(20, abs=0.5)
    assert reaching(launch, "copy_bytes", 700) == MOST["copy_bytes"]


def test_every_value_is_one_of_the_chip_and_is_moved() -> None:
    known = load_chip("h200").parameters
    assert all(known[name].value != most for name, most in MOST.items())


def test_the_table_says_what_closes_and_what_goes() -> None:
    changes = {
        "as it is": {"values": {}, "cycles": [80, 90, 95]},
        "a": {"values": {"a": 1234.5}, "cycles": [100, 95, 150]},
        "b": {"values": {"b": 7}, "cycles": [90, 90, 95]},
    }
    lines = list(section({"cases": [TWO, FEWER, OTHER], "changes": changes}, CHIP, AIM))
    assert lines[-3:] == [
        "| as it is |  | 20.0% | -20.0% | -10.0% | 5.0% | 0 |",
        "| a | 1,234 | 0.0% | +0.0% | -5.0% | 50.0% | 1 |",
        "| b | (7) | 10.0% | -10.0% | -10.0% | 5.0% | 0 |",
    ]
    assert "of 3 cases" in lines[0]


def test_the_record_is_of_measured_cases() -> None:
    found = json.loads(FOUND.read_text())
    assert set(found["cases"]) <= measured().keys()
    assert all(len(c["cycles"]) == len(found["cases"]) for c in found["changes"].values())
    assert [*found["changes"]][2:] == [*MOST]
