"""Packed sequences whose CTAs take over others: small launches, executed whole, say what they cost.

The whole problem cannot be executed cluster by cluster, since the first one would take over all. So
its query tiles are handed out by what a start, a query tile, a key and an empty one cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.hopper.times.problems import Problem
from benchmarks.timing.side_by_side import extents
from benchmarks.timing.side_by_side.callers import Column, packed_spec, posed_with, records
from fa4_cute.plan.facts.hardware import align_up
from fa4_cute.plan.launch.launch import plan_launch
from fa4_cute.plan.launch.packed_rows import first_packed_tile
from fa4_cute.plan.masks.query_tiles import KeptOrder
from fa4_cute.plan.spec.variant import KEPT, WORK_COUNTS
from sm100sim.timing.chips import Draw
from sm100sim.timing.predict.gpu import finish
from sm100sim.timing.records import SassKernel

SMALL: Final = ((1024,), (1024, 1024), (2048,), (2048, 256, 256))
"""Lengths of the launches that one cluster executes whole; the last has empty query tiles."""
SMALL_IN_TURN: Final = ((1024,), (1024, 1024), (2048,), (1024, 128, 128, 128))
"""The same of one sequence after the other; the last has query tiles of one key tile."""
SMALL_BY_ROWS: Final = (
    (1024, 0, 0, 0), (1024, 1024, *[0] * 6), (2048, 0, 0, 0), (2048, 128, 128, 128),
    (1024, *[0] * 5),
)  # fmt: skip
"""The same where query tiles are counted by rows: a sequence without any has an empty one."""
ROWS: Final = 256
"""Queries of a tile of two."""
BLOCK: Final = 128
"""Keys that FlashAttention-4's kernel for head dimension 128 takes at once."""


class Handed(NamedTuple):
    """Query tiles in the order in which they are handed out.

    Attributes:
        keys: of each, 0 of an empty one.
        lone: keys of a query tile that has one key tile, where its price is told apart: what comes
            before and after its products hides behind others less. 0: it is not.
    """

    keys: tuple[int, ...]
    lone: int = 0

    @classmethod
    def of(cls, lengths: Sequence[int], order: KeptOrder, positions: int) -> Handed:
        """Causal ones of so many positions, the longest of a section of heads first."""
        heads = order.heads * order.sections // len(lengths)
        keys = []
        for index in range(heads * len(lengths) * order.tiles):
            block, head = order.place(index)
            first, length = (order.tiles - 1 - block) * positions, lengths[head // heads]
            keys.append(min(length, first + positions) if first < length else 0)
        return cls(tuple(keys))

    @classmethod
    def in_turn(cls, lengths: Sequence[int], heads: int, group: int) -> Handed:
        """FlashAttention-4's: one sequence after the other, the longest tiles of all heads first.

        Args:
            lengths: of the sequences. heads: of keys. group: query heads that share one, and a
                query tile.
        """
        rows = ROWS // group
        keys = (
            min(length, -(-(tile + 1) * rows // BLOCK) * BLOCK)
            for length in lengths for tile in reversed(range(-(-length // rows)))
            for _ in range(heads)
        )  # fmt: skip
        return cls(tuple(keys), BLOCK)

    @classmethod
    def by_rows(
        cls, lengths: Sequence[int], heads: int, positions: int, key_tile: int
    ) -> Handed:
        """One sequence after the other, the longest tiles of all heads first, and spare ones.

        Args:
            lengths: of the sequences. heads: that have query tiles. positions: of one.
            key_tile: keys that it takes at once.
        """
        ends = tuple(accumulate(lengths))
        tiles = [first_packed_tile(row, n, positions) for n, row in enumerate((0, *ends))]
        keys = (
            align_up(min(length, (tile + 1) * positions), key_tile)
            if tile * positions < length else 0
            for length, first, behind in zip(lengths, tiles, tiles[1:], strict=False)
            for tile in reversed(range(behind - first)) for _ in range(heads)
        )  # fmt: skip
        return cls(tuple(keys), key_tile)

    @property
    def work(self) -> tuple[float, float, float, float, float]:
        """A start, query tiles and their keys, those of one key tile, and empty ones."""
        long = [keys for keys in self.keys if keys > self.lone]
        empty = self.keys.count(0)
        return 1.0, len(long), sum(long), len(self.keys) - len(long) - empty, empty

    @property
    def priced(self) -> list[bool]:
        """Which of these have prices; nothing tells what others cost, or asks."""
        return [True, True, True, self.lone > 0, 0 in self.keys]

    def cost(self, price: Sequence[float]) -> list[float]:
        """What each query tile takes, by the prices of ``work``."""
        _, tile, key, lone, empty = price
        return [
            tile + key * keys if keys > self.lone else lone if keys else empty for keys in self.keys
        ]


def handed_out(column: Column, problem: Problem, lengths: Sequence[int]) -> Handed:
    """The query tiles of a column's kernel, in its order."""
    if column.clc:
        group = problem.heads // problem.heads_kv
        return Handed.in_turn(lengths, problem.heads_kv, group)
    spec = packed_spec(column, problem, lengths)
    if spec.variant.by_rows:
        heads = problem.heads // spec.rows_per_position
        return Handed.by_rows(lengths, heads, spec.config.PairBM_eff(), spec.config.BN)
    posed = posed_with(column, problem, lengths)
    counts = plan_launch(spec, posed.sizes, posed.scale).scalars
    works, heads, sections = (int(counts[name]) for name in WORK_COUNTS)
    order = KeptOrder(heads, sections, works // (heads * sections), int(counts[KEPT]))
    return Handed.of(lengths, order, spec.config.PairBM_eff())


def small_launches(column: Column, problem: Problem, lengths: Sequence[int]) -> Any:
    """Lengths of launches that say what those of a problem's kernel cost."""
    if column.clc:
        return SMALL_IN_TURN
    by_rows = packed_spec(column, problem, lengths).variant.by_rows
    return SMALL_BY_ROWS if by_rows else SMALL


def cycles(
    maker: Any, column: Column, problem: Problem, lengths: Sequence[int], moved: int
) -> tuple[list[float], dict[str, float], SassKernel]:
    """What a launch takes by draw, in which each unit of an SM works, and the kernel.

    Args:
        maker: has the draws, and keeps machine code. column, problem, lengths: what is launched.
        moved: bytes that must come from memory and go to it.
    """
    group = problem.heads // problem.heads_kv
    handed = handed_out(column, problem, lengths)
    launches = small_launches(column, problem, lengths)
    priced, work, times = handed.priced, [], []
    for few in launches[: sum(priced)]:
        n = max(few)
        small = replace(problem, batch=len(few), seqlen_q=n, seqlen_k=n, heads=group, heads_kv=1)
        (recorded,) = records(column, small, lambda _: None, few)
        kernel = maker.kernel(column, recorded.request)
        launch = extents.of_one(kernel, recorded)
        work.append(handed_out(column, small, few).work)
        times.append(extents.times(launch.traces[0], launch, maker.draws))
    prices = solved(work, priced, [[time.cycles for time in row] for row in times])
    units = list(times[0][0].busy)
    used = solved(work, priced, [[row[0].busy[unit] for unit in units] for row in times])
    found = [
        _ends(handed, price, draw, moved) for price, draw in zip(prices.T, maker.draws, strict=True)
    ]
    places = int(maker.draws[0]["sms"])
    total = np.array((float(places), *handed.work[1:])) / places
    busy = dict(zip(units, (total @ used).tolist(), strict=True))
    return found, busy | {extents.TAKEN: float(total @ prices[:, 0])}, kernel


def solved(
    work: Sequence[Sequence[float]], priced: Sequence[bool], of: Sequence[Sequence[float]]
) -> Any:
    """Prices of what launches have (``Handed.work``); what is not ``priced`` costs nothing."""
    found = np.zeros((len(priced), len(of[0])))
    found[list(priced)] = np.linalg.solve(np.array(work)[:, list(priced)], np.array(of))
    return found


def _ends(handed: Handed, price: Any, draw: Draw, moved: int) -> float:
    """When the last query tile ends, or memory has moved what it must."""
    each = finish(handed.cost(price.tolist()), int(draw["sms"]), 0.0)
    ends = draw["cta_cycles"] + float(price[0]) + each
    return float(draw["launch_cycles"] + max(ends, extents.moving(moved, draw)))
