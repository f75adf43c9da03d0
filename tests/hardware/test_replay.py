"""Outputs recorded on an H200, replayed on the simulator: equal bits, or inside a stated bound."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sm100sim.ptx.errors import PtxError
from sm100sim.report import SimulationFault
from testing.hardware import bounds, records
from testing.hardware.case import Case
from testing.hardware.micro import MODULES, family
from testing.hardware.simulate import simulate

RECORDED = [name for name in MODULES if records.path_of(records.DIRECTORY, name).is_file()]
KNOWN = records.DIRECTORY.parent / "known_differences.json"
"""Cases in which the simulator differs from the chip: family -> {case: why that is right}."""

REFUSED = "CUDA_ERROR_INVALID_PTX"
FAULTED, HUNG = "CUDA_ERROR_ILLEGAL_INSTRUCTION", "hang or crash"
APPROXIMATE = [
    (name, case.name)
    for name in RECORDED
    for case in family(name)
    if bounds.key_of(case.name) is not None
]


def _known(name: str) -> dict[str, str]:
    return json.loads(KNOWN.read_text()).get(name, {})


def _same(case: Case, outputs: list[np.ndarray]) -> bool:
    pairs = zip(simulate(case), outputs, strict=True)
    return all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_family_agrees_with_the_chip(name: str) -> None:
    """Bit for bit, but for approximate functions, which have tests of their own."""
    recorded = records.read(name)
    compared, wrong = 0, []
    for case in family(name):
        digest, outputs = recorded[case.name]
        assert digest == case.digest(), f"{case.name}: the record is of another program"
        if isinstance(outputs, str) or bounds.key_of(case.name) is not None:
            continue
        compared += 1
        if not _same(case, outputs):
            wrong.append(case.name)
    assert compared or name == "approx"
    assert sorted(wrong) == sorted(_known(name))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case_name"), APPROXIMATE)
def test_approximate_function_stays_inside_its_bounds(name: str, case_name: str) -> None:
    case = next(c for c in family(name) if c.name == case_name)
    key = bounds.key_of(case_name)
    assert key is not None
    operation, kind = key.split(".")[0], key.split(".")[-1]
    chip = records.read(name)[case_name][1][0]
    mine = simulate(case)[0]
    got, want = bounds.values(mine, kind), bounds.values(chip, kind)
    unlike = np.flatnonzero(
        mine.view(bounds.FORMATS[kind][0]) != chip.view(bounds.FORMATS[kind][0])
    )
    assert np.isfinite(got[unlike]).all()
    assert np.isfinite(want[unlike]).all()
    operands = [bounds.values(a, kind) for a in case.inputs]
    if ".ftz" in case_name or operation in ("sin", "cos"):
        operands = [np.where(np.abs(x) < 2.0 ** bounds.FORMATS[kind][2], 0.0, x) for x in operands]
    with np.errstate(all="ignore"):
        exact = bounds.EXACT[operation](*operands)
    normal = np.abs(exact) >= 2.0 ** (bounds.FORMATS[kind][2] + 1)
    place, seen = np.abs(operands[-1]), 0
    for bound in bounds.BOUNDS[key]:
        error, count = bounds.worst(bound, bound.chip, place, got, want, kind)
        seen += count
        assert error <= bound.chip[1], (bound, "simulator to chip", error)
        if bound.isa is None:
            continue
        for values in (got, want):
            error, _ = bounds.worst(
                bound, bound.isa, place[normal], values[normal], exact[normal], kind
            )
            assert error <= bound.isa[1], (bound, "to the exact value", error)
    assert seen == np.isfinite(got).sum()


@pytest.mark.slow
def test_bounds_are_the_smallest_that_hold() -> None:
    """A bound between simulator and chip that is twice too wide would hide a change."""
    largest: dict[tuple[str, int], tuple[float, bounds.Bound]] = {}
    for name, case_name in APPROXIMATE:
        case = next(c for c in family(name) if c.name == case_name)
        key = bounds.key_of(case_name) or ""
        kind = key.split(".")[-1]
        place = np.abs(bounds.values(case.inputs[-1], kind))
        got, want = (
            bounds.values(a, kind) for a in (simulate(case)[0], records.read(name)[case_name][1][0])
        )
        for k, bound in enumerate(bounds.BOUNDS[key]):
            error, count = bounds.worst(bound, bound.chip, place, got, want, kind)
            if count:
                largest[key, k] = max(
                    (error, bound), largest.get((key, k), (0.0, bound)), key=lambda e: e[0]
                )
    assert {key for key, _ in largest} == set(bounds.BOUNDS)
    slack = {
        key: (error, bound.chip)
        for key, (error, bound) in largest.items()
        if error < bound.chip[1] / 2
    }
    assert not slack


def test_lowering_refuses_what_the_assembler_refuses() -> None:
    refused = 0
    for name in RECORDED:
        recorded = records.read(name)
        for case in family(name):
            if recorded[case.name][1] == REFUSED:
                refused += 1
                with pytest.raises(PtxError, match="cvt"):
                    simulate(case)
    assert refused == 26


@pytest.mark.parametrize(
    ("error", "reason", "count"), [(FAULTED, "tma|tensormap", 16), (HUNG, "setmaxnreg", 1)]
)
def test_stops_where_the_chip_does(error: str, reason: str, count: int) -> None:
    stopped = 0
    for name in RECORDED:
        recorded = records.read(name)
        for case in family(name):
            if recorded[case.name][1] == error:
                stopped += 1
                with pytest.raises(SimulationFault, match=reason):
                    simulate(case)
    assert stopped == count


def test_records_exist() -> None:
    assert tuple(RECORDED) == MODULES
