"""Measured times in cycles, which clusters stand for which, and the page."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.hopper.times.problems import TABLE
from benchmarks.timing import hopper
from benchmarks.timing.attention_traces import chosen, place, section
from benchmarks.timing.hopper import Case, Measured, measured, order, page

PAGE = hopper.MEASURED.read_text()
PROBLEMS = {p.name: p for p in TABLE}
CAUSAL = PROBLEMS["full-d128-k1024-b16-h16_16-causal"]


def test_times_of_the_first_table_in_cycles_of_its_clock() -> None:
    found = {(m.runner, m.problem.name): m for m in measured(PAGE)}
    row = next(
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines() if line.startswith("| 128 | all | 1,024 ")
    )  # fmt: skip
    problem = replace(CAUSAL, causal=False)
    tflops, megahertz = float(row[4]), float(row[-1])
    expected = 4 * 16 * 16 * 1024**2 * 128 / (tflops * 1e12) * megahertz * 1e6
    assert found["fa4_cute", problem.name].cycles == pytest.approx(expected)
    assert {name.split("-")[0] for _, name in found} == {"full"}
    assert ("fa4_cute", "full-d192_128-k1024-b16-h10_10") in found
    assert len(found) > 100


def test_without_a_mask_one_cluster_stands_for_all() -> None:
    plain = replace(CAUSAL, causal=False)
    assert chosen(plain, (8, 16, 16), 132) == [0]
    assert {place(plain, (8, 16, 16), n, 132) for n in range(2048)} == {0}


def test_with_a_mask_each_tile_of_a_head_has_one() -> None:
    grid = (4, 8, 64)  # heads of a section, query tiles, sections of all sequences
    assert list(chosen(CAUSAL, grid, 132)) == [0, 4, 8, 12, 16, 20, 24, 28]
    assert [place(CAUSAL, grid, n, 132) for n in (0, 3, 4, 31, 32, 2047)] == [0, 0, 4, 28, 0, 28]


def test_longest_tiles_first_over_the_heads_that_the_l2_holds() -> None:
    """Keys and values of a head take 512 KiB: 64 heads of 50 MiB, as recorded launches have it."""
    assert section(CAUSAL) == 64
    grid = (2048, 1, 1)
    assert chosen(CAUSAL, grid, 132) == [0, 64, 128, 192, 256, 320, 384, 448]
    found = [place(CAUSAL, grid, n, 132) for n in (0, 63, 64, 511, 512, 2047)]
    assert found == [0, 0, 64, 448, 0, 448]


def test_persistent_ctas_are_taken_to_be_alike() -> None:
    assert {place(CAUSAL, (132, 1, 1), n, 132) for n in range(132)} == {0}


def case(runner: str, cycles: float, typical: float, problem: Any = CAUSAL) -> Case:
    longest = SimpleNamespace(use=lambda unit: 0.75)
    prediction: Any = SimpleNamespace(
        typical=SimpleNamespace(cycles=typical, longest=longest), compiler="12.9.86",
        band=SimpleNamespace(low=typical * 0.9, high=typical * 1.1),
    )  # fmt: skip
    return Case(Measured(runner, problem, cycles), prediction)


def test_the_page_has_every_case_and_what_failed() -> None:
    cases = [case("fa4_cute", 1000, 900), case("FA4", 800, 960)]
    text = page(cases, ["FA4 x: ValueError: y"])
    assert "2 cases: mean size of the error 15.0%, mean +5.0%, worst +20.0%" in text
    assert "| fa4_cute | 128 | causal | 1,024 | 1,000 | 900 | 810–990 | -10.0% | 75% |" in text
    assert "* FA4 x: ValueError: y" in text
    assert order(cases) == "0 of 1"
    assert order([case("fa4_cute", 1000, 970), case("FA4", 800, 960)]) == "1 of 1"
