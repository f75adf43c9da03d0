"""Steps of decoding whose sequences differ in their keys, by FlashAttention-4.

Its persistent CTAs take the query tiles of its launch in turn, sequence by sequence with all heads
of keys, whoever is done first: nothing on the device looks at lengths beforehand, and with more
query tiles than SMs it splits no keys. A few of the CTAs are executed, and by what a start, a query
tile and a key cost of them follows what the others take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.hopper.times.problems import Problem
from benchmarks.timing.side_by_side import extents
from benchmarks.timing.side_by_side.callers import Column
from benchmarks.timing.side_by_side.extents import Costs, Executed, Whole
from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout
from benchmarks.timing.side_by_side.spread import work_of
from fa4_cute.plan.facts.hardware import align_up
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.records import SassKernel
from sm100sim.timing.sass.trace import Matcher

BLOCK: Final = 128
"""Keys that its kernel takes at once."""


@dataclass(frozen=True)
class Steps(Extent):
    """Steps of decoding in the order in which their query tiles are handed out.

    Attributes:
        lengths: keys of each sequence; `heads` are those of one, `keys` those of the longest.
    """

    lengths: tuple[int, ...] = ()

    @classmethod
    def of(cls, problem: Problem, lengths: Sequence[int]) -> Steps:
        """Those of a problem, with a query tile for each head of keys."""
        return cls(problem.heads_kv, 1, max(lengths), causal=False, lengths=tuple(lengths))

    def tiles(self, layout: Layout) -> list[int]:
        """Keys of each query tile, in whole blocks: one sequence after the other."""
        return [align_up(n, layout.block) for n in self.lengths for _ in range(self.heads)]

    def taken(self, count: int) -> list[list[int]]:
        """Those of each of so many CTAs."""
        return [LAYOUT.taken(self.tiles(LAYOUT), cta, count) for cta in range(count)]


LAYOUT: Final = Layout(BLOCK, 1, persistent=True, block=BLOCK, runner="FA4")


def apart(
    request: LaunchRequest, problem: Problem, _: Column, lengths: Sequence[int]
) -> list[int]:
    """CTAs that are executed: with each number of query tiles those of fewest and of most keys."""
    taken = Steps.of(problem, lengths).taken(extents.clusters(request))
    of: dict[int, list[int]] = {}
    for cta, tiles in enumerate(taken):
        of.setdefault(len(tiles), []).append(cta)
    ends = (f(ctas, key=lambda cta: sum(taken[cta])) for ctas in of.values() for f in (min, max))
    return sorted({*ends})


def launch(
    maker: Any, column: Column, problem: Problem, lengths: tuple[int, ...], moved: int
) -> tuple[Whole, Costs, SassKernel]:
    """What a launch takes, what its parts cost, and the kernel.

    Args:
        maker: has the draws, and keeps machine code. column, problem, lengths: what is launched.
        moved: bytes that must come from memory and go to it.

    Raises:
        Declined: the column has no such kernel.
        ValueError: it is another launch than those that are known here.
    """
    first, *more = maker.records(column, problem, lengths, apart)
    steps, count = Steps.of(problem, lengths), extents.clusters(first.request)
    if more or count != min(len(steps.tiles(LAYOUT)), int(maker.draws[0]["sms"])):
        raise ValueError(f"{1 + len(more)} launches, the first of {first.request.grid}")
    kernel, taken = maker.kernel(column, first.request), steps.taken(count)
    ctas = apart(first.request, problem, column, lengths)
    traced = Matcher(kernel, first).launch(ctas)
    executed, per_key = [], set[float]()
    for trace in traced.traces:
        tiles = taken[trace.clusters[0]]
        executed.append(Executed(len(tiles), sum(tiles), extents.times(trace, traced, maker.draws)))
        per_key.add(work_of(trace)[1] / sum(tiles))
    if len(per_key) > 1:
        raise ValueError(f"MMAs of a key: {sorted(per_key)}, so CTAs take other query tiles")
    costs = Costs.of(executed)
    return extents.whole(costs, LAYOUT, steps, maker.draws, moved), costs, kernel
