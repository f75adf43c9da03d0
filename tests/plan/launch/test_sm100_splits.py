"""Splits of the Blackwell kernels' keys, of decoding steps and of prompts: by predicted cycles."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import fa4_cute
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.config.predicted import LAUNCH_CYCLES
from fa4_cute.plan.config.prediction import EXCHANGED, Costs, DecodingRow
from fa4_cute.plan.config.reduce_scatter import ReduceScatterPlan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.key_splits import WORTH
from fa4_cute.plan.launch.sm100_selection import QueryTileLoad
from fa4_cute.plan.launch.sm100_splits import CLUSTERED, SplitLoad, place_of
from fa4_cute.plan.spec.variant import Partition, Scheduler, ScoreMod

STEP = Problem("bf16", 30, 1, 16384, 8, 2, 128, 128)
PROMPT = Problem("bf16", 1, 512, 2048, 16, 16, 128, 128)
"""64 CTAs with one Q tile, on 148 SMs."""
CLUSTER, LAST, WORKSPACE = Partition.CLUSTER, Partition.LAST, Partition.WORKSPACE


def chosen(problem: Problem, **changes: Any) -> Choice:
    return require(choose(replace(problem, **changes)))


def test_partial_results_of_two_splits_meet_where_it_is_predicted_to_be_sooner() -> None:
    found = chosen(STEP)
    assert found.num_splits == 2
    assert found.split is not None
    assert found.split.partition is LAST
    assert "cycles in a cluster" in found.split.text
    for asked in (2, 4):
        given = chosen(STEP, features=Features(num_splits=asked))
        assert given.split is not None
        assert "predicted" not in given.split.text
    few = chosen(STEP, batch=4)
    assert few.num_splits > 2
    assert few.split is not None
    assert few.split.partition is LAST
    assert "cycles by the last CTA" in few.split.text
    # 32 rows a CTA, of 16 splits, are four rounds of its warps.
    group = chosen(STEP, batch=4, num_q_heads=64)
    assert group.split is not None
    assert group.split.partition is WORKSPACE
    # In a cluster each CTA moves as much for one row as for all.
    many = chosen(STEP, num_q_heads=128, seqlen_k=4096)
    assert many.num_splits == 2
    assert many.split is not None
    assert many.split.partition is CLUSTER
    close = chosen(STEP, num_q_heads=128)
    assert close.split is not None
    assert close.split.partition is WORKSPACE
    assert "137,442 cycles in a cluster (74 at once), 143,731 by the last" in close.split.text


@pytest.mark.parametrize(
    ("units", "head_dim", "keys", "splits"),
    # 48 fill 148 SMs with three splits, which the last CTA joins; 320 are three rounds
    [(48, 128, 4096, 3), (320, 64, 16384, 3), (16, 128, 16384, 9), (256, 64, 8192, 1)],
)
def test_few_splits_are_tried_that_do_not_fill_all_sms(
    units: int, head_dim: int, keys: int, splits: int
) -> None:
    step = Problem("bf16", units, 1, keys, 4, 1, head_dim, head_dim)
    assert chosen(step).num_splits == splits


@pytest.mark.parametrize(
    ("changes", "count", "where"),
    [
        ({}, 2, CLUSTER),
        ({"causal": True, "return_lse": True}, 2, CLUSTER),
        ({"head_dim": 64, "head_dim_v": 64}, 2, CLUSTER),
        # 16 clusters of eight do not run at once on a B200; 15 do.
        ({"num_q_heads": 4, "num_kv_heads": 4, "seqlen_k": 8192}, 8, WORKSPACE),
        ({"num_q_heads": 3, "num_kv_heads": 3, "seqlen_k": 8192}, 8, CLUSTER),
        # Nor do 36 of four; 32 do.
        ({"num_kv_heads": 4, "seqlen_q": 256, "seqlen_k": 4096}, 4, CLUSTER),
        ({"num_q_heads": 9, "num_kv_heads": 9, "seqlen_k": 4096}, 4, WORKSPACE),
        ({"num_q_heads": 8, "num_kv_heads": 8, "seqlen_k": 4096}, 4, CLUSTER),
    ],
)
def test_prompts_of_few_ctas_are_split(
    changes: dict[str, Any], count: int, where: Partition
) -> None:
    found = chosen(PROMPT, **changes)
    assert (found.num_splits, found.spec.variant.partition) == (count, where)
    assert found.query_tiles is not None
    assert "one Q tile per CTA" in found.query_tiles.text
    assert found.spec.variant.scheduler is Scheduler.TILE
    assert found.key_splits is not None
    assert f"{count} times as many" in found.key_splits.text


@pytest.mark.parametrize(
    "changes",
    [
        {"seqlen_k": 1023},
        {"batch": 2},
        {"batch": 4},
        {"num_qo": 1},
        {"features": Features(num_splits=1)},
        {"features": Features(ragged_q=True)},
        {"features": Features(used_k=True)},
        {"features": Features(used_k=True, page_size=128)},
        {"features": Features(sink=True)},
        {"features": Features(scheduler=Scheduler.PERSISTENT)},
        {"dtype": "fp8_e4m3"},
        {"head_dim": 192, "head_dim_v": 128},
    ],
)
def test_other_prompts_are_whole(changes: dict[str, Any]) -> None:
    found = chosen(PROMPT, **changes)
    assert (found.num_splits, found.split) == (1, None)
    assert not found.spec.variant.splits_keys


@pytest.mark.parametrize("dtype", ["bf16", "fp8_e4m3"])
def test_few_queries_beside_rope_columns_are_split_like_steps(dtype: str) -> None:
    """Two query tiles of four heads each, of 64 queries: 8 CTAs, where lengths are open, too."""
    few = replace(STEP, batch=1, seqlen_q=64, num_q_heads=16, num_kv_heads=4, dtype=dtype)
    for features in (Features(), Features(used_k=True, page_size=64, ragged_q=True)):
        found = chosen(few, head_dim=192, features=features)
        assert (found.num_splits, found.spec.config.BM_eff()) == (16, 32)
        assert chosen(few, head_dim=192, seqlen_q=129, features=features).num_splits == 1
    # With as many columns of V prompts of open lengths are not.
    assert chosen(few, features=Features(used_k=True, page_size=64)).num_splits == 1


MODIFIED = ScoreMod("soft cap", "digest")


@pytest.mark.parametrize(
    ("changes", "count", "where"),
    [
        ({"dtype": "fp8_e4m3"}, 9, LAST),
        ({"dtype": "fp8_e4m3", "head_dim": 64, "head_dim_v": 64}, 9, LAST),
        ({"dtype": "fp8_e4m3", "head_dim": 96, "head_dim_v": 96}, 9, LAST),
        ({"dtype": "fp8_e4m3", "head_dim": 192}, 9, LAST),
        ({"head_dim": 192}, 9, LAST),
        ({"head_dim": 256, "head_dim_v": 256}, 4, WORKSPACE),
        ({"dtype": "fp8_e4m3", "head_dim": 256, "head_dim_v": 256}, 4, WORKSPACE),
        ({"head_dim": 512, "head_dim_v": 512}, 4, WORKSPACE),
        ({"dtype": "fp8_e4m3", "head_dim": 512, "head_dim_v": 512}, 4, WORKSPACE),
    ],
)
def test_steps_of_other_kernels_are_split(
    changes: dict[str, Any], count: int, where: Partition
) -> None:
    found = chosen(STEP, batch=8, **changes)
    assert (found.num_splits, found.spec.variant.partition) == (count, where)
    assert chosen(STEP, batch=8, seqlen_k=128, **changes).num_splits == 1
    assert chosen(STEP, batch=74, seqlen_k=2048, **changes).num_splits == 1


def test_changes_of_scores_leave_the_choice_as_it_is_and_explain_says_so() -> None:
    plain = chosen(STEP, batch=4)
    for features in (Features(score_mod=MODIFIED), Features(sink=True)):
        found = chosen(STEP, batch=4, features=features)
        assert found.num_splits == plain.num_splits > 2
        assert found.key_splits is not None
        assert "of scores that nothing changes" in found.key_splits.text
        assert chosen(PROMPT, features=features).num_splits == 1
    assert plain.key_splits is not None
    assert "nothing changes" not in plain.key_splits.text


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


def test_explain_says_why_fewer_cycles_do_not_win() -> None:
    found = chosen(STEP, batch=12, seqlen_k=16384)
    assert found.key_splits is not None
    text = found.key_splits.text
    assert found.num_splits == 6
    assert text.endswith(
        "; within 5 % a number wins that gives all SMs as many CTAs (of medians of draws)"
    )
    two = chosen(STEP).key_splits
    assert two is not None
    assert "within 5 %" not in two.text
    assert two.text.endswith(" (of medians of draws)")


def test_ctas_of_pairs_are_counted_one_by_one() -> None:
    found = chosen(STEP, batch=4, head_dim=256, head_dim_v=256)
    assert found.key_splits is not None
    assert "cycles with 16 CTAs, " in found.key_splits.text


def test_explain_says_what_both_are_predicted_to_take() -> None:
    text = fa4_cute.explain(
        head_dim=128, seqlen_q=512, seqlen_k=2048, heads_q=16, heads_k=16, num_qo=None
    )
    assert "2 splits of the keys: predicted for a B200 are" in text
    assert "cycles with 64 CTAs" in text
    assert "times as many" in text
    assert "keys split in 2, joined in a cluster: predicted for a B200" in text
    assert "cycles in a cluster (74 at once), " in text
    whole = fa4_cute.explain(head_dim=128, seqlen_q=1024, seqlen_k=2048, heads_q=16, heads_k=16)
    assert "1 split of the keys: predicted for a B200 are" in whole


def test_who_fixes_the_query_tiles_gets_the_bits_of_any_batch() -> None:
    for problem in (STEP, PROMPT):
        specs = {chosen(problem, num_qo=1, batch=batch).spec for batch in (1, 4, 60)}
        assert len({spec.variant.partition for spec in specs}) == 1


TILE, COMBINE, JOINING = Costs(0, 100, 1024), Costs(500, 10, 1024), Costs(60, 10, 2048)
ROW = DecodingRow("1q", 2, 128, 128, TILE, COMBINE, (50, 60, 70), JOINING)
BANDS = {size: ReduceScatterPlan(size, 128, 128, DType.BF16).remote_bytes for size in (2, 4, 8)}
EXCHANGE = {size: more + BANDS[size] // 12 for size, more in ((2, 50), (4, 60), (8, 70))}
"""Predicted cycles, and those in which 12 bytes a cycle come from other CTAs."""


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
        f"{load.cycles(3)[WORKSPACE]:,} in a workspace"
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


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"seqlen_k": 128}, 1),
        ({"seqlen_k": 256}, 1),
        ({"seqlen_k": 512}, 4),
        ({"seqlen_k": 1024}, 4),
        ({"seqlen_k": 2048}, 16),
        ({"seqlen_k": 4096}, 16),
        # A place takes 4,096 keys in 16 parts as 8,192: the loads of 20 splits wait once.
        ({"seqlen_k": 8192}, 32),
        ({"seqlen_k": 2048, "batch": 37}, 2),
        ({"seqlen_k": 2048, "batch": 74}, 1),
    ],
)
def test_ctas_of_few_keys_are_predicted_as_well(changes: dict[str, Any], count: int) -> None:
    """Parts of 128 to 512 keys, where a rule left 1,024 or more."""
    features = Features(used_k=True, page_size=64)
    found = chosen(STEP, **{"batch": 1, "num_kv_heads": 2, "features": features, **changes})
    assert found.num_splits == count
    fixed = replace(features, num_splits=2)
    assert chosen(STEP, **{"batch": 1, "features": fixed, **changes}).num_splits == 2


def test_many_splits_of_a_pair_do_not_pay() -> None:
    """A combining launch waits 15,000 cycles and more for each further round of loads there."""
    for head_dim in (256, 512):
        dims = {"head_dim": head_dim, "head_dim_v": head_dim}
        for keys in (2048, 4096):
            assert 1 < chosen(STEP, batch=1, seqlen_k=keys, **dims).num_splits <= 4


def test_splits_of_a_mask_are_as_uneven_as_their_query_tiles() -> None:
    load = SplitLoad(QueryTileLoad(2, 4, 2048, 1536, is_even=False), 8, 4, 0, ROW, 128)
    assert load.cycles(1)[WORKSPACE] == LAUNCH_CYCLES + 100 + 2048
    assert load.cycles(2)[CLUSTER] == LAUNCH_CYCLES + 100 + EXCHANGE[2] + 1024
