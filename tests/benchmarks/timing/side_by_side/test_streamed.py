"""Stream-K launches of the side-by-side page, and steps of sequences that differ."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.timing.side_by_side import callers, problems, spread
from benchmarks.timing.side_by_side.steps import mixed
from benchmarks.timing.side_by_side.steps.streamed import Line
from fa4_cute.plan.launch.stream_k import tiles_of_lengths
from fa4_cute.plan.spec.common_spec import START_TILES

OURS, THEIRS = problems.COLUMNS[0], problems.COLUMNS[2]
EQUAL = problems.OTHERS[0]
ONE_LONG = next(other for other in problems.OTHERS if "one of 32,768" in other.name)


def line_of(lengths: list[int], num_ctas: int) -> Line:
    return Line(tiles_of_lengths(lengths, 1, 128, num_ctas, START_TILES), num_ctas)


def test_every_key_tile_belongs_to_one_part() -> None:
    line = line_of([4096, 128, 1000, 0, 9000], 7)
    key_tiles = [tile.key_tiles for tile in line.tiles]
    assert key_tiles == [32, 1, 8, 0, 71]
    parts = list(line.parts())
    assert sum(part.count for _, part in parts) == sum(key_tiles)
    assert len(parts) == sum(part.num_parts for _, part in parts if part.index == 0)
    assert {cta for cta, _ in parts} == set(range(7))
    assert all(0 <= part.index < part.num_parts for _, part in parts)


def test_the_busiest_cta_has_most_key_tiles_with_their_starts_and_most_parts() -> None:
    # 134 places of starts and keys in stretches of 34: the second begins within the keys
    line = line_of([128 * 39, 128 * 29, 128 * 27, 128 * 27], 4)
    assert [tile.stretch for tile in line.tiles] == [34] * 4
    assert line.work() == [(34, 1), (34 + START_TILES, 2), (34 + START_TILES, 2), (35, 2)]
    assert line.busiest() == 1


def test_a_cta_joins_the_query_tile_that_it_ends_with() -> None:
    line = line_of([128 * 39, 128 * 29, 128 * 27, 128 * 27], 4)
    assert line.counted(0) == [1, 0, 0, 0]
    assert line.counted(1) == [0, 1, 0, 0]  # the first CTA ends its part of the first one later
    assert line.counted(3) == [0, 0, 0, 0]  # nobody else has a part of the last one


def test_counters_are_those_of_all_heads_of_a_sequence() -> None:
    """Two lines of two heads of two sequences: 0 and 2 of four are the first one's."""
    tiles = tiles_of_lengths([128 * 39, 128 * 29], 2, 128, 3, START_TILES)
    of_line = [Line(tiles, 3).counted(cta) for cta in range(3)]
    assert of_line == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    for cta, counts in enumerate(of_line):
        found = Line(tiles, 3, 2, 2).counted(cta)
        assert found[::2] == counts
        assert len(found) == 8
        assert not any(found[1::2])


@pytest.mark.parametrize("other", [EQUAL, ONE_LONG])
def test_a_stream_k_launch_stands_by_its_busiest_cta(other: problems.Other) -> None:
    line = callers.line_of(OURS, other.problem, other.lengths)
    assert line is not None
    assert line.num_ctas * line.lines == callers.SMS
    assert (line.lines, line.heads) == (1, 8)
    asked: Any = SimpleNamespace(grid=(148, 1, 1), cluster=(1, 1, 1))
    found = spread.busiest(asked, other.problem, OURS, other.lengths)
    assert found == [line.busiest()]
    fewer: Any = SimpleNamespace(grid=(132, 1, 1), cluster=(1, 1, 1))
    with pytest.raises(ValueError, match="132 CTAs, 148 stretches"):
        spread.busiest(fewer, other.problem, OURS, other.lengths)
    assert callers.line_of(THEIRS, other.problem) is None
    assert spread.busiest(asked, other.problem, THEIRS) == [0]


def test_a_tile_of_many_parts_takes_longer_to_join() -> None:
    problem = ONE_LONG.problem
    assert callers.joined_after(OURS, problem) == 0, "none is cut where all are alike"
    few = callers.joined_after(OURS, problem, [problem.seqlen_k] * (problem.batch - 1) + [1])
    assert 0 < few < callers.joined_after(OURS, problem, ONE_LONG.lengths)
    assert callers.joined_after(THEIRS, ONE_LONG.problem) == 0


def test_sequences_of_a_cache_may_differ() -> None:
    problem = replace(ONE_LONG.problem, batch=3, seqlen_k=300, page=64)
    found = callers.inputs(problem, [300, 64, 1])
    assert found["lengths"].tolist() == [300, 64, 1]
    assert found["q"].shape == found["out"].shape == (3, 1, 32, 128)
    assert found["k"].shape == (5 + 1 + 1, 64, 8, 128)
    used = [*found["table"][0].tolist(), *found["table"][1:, 0].tolist()]
    assert sorted(used) == list(range(7))
    assert found["table"].dtype == torch.int32
    assert not found["table"][1:, 1:].any()


def test_what_flash_attention_hands_out_in_turn() -> None:
    problem = replace(ONE_LONG.problem, heads=8, heads_kv=2)
    steps = mixed.Steps.of(problem, [1000, 128, 200])
    assert steps.tiles(mixed.LAYOUT) == [1024, 1024, 128, 128, 256, 256]
    assert steps.taken(4) == [[1024, 256], [1024, 256], [128], [128]]
    asked: Any = SimpleNamespace(grid=(4, 1, 1), cluster=(1, 1, 1))
    assert mixed.apart(asked, problem, THEIRS, [1000, 128, 200]) == [0, 2]
    whole: Any = SimpleNamespace(grid=(148, 1, 1), cluster=(1, 1, 1))
    # two query tiles, the first long or not, and one
    assert mixed.apart(whole, ONE_LONG.problem, THEIRS, ONE_LONG.lengths) == [0, 8, 108]


def test_lengths_are_spread_over_their_logarithms() -> None:
    lengths = sorted(problems.DRAWN)
    assert len(set(lengths)) == 32
    assert 512 < lengths[0] < 600
    assert 28_000 / 1.1 < lengths[-1] < 32_768
    apart = [b / a for a, b in pairwise(lengths)]
    assert max(apart) / min(apart) < 1.01


def test_their_bytes_are_those_of_each() -> None:
    keys, queries = (32768 + 31 * 1024) * 8 * 256 * 2, 32 * 32 * 256 * 2
    assert problems.moved_bytes(ONE_LONG) == keys + queries
    shown = [column.name for column in problems.COLUMNS if problems.offered(column, ONE_LONG)]
    assert shown == ["fa4_cute, CUDA 12", "fa4_cute, CUDA 13", "FA4, CUDA 12", "FA4, CUDA 13",
                     problems.SPLIT]  # fmt: skip
