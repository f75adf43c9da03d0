"""What splits of the Blackwell kernels' keys take, where they meet, and how many are tried."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from fa4_cute.plan.config.predicted import LAUNCH_CYCLES
from fa4_cute.plan.config.prediction import EXCHANGED, Costs, DecodingRow
from fa4_cute.plan.config.reduce_scatter import ReduceScatterPlan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.key_splits import WORTH
from fa4_cute.plan.launch.loads import QueryTileLoad
from fa4_cute.plan.launch.sm100_splits import CLUSTERED, SplitLoad, place_of
from fa4_cute.plan.spec.variant import Partition

CLUSTER, LAST, WORKSPACE = Partition.CLUSTER, Partition.LAST, Partition.WORKSPACE
TILE, COMBINE, JOINING = Costs(0, 100, 1024), Costs(500, 10, 1024), Costs(60, 10, 2048)
ROW = DecodingRow("1q", 2, 128, 128, TILE, COMBINE, (50, 60, 70), JOINING)
BANDS = {size: ReduceScatterPlan(size, 128, 128, DType.BF16).remote_bytes for size in (2, 4, 8)}
EXCHANGE = {size: more + BANDS[size] // 12 for size, more in ((2, 50), (4, 60), (8, 70))}
"""Predicted cycles, and those in which 12 bytes a cycle come from other CTAs."""


@pytest.mark.parametrize("dearer", [1.25, 2, 4])
def test_splits_that_pay_do_so_for_dearer_keys(dearer: float) -> None:
    """So that keys whose scores are changed never have more splits than pay."""
    paid = 0
    for units, keys, memory in product((1, 50, 76, 148, 149, 320), (2048, 8192), (0, 9000, 20000)):
        tiles = QueryTileLoad(units, 148, keys, keys, is_even=True)
        load = SplitLoad(tiles, units, 1, memory, ROW, 128)
        costs = ROW.tile._replace(per_keys=int(dearer * ROW.tile.per_keys))
        more = replace(load, row=ROW._replace(tile=costs))
        whole, whole_of_more = load.cycles(1)[WORKSPACE], more.cycles(1)[WORKSPACE]
        for count in range(2, 9):
            if load.cycles(count)[WORKSPACE] <= WORTH * whole:
                paid += 1
                assert more.cycles(count)[WORKSPACE] <= WORTH * whole_of_more
    assert paid > 50


def test_what_splits_take() -> None:
    load = SplitLoad(QueryTileLoad(60, 148, 4096, 4096, is_even=True), 8, 8, 1000, ROW, 128)
    assert load.cycles(1)[WORKSPACE] == LAUNCH_CYCLES + 100 + 4096
    assert load.cycles(2)[CLUSTER] == LAUNCH_CYCLES + 100 + EXCHANGE[2] + 2048
    assert load.cycles(2)[WORKSPACE] == LAUNCH_CYCLES + 100 + 2048 + 500 + 8
    assert load.cycles(4)[WORKSPACE] == LAUNCH_CYCLES + 2 * (100 + 1024) + 500 + 8
    assert load.cycles(2)[LAST] == LAUNCH_CYCLES + 100 + 2048 + 60 + 2
    assert load.cycles(2)[LAST] < load.cycles(2)[CLUSTER]
    assert load.joined(1, load.cycles(1)) is None
    three = load.joined(3, load.cycles(3))
    assert three is not None
    assert three.partition is LAST
    assert three.reason == (
        f"predicted for a B200 are {load.cycles(3)[LAST]:,} cycles by the last CTA, "
        f"{load.cycles(3)[WORKSPACE]:,} in a workspace (of medians of draws)"
    )
    bound = replace(load, memory_cycles=100_000)
    assert bound.cycles(2)[WORKSPACE] == LAUNCH_CYCLES + 100_000 + 508
    # The last CTA begins when all keys have been read.
    assert bound.cycles(2)[LAST] == LAUNCH_CYCLES + 100_000 + 62
    # So do the CTAs of a cluster with their exchange.
    assert bound.cycles(2)[CLUSTER] == LAUNCH_CYCLES + 100_000 + EXCHANGE[2]
    assert replace(load, ov_depth=192).places_of(2) == (LAST, WORKSPACE)


def test_a_place_has_one_key_tile_more_where_splits_differ() -> None:
    tiles = QueryTileLoad(148, 148, 4096, 4096, is_even=True)
    load = SplitLoad(tiles, 8, 8, 0, ROW, 128, key_tile=128)
    whole = replace(load, key_tile=1)
    # 32 key tiles in three splits: 11, 11 and 10, in three rounds
    assert load.cycles(3)[WORKSPACE] - whole.cycles(3)[WORKSPACE] == 11 * 128 - 1366
    assert load.cycles(4) == whole.cycles(4)


def test_pairs_meet_in_a_workspace() -> None:
    row = ROW._replace(exchange=(), last=None)
    load = SplitLoad(QueryTileLoad(8, 74, 8192, 8192, is_even=True), 8, 8, 0, row, 128)
    assert all(tuple(load.cycles(count)) == (WORKSPACE,) for count in (2, 4, 8, 9))


@pytest.mark.parametrize(("size", "fitting"), [(2, 74), (4, 33), (8, 15)])
def test_clusters_that_do_not_fit_at_once_wait_for_a_second_round(size: int, fitting: int) -> None:
    keys = 1024 * size
    load = SplitLoad(QueryTileLoad(fitting, 148, keys, keys, is_even=True), 8, 8, 0, ROW, 128)
    once = 100 + EXCHANGE[size] + 1024
    assert load.cycles(size)[CLUSTER] == LAUNCH_CYCLES + once
    more = replace(load, tiles=replace(load.tiles, units=fitting + 1))
    assert more.cycles(size)[CLUSTER] == LAUNCH_CYCLES + 2 * once


def test_a_cluster_needs_a_known_exchange_and_a_known_device() -> None:
    load = SplitLoad(QueryTileLoad(8, 148, 8192, 8192, is_even=True), 8, 8, 0, ROW, 128)
    clustered = [count for count in range(2, 17) if CLUSTER in load.places_of(count)]
    assert clustered == list(EXCHANGED)
    elsewhere = replace(load, tiles=replace(load.tiles, places=132))
    assert [count for count in EXCHANGED if CLUSTER in elsewhere.places_of(count)] == [2]


def test_a_cluster_needs_a_lead() -> None:
    for lead, place in ((0.94, CLUSTER), (0.95, LAST), (1.0, LAST)):
        assert place_of({CLUSTER: int(100_000 * lead), LAST: 100_000, WORKSPACE: 110_000}) is place
    assert place_of({CLUSTER: 94_000, LAST: 110_000, WORKSPACE: 100_000}) is CLUSTER
    assert place_of({LAST: 100_000, WORKSPACE: 100_000}) is LAST


def test_the_choice_is_the_smallest_of_all_predicted_times_but_for_the_lead_of_a_cluster() -> None:
    for rows in (1, 64, 4096):
        tiles = QueryTileLoad(8, 148, 8192, 8192, is_even=True)
        load = SplitLoad(tiles, 8 * rows, min(rows, 128), 0, ROW, 128)
        for count in (2, 3, 4, 8, 16):
            times = load.cycles(count)
            found = load.joined(count, times)
            assert found is not None
            assert tuple(times) == load.places_of(count)
            others = min(count for place, count in times.items() if place is not CLUSTER)
            best = min(times.values())
            assert times[found.partition] == (best if best < CLUSTERED * others else others)
            assert all(f"{cycles:,}" in found.reason for cycles in times.values())


def test_the_last_cta_takes_as_many_rows_at_once_as_it_has_warps() -> None:
    load = SplitLoad(QueryTileLoad(2, 148, 4096, 4096, is_even=True), 8, 9, 0, ROW, 128)
    assert load.joining_cycles(3, LAST) == 60 + 2 * 2
    many = replace(load, tile_rows=128, rows=256)
    assert many.joining_cycles(3, LAST) == 60 + 16 * 2
    assert many.joining_cycles(5, LAST) == 60 + 16 * (10 + 2)
    assert many.joining_cycles(1, LAST) == many.joining_cycles(1, CLUSTER) == 0
    assert many.joining_cycles(4, CLUSTER) == EXCHANGE[4]


def test_joining_waits_for_rounds_of_loads() -> None:
    """Up to four splits are loaded at once, then sixteen more of them, and so on."""
    load = SplitLoad(QueryTileLoad(1, 148, 65536, 65536, is_even=True), 8, 8, 0, ROW, 128)
    for place, once, row in ((LAST, 60, 2), (WORKSPACE, 500, 8)):
        waits = {count: load.joining_cycles(count, place) for count in (2, 4, 5, 20, 21, 36, 37)}
        assert waits[2] == waits[4] == once + row
        more = 0 if place is LAST else 2 * row
        assert waits[5] == waits[20] == waits[4] + 10 + more
        assert waits[21] == waits[36] == waits[20] + 10 + more
        assert waits[37] > waits[36]


def test_numbers_of_splits_that_are_tried() -> None:
    """Of CTAs with few key tiles the smallest numbers that give none more, in four rounds."""

    def tried(units: int, tiles: int, tile: int = 128) -> tuple[set[int], set[int]]:
        keys = tiles * tile - 1
        load = QueryTileLoad(units, 148, keys, keys, is_even=True)
        even, others = SplitLoad(load, 8, 8, 0, ROW, 128, tile).candidates(keys)
        return set(even), set(others)

    assert tried(1, 1) == ({1}, set())
    assert tried(1, 4) == ({1}, {2, 3, 4})
    assert tried(8, 30) == ({1, 3}, {2, 3, 4, 5, 6, 7, 8, 10, 15, 30})
    assert tried(100, 30)[1] == {2, 3, 4, 5, 6, 7, 8}
    assert tried(40, 30)[1] == {2, 3, 4, 5, 6, 7, 8, 10}
    # Five tiles of 192 keys are the most that are fewer than 1,024, and 256 splits the most.
    assert tried(1, 60, 192)[1] == {2, 3, 4, 5, 6, 7, 8, 12, 15, 20, 30, 60}
    assert max(tried(1, 300)[1]) == 150


def test_splits_of_a_mask_are_as_uneven_as_their_query_tiles() -> None:
    load = SplitLoad(QueryTileLoad(2, 4, 2048, 1536, is_even=False), 8, 4, 0, ROW, 128)
    assert load.cycles(1)[WORKSPACE] == LAUNCH_CYCLES + 100 + 2048
    assert load.cycles(2)[CLUSTER] == LAUNCH_CYCLES + 100 + EXCHANGE[2] + 1024
