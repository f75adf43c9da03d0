"""How a dynamic scheduler's query tiles are handed out by their predicted times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.hopper.times.problems import Problem
from benchmarks.timing.side_by_side import extents, problems, rows
from benchmarks.timing.side_by_side.callers import (
    CUDA12,
    Column,
    chosen,
    joined_after,
    packed_spec,
)
from benchmarks.timing.side_by_side.claimed import (
    SMALL,
    SMALL_BY_ROWS,
    SMALL_IN_TURN,
    Handed,
    handed_out,
    small_launches,
    solved,
)
from benchmarks.timing.side_by_side.dynamic import Mixed
from benchmarks.timing.side_by_side.extents import MMAS, Costs, whole
from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout
from benchmarks.timing.side_by_side.spread import OURS, takes_over
from fa4_cute.plan.masks.query_tiles import KeptOrder
from sm100sim.timing.chips import Draw


@dataclass(frozen=True)
class Given(Extent):
    """Query tiles of these keys."""

    keys_of_each: tuple[int, ...] = ()

    def tiles(self, layout: Layout) -> list[int]:
        """Return them, whatever the kernel's are."""
        return list(self.keys_of_each)


@pytest.mark.parametrize(
    ("keys", "places", "last"),
    [
        ([4, 4], 2, 4),
        ([3, 1, 1, 1, 1], 2, 4),
        ([1, 2, 1, 1], 2, 3),
        ([1, 1, 1], 1, 3),
    ],
)
def test_who_ends_a_query_tile_takes_over_the_next(
    keys: list[int], places: int, last: int
) -> None:
    """The long one's CTA takes over none while the other one takes all that are left."""
    costs = Costs(((10.0, 0.0, 1.0),), {MMAS: (0.0, 0.0, 0.5)}, 0.0)
    layout = Layout(1, 1, persistent=False, claims=True)
    draw = Draw("b200", "sm_100a", 0, {"sms": float(places), "cta_cycles": 5, "launch_cycles": 100,
                                       "hbm_gbytes": 1000, "clock_mhz": 1000})  # fmt: skip
    extent = Given(1, 1, 1, causal=True, keys_of_each=tuple(keys))
    found = whole(costs, layout, extent, [draw], 0)
    assert list(found.cycles) == [100 + 5 + 10 + last]
    assert found.busy[MMAS] == pytest.approx(sum(keys) / 2 / places / found.cycles[0])
    taken = (10 * min(places, len(keys)) + sum(keys)) / places
    assert found.taken == pytest.approx(taken / found.cycles[0])


def test_one_cluster_executes_all_query_tiles_of_a_small_launch() -> None:
    layout = Layout(256, 1, persistent=False, claims=True)
    assert layout.taken([512, 256], 0, 2) == [512, 256]
    asked = Column("dynamic", OURS, CUDA12, options=(("scheduler", "dynamic"),))
    assert takes_over(asked)
    assert not takes_over(replace(asked, options=()))


def test_flash_attention_s_ctas_take_over_with_a_mask_but_not_for_pairs() -> None:
    of = {column.name: column for column in problems.COLUMNS if column.clc}
    shown = {
        name: [f.name for f in problems.FAMILIES if problems.offered(column, f) and not f.what]
        for name, column in of.items()
    }
    assert shown == {
        problems.CLC: [f"{dtype} {dims} causal" for dtype in ("bf16", "fp8")
                       for dims in ("d64", "d96", "d128", "d192/128")],
        f"{problems.ONE_CTA}, CLC": ["bf16 d256 causal", "fp8 d256 causal"],
        f"{problems.CLC}, spill-free": ["bf16 d96 causal", "fp8 d192/128 causal"],
    }  # fmt: skip
    packed = [o.name for o in problems.OTHERS for c in of.values() if problems.offered(c, o)]
    assert packed == [
        f"packed {name}, 8/2 heads, causal" for name in ("4,096 to 256", "2,048 and 31 x 128")
    ]
    assert all(takes_over(column) and column.runner == "FA4" for column in of.values())


@pytest.mark.parametrize(
    ("column", "order"),
    [(Column("", OURS, CUDA12, options=(("scheduler", "dynamic"),)), "sections"),
     (Column("", "FA4", CUDA12, clc=True), "heads")],
)  # fmt: skip
def test_tiles_are_handed_out_in_the_order_of_the_kernel_s_own_grid(
    monkeypatch: pytest.MonkeyPatch, column: Column, order: str
) -> None:
    """A chip hands out CTAs in their order, and FlashAttention-4's grid has head after head."""
    request = SimpleNamespace(grid=(8, 2, 1), cluster=(2, 1, 1))
    monkeypatch.setattr(rows, "records", lambda *_: [SimpleNamespace(request=request)])
    monkeypatch.setattr(extents, "of_one", lambda *_: None)
    monkeypatch.setattr(rows, "block_of", lambda *_: 64)
    monkeypatch.setattr(rows, "taken_by", lambda *_: ())
    maker = rows.Maker()
    monkeypatch.setattr(maker, "kernel", lambda *_: None)
    _, layout, _ = maker._executed(column, problems.Family((128, 128), causal=True))
    runner = column.runner
    assert layout == Layout(512, 2, False, order, block=64, runner=runner, claims=True)


def test_query_tiles_of_mixed_lengths_are_those_that_have_queries() -> None:
    layout = Layout(rows=256, cluster=1, persistent=True)
    every = Mixed(2, 600, 600, causal=False, lengths=(600, 100))
    assert every.tiles(layout) == [600, 600, 100, 100, *[600] * 4]
    alone = Layout(rows=256, cluster=1, persistent=False)
    assert every.tiles(alone) == [600] * 6 + [100] * 2
    assert every.tiles(replace(alone, claims=True)) == every.tiles(layout)
    causal = Mixed(1, 600, 600, causal=True, lengths=(600, 100))
    assert causal.tiles(layout) == [600, 512, 256, 100]


def rank(launches: list[Handed]) -> int:
    """How many prices small launches tell apart."""
    work = np.array([launch.work for launch in launches])
    return int(np.linalg.matrix_rank(work[:, launches[-1].priced]))


def test_packed_query_tiles_are_handed_out_longest_first_empty_ones_too() -> None:
    found = Handed.of((600, 100), KeptOrder(heads=2, sections=1, tiles=3, kept=0), 256)
    assert list(found.keys) == [600, 0, 512, 0, 256, 100]
    assert list(found.work) == [1, 4, 1468, 0, 2]
    in_turn = Handed.of((600, 100), KeptOrder(heads=1, sections=2, tiles=3, kept=1), 256)
    assert list(in_turn.keys) == [600, 512, 0, 0, 256, 100]


@pytest.mark.parametrize("group", [1, 4])
def test_small_packed_launches_tell_prices_apart(group: int) -> None:
    problem = Problem("packed", 2, 2048, 2048, group, 1, 128, 128, causal=True, packed=True)
    ours = Column("", OURS, CUDA12, options=(("scheduler", "dynamic"), ("num_qo", 2)))
    few = [
        replace(problem, batch=len(each), seqlen_q=max(each), seqlen_k=max(each)) for each in SMALL
    ]
    found = [handed_out(ours, small, each) for small, each in zip(few, SMALL, strict=True)]
    assert rank(found) == 4


def test_flash_attention_hands_out_one_sequence_after_the_other() -> None:
    """Four query heads of a tile share keys, so that it has 64 queries of each."""
    found = Handed.in_turn((160, 64), heads=2, group=4)
    assert list(found.keys) == [160, 160, 128, 128, 128, 128, 64, 64]
    assert list(found.work) == [1, 2, 320, 6, 0]
    assert rank([Handed.in_turn(few, 1, 4) for few in SMALL_IN_TURN]) == 4
    problem = Problem("packed", 2, 160, 160, 8, 2, 128, 128, causal=True, packed=True)
    fa4 = Column("", "FA4", CUDA12, clc=True)
    assert handed_out(fa4, problem, (160, 64)) == found
    assert small_launches(fa4, problem, (160, 64)) is SMALL_IN_TURN
    ours = Column("", OURS, CUDA12, options=(("scheduler", "dynamic"), ("num_qo", 2)))
    found = handed_out(ours, problem, (160, 160))
    assert list(found.keys) == [160] * 4 + [128] * 4 + [64] * 4


def test_query_tiles_counted_by_rows_are_handed_out_one_sequence_after_the_other() -> None:
    """Rows 600 to 699 begin in the third of 256 rows and end there, so that none is to spare."""
    found = Handed.by_rows((600, 100, 512), heads=2, positions=256, key_tile=128)
    assert list(found.keys[:8]) == [640, 640, 512, 512, 256, 256, 128, 128]
    # 512 rows from 700 on reach into three.
    assert list(found.keys[8:]) == [0, 0, 512, 512, 256, 256]
    assert list(found.work) == [1, 10, 2 * (640 + 512 + 256 + 512 + 256), 2, 2]
    problem = Problem("packed", 4, 2048, 2048, 8, 2, 128, 128, causal=True, packed=True)
    mix = (2048, 1, 1, 1)
    dynamic = (("scheduler", "dynamic"), ("num_qo", 2))
    ours = Column("", OURS, CUDA12, options=dynamic)
    assert handed_out(ours, problem, mix) == Handed.by_rows(mix, 2, 64, 128)
    assert small_launches(ours, problem, mix) is SMALL_BY_ROWS
    assert small_launches(ours, problem, (2048,) * 4) is SMALL


@pytest.mark.parametrize("group", [1, 4])
def test_small_launches_by_rows_are_counted_so_and_tell_prices_apart(group: int) -> None:
    problem = Problem("packed", 4, 2048, 2048, group, 1, 128, 128, causal=True, packed=True)
    ours = Column("", OURS, CUDA12, options=(("scheduler", "dynamic"), ("num_qo", 2)))
    for each in SMALL_BY_ROWS:
        small = replace(problem, batch=len(each), seqlen_q=each[0], seqlen_k=each[0])
        assert packed_spec(ours, small, each).variant.by_rows
    assert rank([handed_out(ours, problem, few) for few in SMALL_BY_ROWS]) == 5


def test_query_tiles_cost_what_small_launches_say() -> None:
    few = [Handed.by_rows(lengths, 1, 64, 128) for lengths in SMALL_BY_ROWS]
    times = [[10 + 5 * t + 2 * k + 70 * lone + 3 * e] for _, t, k, lone, e in (f.work for f in few)]
    price = solved([f.work for f in few], few[0].priced, times).ravel()
    assert price == pytest.approx([10, 5, 2, 70, 3])
    assert Handed((256, 128, 64, 0), 128).cost(price) == pytest.approx([517, 70, 70, 3])
    assert Handed((256, 128)).cost(price) == pytest.approx([517, 261])


def test_what_no_small_launch_has_costs_nothing() -> None:
    few = [Handed.in_turn(lengths, 1, 4) for lengths in SMALL_IN_TURN]
    times = [[10 + 5 * t + 2 * k + 70 * lone] for _, t, k, lone, _ in (f.work for f in few)]
    found = solved([f.work for f in few], few[0].priced, times)
    assert found.ravel() == pytest.approx([10, 5, 2, 70, 0])


def test_packed_columns_take_the_scheduler_of_their_own_call() -> None:
    causal = Problem("packed", 6, 4096, 4096, 8, 8, 128, 128, causal=True, packed=True)
    ours = Column("ours", OURS, CUDA12)
    alike = (4096,) * 6
    assert takes_over(chosen(ours, causal, alike))
    assert not takes_over(chosen(ours, causal, (4096, 1, 1, 1, 1, 1)))  # too few query tiles
    assert chosen(ours, replace(causal, causal=False), alike) is ours
    assert chosen(replace(ours, runner="FA4"), causal, alike).options == ()


def test_fp8_columns_are_asked_in_the_words_of_this_package() -> None:
    ours = Column("ours", OURS, CUDA12)
    packed = Problem("packed", 6, 4096, 4096, 8, 8, 128, 128, causal=True, packed=True)
    assert chosen(ours, replace(packed, dtype="fp8"), (4096,) * 6) is not None
    step = Problem("paged", 4, 1, 16384, 32, 8, 128, 128, page=64)
    assert joined_after(ours, step) > 0
    assert joined_after(ours, replace(step, dtype="fp8")) > 0
    assert joined_after(ours, replace(step, dtype="fp8", seqlen_k=128)) == 0  # keys are whole
