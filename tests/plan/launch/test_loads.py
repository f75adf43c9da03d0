"""What launches of windows take, and who takes their query tiles; sinks, packed prompts, chunks.

And of functions of scores, whose cost nobody knows; what memory needs, and what is said of cycles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fa4_cute
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.config.predicted import LAUNCH_CYCLES, MEMORY_BYTES_PER_CYCLE
from fa4_cute.plan.config.prediction import Costs, PredictedRow
from fa4_cute.plan.launch import sm100_selection
from fa4_cute.plan.launch.launch import plan_launch
from fa4_cute.plan.launch.loads import IntervalLoad, is_interval, reading_cycles, told
from fa4_cute.plan.launch.sm100_selection import (
    DEAREST,
    BlackwellSpec,
    choose_blackwell_scheduler,
)
from fa4_cute.plan.masks.key_tiles import most_visited, visited_keys
from fa4_cute.plan.masks.masks import CAUSAL, NULL, SlidingWindowMask
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler, Variant
from testing.kernels import BIAS, MOD, UNION

WINDOW = SlidingWindowMask(127, 0)
PROMPT = Problem("bf16", 4, 4096, 4096, 16, 16, 128, 128)
WIDE: dict[str, Any] = {"head_dim": 256, "head_dim_v": 256}
ROWS = {"ragged_q": True, "ragged_k": True}
COSTS = Costs(first=1000, tile=100, per_keys=1024)


def chosen(*, features: dict[str, Any], **changes: Any) -> Choice:
    return require(choose(replace(PROMPT, features=Features(**features), **changes)))


def of_mask(mask: SlidingWindowMask) -> dict[str, Any]:
    return {} if mask == CAUSAL else {"mask": mask}


@given(
    left=st.integers(0, 700), right=st.integers(0, 300), queries=st.integers(1, 1500),
    more=st.integers(0, 900), tile_keys=st.sampled_from((64, 128)),
)  # fmt: skip
def test_query_tiles_visit_the_key_tiles_in_which_some_row_sees_a_key(
    left: int, right: int, queries: int, more: int, tile_keys: int
) -> None:
    keys = queries + more
    found = visited_keys(SlidingWindowMask(left, right), queries, keys, 256, tile_keys)
    expected = []
    for first in range(0, queries, 256):
        rows = range(first + more, min(first + 256, queries) + more)
        seen = range(max(0, rows[0] - left), min(keys, rows[-1] + right + 1))
        expected.append((seen[-1] // tile_keys - seen[0] // tile_keys + 1) * tile_keys)
    assert list(found) == expected


@given(
    left=st.integers(0, 700), queries=st.integers(1, 1500), more=st.integers(0, 900),
    tile_keys=st.sampled_from((64, 128)),
)  # fmt: skip
def test_no_query_tile_visits_more_than_a_window_lets_it(
    left: int, queries: int, more: int, tile_keys: int
) -> None:
    for mask in (SlidingWindowMask(left, 0), CAUSAL):
        found = visited_keys(mask, queries, queries + more, 256, tile_keys)
        assert max(found) <= most_visited(mask, 256, queries + more, tile_keys)
    assert most_visited(CAUSAL, 256, queries, 64) == -(-queries // 64) * 64
    assert most_visited(SlidingWindowMask(127, 0), 256, 10**6, 128) == 512


@given(
    keys=st.lists(st.integers(1, 8), min_size=1, max_size=6).map(sorted),
    section=st.integers(1, 3), sections=st.integers(1, 4), places=st.integers(1, 7),
)  # fmt: skip
def test_persistent_ctas_take_sections_back_and_forth(
    keys: list[int], section: int, sections: int, places: int
) -> None:
    in_order = tuple(1024 * n for n in reversed(keys))
    load = IntervalLoad(in_order, section * sections, places, turns=section)
    works = [n for n in in_order for _ in range(section)] * sections
    assert load.units == len(works)
    ends = [0] * places
    for first in range(0, len(works), places):
        turn = range(places) if first // places % 2 == 0 else reversed(range(places))
        for place, n in zip(turn, works[first : first + places], strict=False):
            ends[place] += COSTS.tile + COSTS.keys(n)
    expected = LAUNCH_CYCLES + COSTS.first + max(ends)
    assert load.persistent_cycles(COSTS) == pytest.approx(expected, abs=2)


@pytest.mark.parametrize("batch", [4, 16])
def test_persistent_windows_go_by_sections_whose_keys_fit_the_l2(batch: int) -> None:
    """A query tile of 256 sees 1,536 of 4,096 keys at most, of 512 bytes: 32 MiB hold 42 heads."""
    problem = replace(PROMPT, batch=batch, features=Features(mask=SlidingWindowMask(1023, 0)))
    spec = require(choose(problem)).spec
    assert isinstance(spec, KernelSpec)
    load = IntervalLoad.of(spec, problem.sizes, 148)
    counts = plan_launch(spec, problem.sizes, 0.1).scalars
    assert spec.in_sections
    assert load.turns == counts["num_heads"] <= 42
    assert counts["num_heads"] * counts["num_sequences"] == load.heads == 16 * batch


def test_a_cta_for_every_query_tile_goes_to_the_place_that_is_free_first() -> None:
    load = IntervalLoad((2048, 1024, 1024), 1, 2)
    each = COSTS.tile + COSTS.keys(1024)
    assert load.tile_cycles(COSTS) == LAUNCH_CYCLES + COSTS.first + 2 * each
    many = replace(load, heads=100)
    total = 100 * (COSTS.tile + COSTS.keys(2048) + 2 * each)
    assert many.tile_cycles(COSTS) == LAUNCH_CYCLES + COSTS.first + total // 2


@pytest.mark.parametrize(
    ("variant", "found"),
    [
        (Variant(WINDOW), True),
        (Variant(WINDOW, return_lse=True), True),
        (Variant(SlidingWindowMask(64, 64)), True),
        (Variant(CAUSAL), False),
        (Variant(NULL), False),
        (Variant(UNION), False),
        (Variant(BIAS & WINDOW), False),
        (Variant(WINDOW, score_mod=MOD), False),
        (Variant(WINDOW, ragged_q=True, ragged_k=True), False),
    ],
)
def test_which_masks_show_an_interval(variant: Variant, found: bool) -> None:
    assert is_interval(variant) is found


@pytest.mark.parametrize("left", [0, 127, 1023])
@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("dims", [(64, 64), (128, 128), (192, 128)])
def test_windows_take_persistent_ctas(dims: tuple[int, int], sink: bool, left: int) -> None:
    features: dict[str, Any] = {"mask": SlidingWindowMask(left, 0), "sink": sink}
    found = chosen(features=features, head_dim=dims[0], head_dim_v=dims[1])
    assert found.spec.variant.scheduler is Scheduler.PERSISTENT
    assert found.scheduler is not None
    assert 0 < found.scheduler.persistent_cycles < found.scheduler.tile_cycles
    assert "persistent ones" in found.scheduler.text


def test_windows_of_wide_heads_take_persistent_pairs() -> None:
    found = chosen(features={"mask": WINDOW}, head_dim=256, head_dim_v=256)
    assert found.spec.variant.scheduler is Scheduler.PERSISTENT


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 1, "num_q_heads": 2, "num_kv_heads": 2},
        {"num_qo": 1},
        {"pair_cta": True},
        {"features": Features(mask=BIAS & WINDOW)},
        {"features": Features(mask=WINDOW, sink=True), "head_dim": 256, "head_dim_v": 256},
    ],
)
def test_other_windows_have_a_cta_for_every_query_tile(changes: dict[str, Any]) -> None:
    found = require(choose(replace(PROMPT, **{"features": Features(mask=WINDOW), **changes})))
    assert (found.spec.variant.scheduler, found.scheduler) == (Scheduler.TILE, None)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [1024, 4096, 16384])
def test_a_sink_leaves_who_takes_the_query_tiles(causal: bool, keys: int) -> None:
    lengths = {"seqlen_q": keys, "seqlen_k": keys, "batch": 16384 // keys}
    sizes: dict[str, Any] = {"causal": causal, **lengths}
    without, found = (chosen(features={"sink": sink}, **sizes) for sink in (False, True))
    assert found.scheduler == without.scheduler
    assert found.spec.variant == replace(without.spec.variant, sink=True)


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("mask", [CAUSAL, WINDOW])
def test_packed_prompts_are_handed_out(mask: SlidingWindowMask, sink: bool) -> None:
    features = {"sink": sink, **ROWS, **of_mask(mask)}
    found = chosen(features=features, batch=16, causal=mask == CAUSAL)
    assert found.spec.variant.scheduler is Scheduler.DYNAMIC


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("mask", [CAUSAL, WINDOW])
def test_chunks_over_pages_are_handed_out(mask: SlidingWindowMask, sink: bool) -> None:
    features = {"sink": sink, "ragged_q": True, "used_k": True, "page_size": 64, **of_mask(mask)}
    found = chosen(features=features, batch=16, seqlen_q=1024, causal=mask == CAUSAL)
    assert found.spec.variant.scheduler is Scheduler.DYNAMIC


@pytest.mark.parametrize("changes", [{}, {"causal": True}, WIDE, {"causal": True, **WIDE}])
def test_a_function_of_scores_has_who_is_best_without_it_whatever_its_keys_cost(
    changes: dict[str, Any],
) -> None:
    found, plain = (chosen(features=f, **changes) for f in ({"score_mod": MOD}, {}))
    assert found.spec.variant.scheduler is plain.spec.variant.scheduler is not Scheduler.TILE
    assert found.scheduler is not None
    assert found.scheduler.text.endswith(f"as well with keys that cost {DEAREST} times as much")
    assert "function" not in getattr(plain.scheduler, "text", "")


@pytest.mark.parametrize(("per_keys", "function"), [(10_500, None), (9_900, Scheduler.PERSISTENT)])
def test_a_function_has_a_cta_for_every_query_tile_where_the_best_goes_by_its_cost(
    monkeypatch: pytest.MonkeyPatch, per_keys: int, function: Scheduler | None
) -> None:
    """Persistent CTAs start once; where their keys cost more, dear ones cost too much more."""
    row = PredictedRow("2q", 2, 128, 128, Costs(0, 3000, 10_000), Costs(3000, 0, per_keys))
    monkeypatch.setattr(sm100_selection, "UNMASKED", (row,))
    tile = {"scheduler": Scheduler.TILE}
    found = []
    for mod in (None, MOD):
        spec = chosen(features={"score_mod": mod, **tile}).spec
        assert isinstance(spec, BlackwellSpec)
        found.append(choose_blackwell_scheduler(spec, PROMPT.sizes, 148))
    assert found[0] is not None
    assert found[0].scheduler is Scheduler.PERSISTENT
    assert (found[1].scheduler if found[1] else None) is function


def test_packed_functions_are_handed_out_too() -> None:
    found = chosen(features={**ROWS, "score_mod": MOD}, causal=True)
    assert found.spec.variant.scheduler is Scheduler.DYNAMIC


def test_no_cycles_are_said_that_memory_does_not_give() -> None:
    ways = {"one": 9000, "two": 7000}
    assert told(ways, 0) == "9,000 cycles with one, 7,000 with two"
    assert told(ways, 7000 - LAUNCH_CYCLES) == told(ways, 0)
    assert told(ways, 7001 - LAUNCH_CYCLES) == (
        "9,000 cycles with one, 7,001 with two, of which memory needs 7,001 for keys and values; "
        "else they were 9,000 and 7,000"
    )
    assert told({**ways, "three": 8000}, 20_000 - LAUNCH_CYCLES).endswith("9,000, 7,000 and 8,000")


def test_memory_gives_every_key_of_a_cache_once() -> None:
    found = chosen(features={}, seqlen_q=1, num_q_heads=32, head_dim=192)
    spec: Any = found.spec
    sizes = replace(PROMPT, num_q_heads=32).sizes
    of_key = 2 * (192 + 128)
    assert reading_cycles(spec, sizes) == 4 * 16 * 4096 * of_key // MEMORY_BYTES_PER_CYCLE
    assert reading_cycles(spec, sizes, 128) == 4 * 16 * 128 * of_key // MEMORY_BYTES_PER_CYCLE


def test_lines_about_one_launch_say_as_many_cycles() -> None:
    """A step of decoding whose keys memory gives later than its CTAs would take them."""
    text = fa4_cute.explain(
        head_dim=128, heads_q=16, heads_k=16, batch=64, seqlen_q=1, seqlen_k=8192
    )
    count = "1,106,633"
    assert f"{count} cycles with a CTA for every query tile, {count} with persistent ones" in text
    assert f"{count} cycles with 1024 CTAs" in text
    assert "else they were 593,731 and 571,418 (of means of draws, with rows held once)" in text
    tiles = fa4_cute.explain(head_dim=128, heads_q=40, batch=64, seqlen_q=1, seqlen_k=500)
    assert "172,202 cycles with one Q tile, 173,786 with two, of which memory needs" in tiles


def test_query_tiles_and_scheduler_say_what_each_counts() -> None:
    prompt = {"heads_q": 16, "batch": 8, "seqlen_q": 2048}
    text = fa4_cute.explain(**prompt, head_dim=128, causal=True)
    left_out = "without dynamic CTAs, and by unmasked keys"
    assert f"177,108 with two (of means of draws, {left_out})" in text
    assert "152,319 with dynamic ones (of means of draws)" in text
    narrow = fa4_cute.explain(**prompt, head_dim=64, causal=True)
    assert "with two (of means of draws, without dynamic CTAs)\n" in narrow
    assert "without dynamic CTAs" not in fa4_cute.explain(**prompt, head_dim=128)


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        (
            {"head_dim": 96, "heads_q": 16, "batch": 30, "seqlen_q": 1024, "causal": True},
            "159,031 with persistent ones, 158,811 with dynamic ones; dynamic ones win only by "
            "more than 1 % (of means of draws)",
        ),
        (
            {"head_dim": 128, "heads_q": 24, "batch": 2, "seqlen_q": 1536,
             "window_size": (1024, 0)},
            "50,320 with persistent ones; persistent ones win only by more than 5 %",
        ),
        (
            {"head_dim": 64, "heads_q": 24, "seqlen_q": 2048, "dtype": "fp8_e4m3"},
            "66,609 cycles with one Q tile, 72,538 with two (of means of draws); "
            "within 10 % the rule decides",
        ),
    ],
)  # fmt: skip
def test_who_wins_with_more_cycles_wins_by_a_margin_that_is_said(
    prompt: dict[str, Any], why: str
) -> None:
    assert why in fa4_cute.explain(**prompt)
    most = fa4_cute.explain(head_dim=128, heads_q=16, batch=32, seqlen_q=4096)
    assert "win only" not in most
    assert "within" not in most
