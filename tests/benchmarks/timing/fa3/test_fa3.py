"""FlashAttention-3's published times: what small launches say of them, and the program."""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.foreign.cutlass_examples import CHECKOUT_VARIABLE
from benchmarks.timing.fa3 import __main__ as main
from benchmarks.timing.fa3.page import page
from benchmarks.timing.fa3.table import CASES, CLOCK_MHZ, EXECUTED, Case, Key, cycles, microseconds
from benchmarks.timing.side_by_side.records import load

START, TILE, BLOCK = 9000, 300, 700


def made_up() -> dict[Key, float]:
    """Launches whose start, tiles and blocks of keys cost as much everywhere."""
    found: dict[Key, float] = {}
    for dim, causal, length, heads in EXECUTED:
        one = Case(dim, causal, 1, 1, length, 0, 0)
        found[dim, causal, length, heads] = START + heads * (
            one.tiles() * TILE + one.blocks() * BLOCK
        )
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_small_launches_say_what_long_ones_take(case: Case) -> None:
    of_head = case.tiles() * TILE + case.blocks() * BLOCK
    heads = case.batch * case.heads
    if case.causal:
        expected = START + of_head * heads / 132
    else:
        clusters = heads * case.tiles() // case.pair
        expected = START + ceil(clusters / (132 // case.pair)) * of_head * case.pair / case.tiles()
    assert cycles(case, made_up()) == pytest.approx(expected)
    assert microseconds(case, made_up()) == pytest.approx(expected / CLOCK_MHZ)


def test_tiles_and_blocks_are_the_kernels() -> None:
    def of(dim: int, causal: bool) -> tuple[int, int]:
        case = next(c for c in CASES if (c.dim, c.causal, c.length) == (dim, causal, 512))
        return case.tiles(), case.blocks()

    assert of(64, False) == (3, 9)  # 192 queries, 192 keys
    assert of(64, True) == (3, 2 + 3 + 4)  # 192 queries, 128 keys
    assert of(128, False) == (4, 12)  # 128 queries, 176 keys
    assert of(128, True) == (4, 10)


def test_the_page_has_each_published_time_and_is_that_of_the_records() -> None:
    text = page(load(main.LAUNCHES))
    assert text == Path("docs/timing_fa3.md").read_text()
    assert text.count("\n| 64 |") + text.count("\n| 128 |") == len(CASES) == 24
    assert "24 of 24 predicted" in text
    assert page([]).count("| not run |") == 24
    ((mean, worst),) = re.findall(r"error ([\d.]+)%,\s+worst (-?\d+)", text)
    (row,) = [s for s in Path("docs/timing.md").read_text().split("\n") if "](timing_fa3.md)" in s]
    assert f"| {mean} %, worst {worst} % |" in row


def test_a_program_needs_both_checkouts_and_is_made_for_hopper(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[Any] = []

    def compile_program(*given: Any, arch: str) -> None:
        made.append((given, arch))

    monkeypatch.setattr(main, "FOLDER", tmp_path)
    monkeypatch.setattr(main, "compile_program", compile_program)
    monkeypatch.setenv(main.FA3, "flash")
    monkeypatch.delenv(CHECKOUT_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match="SM100SIM_CUTLASS names no checkout"):
        main.program(128, causal=True)
    monkeypatch.setenv(CHECKOUT_VARIABLE, "cutlass")
    assert main.program(128, causal=True) == tmp_path / "fa3" / "fa3-128-1"
    ((given, arch),) = made
    assert arch == "90a"
    assert {"-Iflash/hopper", "-Icutlass/include", "-DDIM=128", "-DCAUSAL=1"} <= set(given)
