"""From executed clusters to grids, and to rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.machine_state import MODEL, ROOT, model
from benchmarks.originals import inputs
from benchmarks.timing.side_by_side import callers, others, problems, spread
from benchmarks.timing.side_by_side.extents import (
    TAKEN,
    Costs,
    clusters,
    spent,
    whole,
)
from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.timing.chips import Draw
from sm100sim.timing.records import Action
from testing.tree import imports

LAYOUT = Layout(256, 1, persistent=False)
VALUES = {"sms": 4.0, "cta_cycles": 10, "launch_cycles": 1000, "hbm_gbytes": 1000,
          "clock_mhz": 1000}  # fmt: skip
DRAW = Draw("b200", "sm_100a", 0, VALUES)


def test_longest_tiles_first_head_by_head_or_over_a_section() -> None:
    extent = Extent(3, 512, 512, causal=True, section=2)
    assert extent.tiles(LAYOUT) == [512, 256] * 3
    sections = replace(LAYOUT, order="sections")
    assert extent.tiles(sections) == [512, 512, 256, 256, 512, 256]
    assert replace(extent, causal=False).tiles(LAYOUT) == [512] * 6


def test_keys_count_in_whole_blocks_and_the_last_query_sees_all() -> None:
    extent = Extent(1, 256, 1000, causal=True)
    assert extent.tiles(replace(LAYOUT, rows=128)) == [1024, 896]
    assert extent.tiles(replace(LAYOUT, rows=128, block=192)) == [1152, 960]


def test_a_grid_runs_in_waves_and_a_persistent_one_takes_turns() -> None:
    costs = Costs(((100.0, 50.0, 1.0),), {"tensor": (0.0, 0.0, 0.5)}, 0.0)
    extent = Extent(3, 512, 256, causal=False)  # six tiles of 256 keys on four SMs
    found = whole(costs, LAYOUT, extent, [DRAW], 0)
    assert list(found.cycles) == [1000 + 2 * (10 + 100 + 50 + 256)]
    assert max(found.busy, key=found.busy.__getitem__) == "tensor"
    assert found.busy["tensor"] == pytest.approx(6 * 128 / 4 / found.cycles[0])
    assert found.taken == pytest.approx(6 * 406 / 4 / found.cycles[0])
    waiting = 1 - found.taken
    tiles, keys = 6 * 150 / 4 / found.cycles[0], 6 * 128 / 4 / found.cycles[0]
    assert list(found.beyond.values()) == pytest.approx([waiting, tiles, keys])
    persistent = replace(LAYOUT, persistent=True)
    assert whole(costs, persistent, extent, [DRAW], 0).cycles == (1000 + 10 + 100 + 2 * 306,)
    pairs = whole(costs, replace(LAYOUT, cluster=2), extent, [DRAW], 0)
    assert pairs.cycles == (1000 + 3 * (10 + 100 + 50 + 256),)


def test_every_other_round_may_go_backwards() -> None:
    turns = replace(LAYOUT, persistent=True, turns=True)
    tiles = list(range(10))
    assert [turns.taken(tiles, c, 4) for c in range(4)] == [[0, 7, 8], [1, 6, 9], [2, 5], [3, 4]]
    forwards = replace(turns, turns=False)
    assert [forwards.taken(tiles, c, 4) for c in (0, 3)] == [[0, 4, 8], [3, 7]]
    assert LAYOUT.taken(tiles, 3, 10) == [3]


def test_smaller_problems_take_the_kernel_of_the_whole_one() -> None:
    causal = problems.Family((128, 128), True)
    for length, batch, scheduler in ((1024, 32, "persistent"), (32768, 1, "dynamic")):
        found = callers.settled(problems.COLUMNS[0], causal.problem(length, batch))
        assert dict(found.options) == {"scheduler": scheduler, "num_qo": 2}
    assert callers.settled(problems.COLUMNS[2], causal.problem(1024, 32)) is problems.COLUMNS[2]


def test_bytes_that_must_move_bound_a_launch() -> None:
    costs = Costs(((100.0, 50.0, 1.0),), {"tensor": (0.0, 0.0, 0.5)}, 0.0)
    found = whole(costs, LAYOUT, Extent(1, 256, 256, causal=False), [DRAW], 5_000_000)
    assert list(found.cycles) == [1000 + 5000]
    assert found.busy["HBM"] == pytest.approx(5000 / 6000)


def request(grid: tuple[int, int, int], cluster: int = 1) -> Any:
    return SimpleNamespace(grid=grid, cluster=(cluster, 1, 1))


def test_sampled_tiles_lie_apart_in_the_order_of_the_scheduler() -> None:
    ours, theirs = problems.COLUMNS[0], problems.COLUMNS[2]
    # a head's keys: 1 MiB, so 32 at once
    causal = problems.Family((128, 128), True).problem(2048, 4)
    assert spread.extent_of(causal, "FA4").section == 32
    assert spread.extent_of(causal, "fa4_cute").section == 16
    assert spread.sampled(request((16, 8, 4)), causal, ours) == [0, 64, 96]
    assert spread.sampled(request((16, 16, 4), cluster=2), causal, ours) == [0, 64, 96]
    persistent = replace(ours, options=(("scheduler", "persistent"),))
    assert spread.sampled(request((148, 1, 1)), causal, persistent) == [0, 3, 140]
    assert spread.sampled(request((512, 1, 1)), causal, theirs) == [0, 128, 192]
    assert spread.sampled(request((512, 1, 1)), replace(causal, causal=False), theirs) == [0]


def test_a_launch_executed_as_it_is_stands_by_a_cta_of_most_tiles() -> None:
    """Of persistent CTAs that go back and forth the first can have fewer tiles than others."""
    options = (("scheduler", "persistent"), ("num_qo", 1))
    ours = replace(problems.COLUMNS[0], options=options)
    for batch, heads in ((1, 148), (10, 16), (2, 148), (20, 16), (32, 16), (128, 16)):
        short = replace(problems.Family((128, 128), False).problem(64, batch), heads=heads,
                        heads_kv=heads)  # fmt: skip
        asked = request((min(148, batch * heads), 1, 1))
        (cluster,) = spread.busiest(asked, short, ours)
        count, tiles = clusters(asked), [64] * (batch * heads)
        layout = Layout(128, 1, persistent=True, turns=True)
        taken = [len(layout.taken(tiles, number, count)) for number in range(count)]
        assert taken[cluster] == max(taken), (batch, heads)
        assert spread.busiest(asked, short, problems.COLUMNS[2]) == [0]
    assert spread.sampled(asked, short, ours) == [0]
    several = replace(short, batch=10, heads=16, heads_kv=16)
    assert spread.busiest(request((148, 1, 1)), several, ours) == [147]
    one_each = replace(ours, options=(("scheduler", "tile"), ("num_qo", 1)))
    assert spread.busiest(request((1, 16, 10)), several, one_each) == [0]


def test_who_goes_head_by_head_and_who_begins_with_the_first_queries() -> None:
    modular, cutlass = problems.COLUMNS[5], problems.COLUMNS[6]
    causal = problems.Family((128, 128), True).problem(1024, 1)
    asked = request((4, 16, 1))
    assert spread.sampled(asked, causal, modular) == spread.sampled(asked, causal, cutlass)
    extent = spread.extent_of(replace(causal, heads=1), "Modular")
    first, last = (spread.layout_of(c, causal, asked) for c in (modular, cutlass))
    assert extent.tiles(first) == [1024, 768, 512, 256]
    assert extent.tiles(last) == [256, 512, 768, 1024]


def test_gluon_takes_tiles_in_turn_over_four_heads_at_once() -> None:
    gluon = next(column for column in problems.COLUMNS if column.runner == spread.TURN)
    causal = problems.Family((128, 128), True).problem(1024, 1)
    asked = request((148, 1, 1))
    assert spread.sampled(asked, causal, gluon) == [0, 4, 140]
    layout = Layout(256, 1, persistent=True, order="sections", runner="Gluon", rising=True)
    tiles = spread.extent_of(replace(causal, heads=8), "Gluon").tiles(layout)
    assert tiles == [keys for keys in (256, 512, 768, 1024) for _ in range(4)] * 2
    assert layout.taken(tiles, 1, 20) == [tiles[1], tiles[21]]


def test_gluon_s_example_needs_a_checkout_and_its_release(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(others.GLUON, raising=False)
    with pytest.raises(FileNotFoundError, match="SM100SIM_GLUON names no checkout"):
        others.gluon_example()
    monkeypatch.setenv(others.GLUON, str(tmp_path))
    monkeypatch.setattr(others, "import_module", lambda _: SimpleNamespace(__version__="3.9.0"))
    with pytest.raises(ValueError, match=r"triton 3\.9\.0: its example needs 3\.6\.0"):
        others.gluon_example()


def test_of_a_program_s_launches_those_with_products_are_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They run with one cluster; a launch that hearing makes is not heard again."""
    ran, heard = list[Any](), list[str]()
    asked = [LaunchRequest(ptx, "k", (8, 1, 1), (32, 1, 1), cluster=(2, 1, 1))
             for ptx in ("tcgen05.mma", "mov")]  # fmt: skip

    def program(words: Any) -> int:
        for one in asked:
            for change in changes:
                ran.append(change(one, RunOptions())[0])
        return int(words[0])

    changes: list[Any] = []

    @contextmanager
    def before(change: Any, **_: Any) -> Iterator[None]:
        changes[:] = [change]
        yield

    def hear(one: LaunchRequest) -> None:
        heard.append(one.ptx)
        assert changes[0](one, RunOptions())[0] is one

    monkeypatch.setattr(others, "before_launch", before)
    monkeypatch.setattr(others, "run_program", program)
    others.launched(["0"], hear)
    assert heard == ["tcgen05.mma"]
    assert [one.grid for one in ran] == [(2, 1, 1), (8, 1, 1)]
    others.launched(["0"], hear, "")
    assert heard[1:] == ["tcgen05.mma", "mov"]
    with pytest.raises(ValueError, match="3: exit code 3"):
        others.launched(["3"], hear)


def test_what_stops_a_launch_is_told_and_not_only_that_the_program_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = LaunchRequest("tcgen05.mma", "k", (1, 1, 1), (32, 1, 1))

    @contextmanager
    def before(change: Any, **_: Any) -> Iterator[None]:
        monkeypatch.setattr(others, "run_program", lambda words: program(change))
        yield

    def program(change: Any) -> int:
        with pytest.raises(KeyError):
            change(asked, RunOptions())
        return 1

    def hear(_: LaunchRequest) -> None:
        raise KeyError("lanes")

    monkeypatch.setattr(others, "before_launch", before)
    with pytest.raises(KeyError, match="lanes"):
        others.launched(["0"], hear)


def test_what_others_have_no_kernel_for_is_refused() -> None:
    page, packed = (next(o.problem for o in problems.OTHERS if o.problem.group == group)
                    for group in ("paged", "packed"))  # fmt: skip
    with pytest.raises(NotImplementedError, match="packed sequences over pages"):
        others.modular(packed, {}, id)
    with pytest.raises(NotImplementedError, match="no pages"):
        others.cutlass(page, {}, id)
    with pytest.raises(NotImplementedError, match="no pages"):
        others.gluon(page, {}, id, 148)


def test_a_decoding_step_over_pages_in_modular_s_words(tmp_path: Path) -> None:
    problem = replace(problems.OTHERS[0].problem, batch=3, seqlen_k=100, page=64)
    tensors = callers.inputs(problem)
    words = inputs.WRITERS["paged"](tmp_path, others.of_pages(problem, tensors))
    assert words == ["3", "3", "1", "100", "6", "24"]  # pages of a row, and what padding adds
    cached = np.frombuffer((tmp_path / "cached.bin").read_bytes(), np.int32)
    assert cached.tolist() == [99] * 3


def test_units_count_over_all_sms_and_so_does_that_they_have_a_cta() -> None:
    launch: Any = SimpleNamespace(traces=[SimpleNamespace(clusters=c) for c in ((0, 1, 2), (3,))])
    parts = [SimpleNamespace(busy={"mufu": busy}, cycles=10 + busy) for busy in (10.0, 50.0)]
    found: Any = SimpleNamespace(places=4, parts=parts)
    assert spent(launch, found) == {"mufu": 20.0, TAKEN: 30.0}


def launch_of(problem: Any, layout: Layout, mmas: dict[int, int]) -> Any:
    """A launch whose executed clusters made so many MMAs."""
    tiles = len(spread.extent_of(problem, layout.runner).tiles(layout))
    traces = [
        SimpleNamespace(
            clusters=(number,), events=[SimpleNamespace(kind=Action.MMA)],
            streams=[SimpleNamespace(event=np.zeros(count, np.int32))],
        )
        for number, count in mmas.items()
    ]  # fmt: skip
    return SimpleNamespace(grid=(tiles, 1, 1), cluster=(1, 1, 1), traces=traces)


def test_how_many_keys_a_kernel_takes_follows_from_its_mmas() -> None:
    problem = problems.Family((128, 128), True).problem(2048, 4)
    found = launch_of(problem, LAYOUT, {0: 16 * 8, 4: 8 * 8, 6: 4 * 8})
    assert spread.block_of([(found, problem)], LAYOUT) == 128
    wide = launch_of(problem, LAYOUT, {0: 11 * 8, 4: 6 * 8, 6: 3 * 8})
    assert spread.block_of([(wide, problem)], LAYOUT) == 192
    apart = launch_of(problem, LAYOUT, {0: 31 * 4, 4: 15 * 4, 6: 7 * 4})
    assert spread.block_of([(apart, problem)], LAYOUT) == 128  # a half of a block left out in each
    wrong = launch_of(problem, LAYOUT, {0: 100, 4: 99, 6: 98})
    with pytest.raises(ValueError, match=r"\(blocks, MMAs\) of the executed clusters: 128 keys"):
        spread.block_of([(wrong, problem)], LAYOUT)


def test_the_state_of_the_machine_has_a_name() -> None:
    assert len(model()) == 8
    assert (ROOT / MODEL[0] / "chips" / "b200.toml").exists()


def test_the_originals_know_nothing_of_this_page() -> None:
    for path in (ROOT / "benchmarks" / "originals").glob("*.py"):
        assert not any(name.startswith("benchmarks.timing") for name in imports(path)), path
