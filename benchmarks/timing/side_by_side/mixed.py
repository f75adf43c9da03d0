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
from benchmarks.timing.side_by_side.extents import Costs, Executed, Layout, Whole
from benchmarks.timing.side_by_side.spread import work_of
from fa4_cute.plan.facts.hardware import align_up
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.records import SassKernel
from sm100sim.timing.sass.trace import Matcher

BLOCK: Final = 128
"""Keys that its kernel takes at once."""


@dataclass(frozen=True)
class Handed:
    """Query tiles in the order in which they are handed out, by their keys in whole blocks."""

    keys: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem, lengths: Sequence[int]) -> Handed:
        """Sequence by sequence, with a query tile for each head of keys."""
        return cls(tuple(align_up(n, BLOCK) for n in lengths for _ in range(problem.heads_kv)))

    def tiles(self, _: Layout) -> list[int]:
        """Keys of each query tile, as ``extents.Extent`` has them."""
        return list(self.keys)

    def taken(self, count: int) -> list[list[int]]:
        """Those of each of so many CTAs."""
        return [LAYOUT.taken(self.keys, cta, count) for cta in range(count)]


LAYOUT: Final = Layout(BLOCK, 1, persistent=True, block=BLOCK, runner="FA4")


def apart(
    request: LaunchRequest, problem: Problem, _: Column, lengths: Sequence[int]
) -> list[int]:
    """CTAs that are executed: with each number of query tiles those of fewest and of most keys."""
    taken = Handed.of(problem, lengths).taken(extents.clusters(request))
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
    handed, count = Handed.of(problem, lengths), extents.clusters(first.request)
    if more or count != min(len(handed.keys), int(maker.draws[0]["sms"])):
        raise ValueError(f"{1 + len(more)} launches, the first of {first.request.grid}")
    kernel, taken = maker.kernel(column, first.request), handed.taken(count)
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
    return extents.whole(costs, LAYOUT, handed, maker.draws, moved), costs, kernel
