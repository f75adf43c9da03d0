"""Whether executed clusters say what start, query tiles and keys cost."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.timing.side_by_side import callers, others, problems, rows, spread
from benchmarks.timing.side_by_side.extents import (
    AMPLIFIED,
    Costs,
    Executed,
    amplified,
    columns,
    uneven,
    whole,
)
from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout
from sm100sim.timing.chips import load_chip


def executed(tiles: int, keys: int, cycles: float, tensor: float = 0) -> Executed:
    time: Any = SimpleNamespace(cycles=cycles, busy={"tensor": tensor, "mufu": 1.0})
    return Executed(tiles, keys, (time,))


def test_two_clusters_tell_start_and_keys_three_tiles_too() -> None:
    costs = Costs.of([executed(1, 1024, 5000, 800), executed(1, 2048, 8000, 1600)])
    (start, tile, key) = costs.cycles[0]
    assert (start, tile, key * 1024) == pytest.approx((2000, 0, 3000))
    assert costs.busy["tensor"][2] * 1024 == pytest.approx(800)
    three = [executed(4, 4096, 17000), executed(2, 2048, 9000), executed(4, 8192, 29000)]
    assert Costs.of(three).cycles[0] == pytest.approx((1000, 1000, 3000 / 1024))
    assert Costs.of(three).residue < 1e-9


def test_clusters_that_differ_in_nothing_tell_nothing_apart() -> None:
    with pytest.raises(ValueError, match="2 executed clusters do not tell"):
        Costs.of([executed(1, 128, 1), executed(2, 256, 2)])


def test_clusters_that_differ_by_few_keys_do_not_say_what_a_key_costs() -> None:
    near = [executed(7, 8960, 157903), executed(7, 8192, 148128), executed(6, 6912, 125845)]
    with pytest.raises(ValueError, match="what a key costs deviates 16 times as much"):
        Costs.of(near)
    far = [executed(7, 17152, 281989), executed(7, 16384, 271462), executed(6, 11008, 187368)]
    assert 0.005 < Costs.of([*near, *far]).residue < 0.01


@pytest.mark.parametrize("name", ["CUTLASS", "FA4", "Gluon", "Modular", "fa4_cute"])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("family", problems.FAMILIES, ids=lambda family: family.name)
def test_the_clusters_of_every_family_say_what_a_key_costs(
    family: problems.Family, persistent: bool, name: str
) -> None:
    if (name == "Gluon" and family.dims[0] not in others.GLUON_DIMS) or (
        name not in ("Gluon", "fa4_cute") and persistent and family.causal
    ) or (family.what and name not in problems.NEAREST):
        return  # there is none
    column = next(column for column in problems.COLUMNS if column.runner == name)
    if persistent:
        column = replace(column, options=(("scheduler", "persistent"),))
    windows = spread.windows_of(family.window)
    sizes = [*product(spread.ALIKE[family.causal], windows),
             *product(spread.IN_TURN[family.causal] * persistent, windows[-1:])]  # fmt: skip
    for size, queries in product((1, 2), (128, 256)):
        found = []
        for problem in (rows.sized(family, *each) for each in sizes):
            layout = Layout(queries, size, persistent, turns=name == "fa4_cute", runner=name,
                            order=spread.order_of(column, problem),
                            rising=name in spread.RISING)  # fmt: skip
            tiles = spread.extent_of(problem, name).tiles(layout)
            count = min(callers.SMS // size, len(tiles)) if persistent else len(tiles)
            asked: Any = SimpleNamespace(grid=(count, 1, 1), cluster=(1, 1, 1))
            for cluster in spread.sampled(asked, problem, column):
                found.append(executed(len(of := layout.taken(tiles, cluster, count)), sum(of), 1))
        given = np.array([(1.0, e.tiles, e.keys) for e in found])[:, columns(found)]
        assert amplified(given) < AMPLIFIED / 2, found


@pytest.mark.parametrize(
    ("causal", "persistent", "asked"),
    [(False, False, [(1024, 8), (2048, 4)]), (False, True, [(1024, 8), (2048, 4), (1024, 3)]),
     (True, False, [(2048, 4)]), (True, True, [(2048, 4), (4096, 2)])],
)  # fmt: skip
def test_persistent_kernels_are_executed_once_more(
    monkeypatch: pytest.MonkeyPatch, causal: bool, persistent: bool, asked: list[tuple[int, int]]
) -> None:
    seen = list[tuple[int, int]]()

    def recorded(_: Any, problem: Any) -> list[Any]:
        seen.append((problem.seqlen_k, problem.batch))
        return [SimpleNamespace(request=None)]

    maker = rows.Maker()
    monkeypatch.setattr(maker, "records", recorded)
    monkeypatch.setattr(maker, "kernel", lambda *_: None)
    monkeypatch.setattr(rows, "Matcher", lambda *_: SimpleNamespace(launch=lambda: None))
    monkeypatch.setattr(rows, "layout_of", lambda *_: Layout(256, 1, persistent))
    monkeypatch.setattr(rows, "block_of", lambda *_: 128)
    monkeypatch.setattr(rows, "taken_by", lambda *_: ())
    maker._executed(problems.COLUMNS[0], problems.Family((128, 128), causal))
    assert seen == asked


def test_a_fit_that_does_not_hold_has_a_residue() -> None:
    bent = [executed(1, 512, 1000), executed(1, 1024, 2000), executed(1, 2048, 5000)]
    assert Costs.of(bent).residue > 0.05


@pytest.mark.parametrize(
    ("work", "places", "least"),
    [
        ([3.0] * 2048, 148, 14 * 148 / 2048),  # one has 14, the average 13.84
        ([3.0] * 2072, 148, 1.0),  # 14 each
        ([3.0] * 10, 148, 14.8),  # one each, and most have none
        ([1.0, 2.0, 9.0], 3, 9 / 4),  # the largest
        ([1.0, 2.0, 3.0, 4.0], 2, 1.0),  # 4 + 1 and 3 + 2
        ([5.0, 5.0, 6.0], 2, 10 / 8),  # one has two, 5 + 5 at least
    ],
)
def test_the_busiest_place_has_whole_tiles(work: list[float], places: int, least: float) -> None:
    assert uneven(work, places) == pytest.approx(least)


def test_no_way_to_give_out_tiles_is_better_than_the_bound() -> None:
    work = [4.0, 4.0, 5.0, 5.0, 7.0]
    for places in (1, 2, 3, 5, 6):
        best = min(
            max(sum(w for w, at in zip(work, given, strict=True) if at == p) for p in range(places))
            for given in product(range(places), repeat=len(work))
        )
        assert 1 <= uneven(work, places) <= best * places / sum(work) + 1e-9


@pytest.mark.parametrize(
    ("persistent", "causal", "heads", "least"),
    [(True, False, 16, 14 * 148 / 2048), (False, False, 16, 14 * 148 / 2048), (True, True, 16, 1),
     (False, True, 1, 148 * 32768 / (128 * 129 * 128))],
)  # fmt: skip
def test_a_launch_says_how_uneven_its_mmas_are(
    persistent: bool, causal: bool, heads: int, least: float
) -> None:
    busy = {"tensor": (0.0, 0.0, 4.0), "mufu": (100.0, 50.0, 3.0)}
    costs = Costs(((1000.0, 500.0, 5.0),), busy, 0.0)
    layout = Layout(256, 1, persistent)
    extent = Extent(heads, 32768, 32768, causal)
    found = whole(costs, layout, extent, [load_chip("b200").draw(0)], 0)
    assert found.uneven == pytest.approx(least)
