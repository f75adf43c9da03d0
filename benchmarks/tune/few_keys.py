"""What query tiles of a few key tiles cost: launches of one length each, executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks.hopper.times.problems import Problem
from benchmarks.tune import averages
from fa4_cute.plan.config.prediction import Costs

if TYPE_CHECKING:
    from benchmarks.tune.costs import Kind

KEYS: Final = tuple(range(128, 1025, 128))
"""Lengths of the launches. What a query tile takes does not grow evenly with so few: one Q tile
deals key tiles out to both softmax groups."""
ROUNDS: Final = (2, 6)
"""Query tiles of a persistent CTA by which its start is told from them."""
SMS: Final = 148


class Prompts:
    """Executes CTAs of a kind whose query tiles have few keys."""

    def __init__(self, kind: Kind, maker: Any) -> None:
        """Keep the kind and who executes."""
        self.kind, self.maker = kind, maker

    def cycles(self, scheduler: str, keys: int, rounds: int) -> list[float]:
        """Return what a launch takes in which each SM has so many query tiles, by draw."""
        from benchmarks.timing.side_by_side import extents
        from benchmarks.timing.side_by_side.callers import CUDA12, Column
        from sm100sim.timing.predict.gpu import time_launch

        kind, num_qo = self.kind, int(self.kind.kernel[0])
        options = (("scheduler", scheduler), ("num_qo", num_qo))
        column = Column(scheduler, "fa4_cute", CUDA12, options=options)
        dims = (kind.depth, kind.ov_depth)
        problem = Problem("tune", rounds, 128 * num_qo, keys, SMS, SMS, *dims, dtype=kind.dtype)
        (recorded,) = self.maker.records(column, problem)
        kernel = self.maker.kernel(column, recorded.request)
        launch = extents.representatives(kernel, recorded)
        return [time_launch(launch, draw).cycles for draw in self.maker.draws]

    def record(self) -> dict[str, Any]:
        """Return start and query tile of every draw, by length and scheduler."""
        from benchmarks.tune.costs import ptx_of

        starts = [draw["launch_cycles"] for draw in self.maker.draws]
        record: dict[str, Any] = {"name": self.kind.name, "launch": starts}
        record |= {"tile": [], "persistent": []}
        for keys in KEYS:
            one = self.cycles("tile", keys, 1)
            record["tile"].append([(0.0, a - s) for a, s in zip(one, starts, strict=True)])
            few, many = (self.cycles("persistent", keys, rounds) for rounds in ROUNDS)
            found = []
            for start, a, b in zip(starts, few, many, strict=True):
                tile = (b - a) / (ROUNDS[1] - ROUNDS[0])
                found.append((a - start - ROUNDS[0] * tile, tile))
            record["persistent"].append(found)
        record["ptx"] = {s: ptx_of(self.kind, s) for s in ("tile", "persistent")}
        return record


def costs_of(draws: Sequence[Sequence[float]]) -> Costs:
    """Return start and query tile of a length, means over the draws without the chip's own."""
    first, tile = averages.averages(draws, mean)
    return Costs(round(first), round(tile), 0)


def rows_text(kind: Kind, record: Mapping[str, Any]) -> str:
    """Return the rows of the table that a record gives."""
    both = zip(KEYS, record["tile"], record["persistent"], strict=True)
    return "".join(
        f"    PredictedRow({kind.key}, Costs{tuple(costs_of(tile))}, "
        f"Costs{tuple(costs_of(persistent))},\n                 most_keys={keys}),\n"
        for keys, tile, persistent in both
    )
