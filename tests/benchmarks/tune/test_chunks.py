"""Costs of chunks of prompts over pages: start, query tile, key and empty query tile."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.tune import chunks, costs
from benchmarks.tune.chunks import ALONE, GROUP, PAGE, TAKEN_OVER, Chunk, Chunks, work_of
from fa4_cute.plan.config.predicted import CHUNKS
from fa4_cute.plan.config.prediction import Costs
from fa4_cute.plan.spec.variant import Scheduler

KIND = next(kind for kind in costs.CHUNKS if (kind.dtype, kind.depth) == ("bf16", 128))
START, TILE, KEY, EMPTY = 1000.0, 500.0, 2.0, 70.0


class Fixed(Chunks):
    """Launches whose parts cost what is said."""

    def cycles(self, scheduler: str, launch: Any, cluster: int | None = None) -> list[float]:
        work = work_of(launch, self.positions, self.key_tile)
        if cluster is None:
            found = sum(a * b for a, b in zip(work, (START, TILE, KEY, EMPTY), strict=True))
        else:
            # The cluster of the first query tile, or of an empty one.
            found = EMPTY if cluster else TILE + KEY * launch[0].keys
        return [found] * 3


class Maker:
    """Three draws of a chip."""

    draws = ({"launch_cycles": 100.0, "cta_cycles": 9.0},) * 3


def test_what_launches_hold() -> None:
    # Of two tiles of 64 queries the first sees 64 keys less, in as many key tiles.
    assert work_of((Chunk(2, 1024),), 64, 128) == (1, 2, 2048, 0)
    assert work_of((Chunk(4, 1024), Chunk(1, 300)), 64, 128) == (1, 5, 2 * 1024 + 2 * 896 + 384, 3)
    assert [work_of(each, 64, 128)[3] for each in TAKEN_OVER] == [0, 0, 0, 2]


def test_start_query_tile_key_and_empty_tile_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "ptx_of", lambda kind, scheduler: scheduler)
    record = Fixed(KIND, Maker()).record()
    assert record["ptx"] == {"tile": "tile", "dynamic": "dynamic"}
    assert record["launch"] == [100.0] * 3
    assert record["tile"] == [pytest.approx((0, 9 + TILE, KEY, 9 + EMPTY))] * 3
    assert record["dynamic"] == [pytest.approx((9 + START, TILE, KEY, EMPTY))] * 3
    text = chunks.row_text(KIND, record)
    assert text == (
        '    ChunkRow("2q", 2, 128, 128,\n'
        "             Costs(0, 509, 2048), Costs(1009, 500, 2048), (79, 70)),\n"
    )


def test_costs_are_means_without_the_chips_own_values() -> None:
    draws = [(9.0,) * 4, (1.0, 10.0, 1.0, 5.0), (2.0, 21.0, 3.0, 8.0)]
    assert chunks.means_of(draws) == (Costs(2, 16, 2048), 6)


def test_tensors_are_those_of_the_chunks() -> None:
    launch, _ = ALONE["empty"]
    found = Chunks(KIND, Maker()).tensors(launch)
    assert found["cu_seqlens_q"].tolist() == [0, 128, 192]
    assert found["q"].shape == (192, GROUP, 128)
    assert found["k"].shape == (2048 // PAGE, PAGE, 1, 128)
    assert found["page_table"].flatten().tolist() == list(range(2048 // PAGE))


def test_every_kind_has_a_row_and_kernels_of_their_own() -> None:
    assert len(CHUNKS) == len(costs.CHUNKS)
    for kind in costs.CHUNKS:
        for scheduler in chunks.SCHEDULERS:
            variant = chunks.spec_of(kind, scheduler).variant
            assert (variant.scheduler.name.lower(), variant.page_size) == (scheduler, PAGE)
    assert chunks.spec_of(KIND, "dynamic").variant.scheduler is Scheduler.DYNAMIC
