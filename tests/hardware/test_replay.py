"""Outputs recorded on an H200, replayed on the simulator: equal bits, or inside a stated bound."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sm100sim.report import SimulationFault

from . import records
from .micro import MODULES, family
from .simulate import simulate

RECORDED = [name for name in MODULES if records.path_of(records.DIRECTORY, name).is_file()]
FLOATS = {
    "f32": (np.uint32, 32, 0x7F800000), "f16": (np.uint16, 16, 0x7C00), "f16x2": (np.uint16, 16, 0x7C00),
    "bf16": (np.uint16, 16, 0x7F80), "bf16x2": (np.uint16, 16, 0x7F80), "f64hi": (np.uint64, 32, 0x7FF00000),
}  # fmt: skip
"""Format: word, bits that count (of f64hi the upper ones), and the code of infinity."""

KNOWN = Path(__file__).parent / "known_differences.json"
"""Cases in which the simulator differs from the chip, by family; docs/hardware.md says how."""


def ulp_distance(a: np.ndarray, b: np.ndarray, kind: str) -> float:
    """Largest distance in units of the last place; NaNs must be NaNs in both."""
    word, width, infinity = FLOATS[kind]
    drop = np.uint64(8 * np.dtype(word).itemsize - width)
    x, y = ((v.view(word).astype(np.uint64) >> drop).astype(np.int64) for v in (a, b))
    nan_x, nan_y = ((v & (2 ** (width - 1) - 1)) > infinity for v in (x, y))
    if not np.array_equal(nan_x, nan_y):
        return float("inf")
    sign = 1 << (width - 1)
    ordered = [np.where(v & sign, sign - v, v) for v in (x, y)]
    return float(np.abs(ordered[0] - ordered[1])[~nan_x].max(initial=0))


@pytest.mark.parametrize("name", RECORDED)
def test_family_agrees_with_the_chip(name: str) -> None:
    recorded = records.read(name)
    compared, wrong = 0, []
    for case in family(name):
        digest, outputs = recorded[case.name]
        assert digest == case.digest(), f"{case.name}: the record is of another program"
        if isinstance(outputs, str):
            continue
        for got, want in zip(simulate(case), outputs, strict=True):
            compared += 1
            if case.ulp is None:
                same = np.array_equal(got.view(np.uint8), want.view(np.uint8))
            else:
                same = ulp_distance(got, want, case.ulp[0]) <= case.ulp[1]
            if not same:
                wrong.append(case.name)
    assert compared
    known = json.loads(KNOWN.read_text())
    assert sorted(set(wrong)) == known.get(name, [])


def test_faults_where_the_chip_does() -> None:
    refused = 0
    recorded = records.read("tma")
    for case in family("tma"):
        if recorded[case.name][1] == "CUDA_ERROR_ILLEGAL_INSTRUCTION":
            refused += 1
            with pytest.raises(SimulationFault):
                simulate(case)
    assert refused == 16


def test_records_exist() -> None:
    assert tuple(RECORDED) == MODULES
