"""Predict a dynamic scheduler beside a CTA for every query tile and a fixed order, for a B200.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.side_by_side.dynamic

Head dim 128, bf16. What start, query tiles and keys cost follows from executed clusters, as on the
side-by-side page; of a dynamic kernel one cluster executes whole small launches. Who takes which
query tile then follows from those times, draw by draw: a CTA claims a query tile when it begins the
one before. A batch of mixed lengths has the costs of the plain kernels.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.hopper.times.problems import Problem
from benchmarks.timing.side_by_side import extents
from benchmarks.timing.side_by_side.callers import CUDA12, Column, records
from benchmarks.timing.side_by_side.extents import Costs, Executed, Extent, Layout
from benchmarks.timing.side_by_side.rows import TOKENS, Family, Maker
from benchmarks.timing.side_by_side.spread import OURS, extent_of
from sm100sim.timing.chips import Draw
from sm100sim.timing.predict.launches import Band
from sm100sim.timing.sass.trace import Matcher

ROWS, DIM = 256, 128
SMALL: Final = ((1024, 1), (1024, 2), (2048, 1))
"""Lengths and heads of the launches that one cluster of a dynamic kernel executes whole."""
LENGTHS: Final = (1024, 2048, 4096, 8192, 16384, 32768)
MIXED: Final = (4096, 1024, 16384, 8192, 1024, 32768, 2048, 8192, 1024, 4096)
SCHEDULERS: Final = ("tile", "persistent", "dynamic")


@dataclass(frozen=True)
class Mixed(Extent):
    """A batch of sequences of different lengths, in the order of kernels for packed sequences.

    Attributes:
        lengths: of each; `heads` are those of one, `queries` and `keys` those of the longest.
    """

    lengths: tuple[int, ...] = ()

    def tiles(self, layout: Layout) -> list[int]:
        """Keys of each query tile: all heads and sequences of one, then those of the next.

        A CTA for every query tile has those of a head one after the other.
        """
        count = -(-max(self.lengths) // layout.rows)
        order = range(count)[:: -1 if self.causal else 1]
        places = [(t, n) for t in order for n in self.lengths for _ in range(self.heads)]
        if not layout.persistent:
            places = [(t, n) for n in self.lengths for _ in range(self.heads) for t in order]
        return [
            min(length, (tile + 1) * layout.rows) if self.causal else length
            for tile, length in places if tile * layout.rows < length
        ]  # fmt: skip


def taken_over(tiles: Sequence[float], places: int, start: float) -> float:
    """Return when the last of some query tiles ends that CTAs claim, one ahead of the one at work.

    Args:
        tiles: cycles of each, in the order in which they are given out.
        places: CTAs that run. start: cycles before the first query tile of each.
    """
    begin = [(start, tile) for tile in range(min(places, len(tiles)))]
    claimed, last = len(begin), 0.0
    heapq.heapify(begin)
    while begin:
        time, tile = heapq.heappop(begin)
        last = max(last, time + tiles[tile])
        if claimed < len(tiles):
            heapq.heappush(begin, (time + tiles[tile], claimed))
            claimed += 1
    return last


def executed(maker: Maker, causal: bool) -> list[Executed]:
    """What the first cluster of a dynamic kernel takes that executes small launches whole."""
    options = (("scheduler", "dynamic"), ("num_qo", 2))
    column, found = Column("dynamic", OURS, CUDA12, options=options), []
    for length, heads in SMALL:
        problem = Problem("full", 1, length, length, heads, heads, DIM, DIM, causal, "bf16")
        (recorded,) = records(column, problem, lambda _: None)
        kernel = maker.kernel(column, recorded.request)
        launch = Matcher(kernel, recorded).launch([0])
        tiles = Extent(heads, length, length, causal).tiles(Layout(ROWS, 1, True))
        times = extents.times(launch.traces[0], launch, maker.draws)
        found.append(Executed(len(tiles), sum(tiles), times))
    return found


def dynamic_whole(
    costs: Costs, layout: Layout, extent: Extent, draws: Sequence[Draw], hbm_bytes: int
) -> list[float]:
    """Cycles of a launch whose CTAs take over query tiles, by draw."""
    tiles = extent.tiles(layout)
    found = []
    for draw, (first, tile, key) in zip(draws, costs.cycles, strict=True):
        each = [tile + key * keys for keys in tiles]
        ends = taken_over(each, int(draw["sms"]), draw["cta_cycles"] + first)
        moved = hbm_bytes / (draw["hbm_gbytes"] * 1e3 / draw["clock_mhz"])
        found.append(draw["launch_cycles"] + max(ends, moved))
    return found


def said(name: str, found: dict[str, Sequence[float]]) -> str:
    """Return a row: cycles of each scheduler, and the dynamic one's over the others', as bands."""
    cells = [f"{round(found[kind][0]):,}" for kind in SCHEDULERS]
    for kind in SCHEDULERS[:2]:
        band = Band.of(list(np.array(found["dynamic"][1:]) / np.array(found[kind][1:])))
        cells.append(f"{band.median:.3f} ({band.low:.3f}–{band.high:.3f})")
    return f"| {' | '.join((name, *cells))} |"


def main() -> None:
    """Print the table."""
    maker = Maker()
    print("| problem | a CTA a tile | fixed order | dynamic | dynamic / tile | dynamic / fixed |")
    print("|---|---|---|---|---|---|", flush=True)
    for causal in (False, True):
        family, costs = Family((DIM, DIM), causal), {}
        for kind in SCHEDULERS[:2]:
            options = (("scheduler", kind), ("num_qo", 2))
            costs[kind] = maker.costs(Column(kind, OURS, CUDA12, options=options), family)[:2]
        own = Costs.of(executed(maker, causal))
        sections = replace(costs["tile"][1], order="sections", persistent=True)
        heads = family.problem(1024, 1).heads
        mixed = Mixed(heads, max(MIXED), max(MIXED), causal, lengths=MIXED)
        rows: list[tuple[str, Extent, int]] = [
            (f"{n:,}", extent_of(p, OURS), p.bytes()) for n in LENGTHS
            for p in (family.problem(n, TOKENS // n),)
        ]  # fmt: skip
        for name, extent, moved in [*rows, ("mixed", mixed, 0)]:
            found: dict[str, Sequence[float]] = {}
            for kind, (each, layout) in costs.items():
                # Only plain persistent CTAs go back and forth.
                of = replace(layout, turns=layout.turns and extent is not mixed)
                found[kind] = extents.whole(each, of, extent, maker.draws, moved).cycles
            found["dynamic"] = dynamic_whole(own, sections, extent, maker.draws, moved)
            print(said(f"{'causal' if causal else 'all'}, {name}", found), flush=True)


if __name__ == "__main__":
    main()
