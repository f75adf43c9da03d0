"""Which clusters of a launch of attention are executed, and which others each stands for."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.hopper.times.problems import TABLE
from benchmarks.timing.attention_traces import chosen, place, section

PROBLEMS = {p.name: p for p in TABLE}
CAUSAL = PROBLEMS["full-d128-k1024-b16-h16_16-causal"]


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
