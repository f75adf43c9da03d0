"""Which clusters of a launch of attention are executed, and which others each stands for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.hopper.times.problems import TABLE
from benchmarks.timing.attention_traces import chosen, persistent, place, repeated, section
from sm100sim.timing.records import LaunchTrace
from testing.clocked import Program, op

PROBLEMS = {p.name: p for p in TABLE}
CAUSAL = PROBLEMS["full-d128-k1024-b16-h16_16-causal"]


def test_without_a_mask_one_cluster_stands_for_all() -> None:
    plain = replace(CAUSAL, causal=False)
    assert chosen(plain, (8, 16, 16), 132) == [0]
    assert {place(plain, (8, 16, 16), n) for n in range(2048)} == {0}


def test_with_a_mask_each_tile_of_a_head_has_one() -> None:
    grid = (4, 8, 64)  # heads of a section, query tiles, sections of all sequences
    assert list(chosen(CAUSAL, grid, 132)) == [0, 4, 8, 12, 16, 20, 24, 28]
    assert [place(CAUSAL, grid, n) for n in (0, 3, 4, 31, 32, 2047)] == [0, 0, 4, 28, 0, 28]


def test_longest_tiles_first_over_the_heads_that_the_l2_holds() -> None:
    """Keys and values of a head take 512 KiB: 64 heads of 50 MiB, as recorded launches have it."""
    assert section(CAUSAL) == 64
    grid = (2048, 1, 1)
    assert chosen(CAUSAL, grid, 132) == [0, 64, 128, 192, 256, 320, 384, 448]
    found = [place(CAUSAL, grid, n) for n in (0, 63, 64, 511, 512, 2047)]
    assert found == [0, 0, 64, 448, 0, 448]


def test_the_last_section_has_the_heads_that_are_left() -> None:
    """80 heads are 32, 32 and 16: an H200's CTAs from 1,024 on have a shorter tile each 16."""
    problem, grid = PROBLEMS["full-d192_128-k2048-b8-h10_10-causal"], (1280, 1, 1)
    assert section(problem) == 32
    found = [place(problem, grid, n) for n in (1023, 1024, 1039, 1040, 1279)]
    assert found == [480, 0, 0, 32, 480]
    for tile in range(16):
        assert sum(place(problem, grid, n) == 32 * tile for n in range(1280)) == 80


def test_fewer_heads_than_fit_are_one_section() -> None:
    few = replace(CAUSAL, batch=1)
    assert section(few) == 16
    assert [place(few, (128, 1, 1), n) for n in (0, 15, 16, 127)] == [0, 0, 16, 112]


def test_the_busier_of_the_first_and_the_last_persistent_cta_stands_for_all() -> None:
    """Where rounds go backwards in turn, the last CTA may have a tile more than the first."""
    assert chosen(CAUSAL, (132, 1, 1), 132) == [0, 1, 130, 131]
    assert chosen(CAUSAL, (148, 1, 1), 148, 2) == [0, 1, 72, 73]
    assert [persistent(n) for n in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize("of_a_head", [3, 4, 6, 11, 12, 22])
def test_one_of_them_has_no_short_tile(of_a_head: int) -> None:
    """CTAs take tiles in turn, and backwards every other time; the last of each head is short."""
    ctas, rounds = 132, 24
    busy = {
        cta: [
            (turn * ctas + (ctas - 1 - cta if turn % 2 else cta)) % of_a_head
            for turn in range(rounds)
        ]
        for cta in persistent(ctas)
    }
    short = [tiles.count(of_a_head - 1) for tiles in busy.values()]
    assert min(short) == 0
    assert short[0] == short[-1] == rounds // 2
    step = op("NOP")
    few, many = (Program().warp(0, *[step] * n).trace() for n in (2, 3))
    traces = replace(few, clusters=(0,)), replace(many, clusters=(131,))
    launch = LaunchTrace((132, 1, 1), (32, 1, 1), (1, 1, 1), 0, traces)
    (found,) = repeated(launch, CAUSAL, 132).traces
    assert (found.instructions, found.clusters) == (3, tuple(range(132)))
