"""Predict a dynamic scheduler beside a CTA for every query tile and a fixed order, for a B200.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.side_by_side.dynamic [128 | 256 | 512]

Bf16; above head dim 192 a pair of CTAs works at a query tile. What start, query tiles and keys cost
follows from executed clusters, as on the side-by-side page; of a dynamic kernel one cluster
executes whole small launches. Who takes which query tile then follows from those times, draw by
draw: a CTA claims a query tile as it ends the one before. A batch of mixed lengths has the costs of
the plain kernels.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.timing.side_by_side import extents
from benchmarks.timing.side_by_side.callers import CUDA12, Column
from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout
from benchmarks.timing.side_by_side.problems import TOKENS, Family
from benchmarks.timing.side_by_side.rows import Maker
from benchmarks.timing.side_by_side.spread import OURS, extent_of
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH
from sm100sim.timing.predict.launches import Band

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
        if not (layout.persistent or layout.claims):
            places = [(t, n) for n in self.lengths for _ in range(self.heads) for t in order]
        return [
            min(length, (tile + 1) * layout.rows) if self.causal else length
            for tile, length in places if tile * layout.rows < length
        ]  # fmt: skip


def said(name: str, found: dict[str, Sequence[float]]) -> str:
    """Return a row: cycles of each scheduler, and the dynamic one's over the others', as bands."""
    cells = [f"{round(found[kind][0]):,}" for kind in SCHEDULERS]
    for kind in SCHEDULERS[:2]:
        band = Band.of(list(np.array(found["dynamic"][1:]) / np.array(found[kind][1:])))
        cells.append(f"{band.median:.3f} ({band.low:.3f}–{band.high:.3f})")
    return f"| {' | '.join((name, *cells))} |"


def main() -> None:
    """Print the table of a head dim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dim", type=int, nargs="?", default=128)
    dim = parser.parse_args().dim
    tiles = () if dim >= SMALLEST_DEPTH else (("num_qo", 2),)
    maker = Maker()
    print("| problem | a CTA a tile | fixed order | dynamic | dynamic / tile | dynamic / fixed |")
    print("|---|---|---|---|---|---|", flush=True)
    for causal in (False, True):
        family, costs = Family((dim, dim), causal), {}
        for kind in SCHEDULERS:
            options = (("scheduler", kind), *tiles)
            costs[kind] = maker.costs(Column(kind, OURS, CUDA12, options=options), family)[:2]
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
            print(said(f"{'causal' if causal else 'all'}, {name}", found), flush=True)


if __name__ == "__main__":
    main()
