from __future__ import annotations

from itertools import product

import pytest

from fa4_cute.plan.facts.bias_tile import (
    CHUNK_COLUMNS,
    CHUNK_GRANULES,
    GRANULE_BYTES,
    LOADED_COLUMNS,
    MATRICES,
    ROWS_AT_ONCE,
    BiasTile,
)
from fa4_cute.plan.facts.hardware import WARP_THREADS
from fa4_cute.plan.facts.wgmma import BLOCK_COLUMNS, WGMMA_ROWS

LANES = range(WARP_THREADS)
BANK_BYTES, BANKS = 4, 32


def granules(tile: BiasTile) -> range:
    return range(tile.num_chunks * CHUNK_GRANULES)


@pytest.mark.parametrize("columns", [64, 96, 112, 128])
def test_every_granule_has_a_place_of_its_own(columns: int) -> None:
    tile = BiasTile(columns)
    places = {
        tile.offset(row, granule % CHUNK_GRANULES, granule // CHUNK_GRANULES)
        for row, granule in product(range(WGMMA_ROWS), granules(tile))
    }
    assert places == set(range(0, tile.num_bytes, GRANULE_BYTES))
    assert tile.num_chunks * CHUNK_COLUMNS >= columns > (tile.num_chunks - 1) * CHUNK_COLUMNS


def test_lanes_copy_whole_rows_of_a_chunk() -> None:
    copied = [BiasTile(128).copied(lane) for lane in LANES]
    assert copied == list(product(range(ROWS_AT_ONCE), range(CHUNK_GRANULES)))


def test_lanes_name_the_rows_of_matrices_that_lie_side_by_side() -> None:
    named = [BiasTile(128).named(lane) for lane in LANES]
    assert named == [(row, granule) for granule, row in product(range(MATRICES), range(8))]
    assert LOADED_COLUMNS == MATRICES * BLOCK_COLUMNS


def banks(places: list[int]) -> list[int]:
    """Of granules that a quarter of a warp touches at once, how often each bank is touched."""
    words = [place // BANK_BYTES + i for place in places for i in range(GRANULE_BYTES // 4)]
    return [sum(word % BANKS == bank for word in words) for bank in range(BANKS)]


def test_what_a_quarter_of_a_warp_touches_meets_every_bank_once() -> None:
    tile = BiasTile(128)
    for first, start in product(range(0, WGMMA_ROWS, 8), range(0, CHUNK_GRANULES, MATRICES)):
        for quarter in range(0, WARP_THREADS, 8):
            lanes = [tile.named(lane) for lane in LANES[quarter : quarter + 8]]
            read = [tile.offset(first + row, start + granule) for row, granule in lanes]
            assert set(banks(read)) == {1}
            lanes = [tile.copied(lane) for lane in LANES[quarter : quarter + 8]]
            written = [tile.offset(first + row, granule) for row, granule in lanes]
            assert set(banks(written)) == {1}
