"""From a few executed clusters to a whole grid: what a cluster takes grows with its tiles and keys.

A kernel's clusters take query tiles, each of which goes over some keys. In the steady state a key
tile costs the same everywhere, so the cycles of a cluster are

    start + tiles * (what a tile costs) + keys * (what a key costs)

and two or three executed clusters say those of any other. Every draw of the chip has its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np

from benchmarks.timing.side_by_side.grid.tiles import Extent, Layout
from sm100sim.crew.recording import Recording
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.chips import Draw
from sm100sim.timing.model import ClusterTime, run_cluster
from sm100sim.timing.predict.gpu import LaunchTime, finish, resident_ctas
from sm100sim.timing.predict.whole import bytes_asked, shared_by_all
from sm100sim.timing.records import ClusterTrace, LaunchTrace, SassKernel
from sm100sim.timing.sass.trace import Matcher

COUNTED: Final = ("MMA", "TMA_LOAD", "CP_ASYNC", "BULK_COPY", "ST", "TMA_STORE")
"""Operations by whose number clusters are told apart."""
AMPLIFIED: Final = 5.0
"""How many times a relative deviation of executed clusters may come back in what a key costs."""
TAKEN: Final = "CTA"
"""What counts like a unit: that an SM has one."""
MMAS: Final = "tensor"
"""The unit of the MMAs."""
BEYOND: Final = {
    "waiting": "where an SM has no CTA",
    "tiles": "at starts and ends of CTAs and query tiles",
    "keys": "between key tiles",
}
"""Where an SM's tensor core does not work."""


@dataclass(frozen=True)
class Executed:
    """What one executed cluster took.

    Attributes:
        tiles: query tiles. keys: over all of them.
        times: by draw, the chip's own values first.
    """

    tiles: int
    keys: int
    times: tuple[ClusterTime, ...]


def columns(executed: Sequence[Executed]) -> list[bool]:
    """Which of start, tiles and keys the executed clusters can tell apart."""
    return [True, len({e.tiles for e in executed}) > 1, len({e.keys for e in executed}) > 1]


def amplified(given: np.ndarray[Any, Any]) -> float:
    """How many times a relative deviation of clusters comes back in what the last column costs.

    They deviate independently, and take as long as that column is large: with [clusters, columns]
    a key's share is the last row of the pseudo-inverse.
    """
    return float(np.linalg.norm(np.linalg.pinv(given)[-1] * given[:, -1]))


@dataclass(frozen=True)
class Costs:
    """What start, a tile and a key cost: cycles by draw, and cycles of each unit."""

    cycles: tuple[tuple[float, float, float], ...]
    busy: Mapping[str, tuple[float, float, float]]
    residue: float

    @classmethod
    def of(cls, executed: Sequence[Executed]) -> Costs:
        """Fit some executed clusters; `residue` is the largest relative deviation.

        Raises:
            ValueError: too few differ, or by too few keys.
        """
        known = columns(executed)
        given = np.array([(1.0, e.tiles, e.keys) for e in executed])[:, known]
        if np.linalg.matrix_rank(given) < sum(known):
            raise ValueError(f"{len(executed)} executed clusters do not tell their costs apart")
        if (times := amplified(given)) > AMPLIFIED:
            raise ValueError(f"executed clusters: what a key costs deviates {times:.0f} times as "
                             f"much as they do, {AMPLIFIED:g} times is the most")  # fmt: skip
        draws = range(len(executed[0].times))
        wanted = np.array([[e.times[d].cycles for d in draws] for e in executed])
        found = np.linalg.lstsq(given, wanted, rcond=None)[0]
        residue = float(np.abs(given @ found / wanted - 1).max())
        units = executed[0].times[0].busy
        used = np.array([[e.times[0].busy[unit] for unit in units] for e in executed])
        of_units = np.linalg.lstsq(given, used, rcond=None)[0]
        return cls(
            tuple(_all(known, found[:, d]) for d in draws),
            {unit: _all(known, of_units[:, k]) for k, unit in enumerate(units)},
            residue,
        )


def _all(known: Sequence[bool], values: Sequence[float]) -> tuple[float, float, float]:
    rest = iter(map(float, values))
    start, tile, key = (next(rest) if k else 0.0 for k in known)
    return start, tile, key


@dataclass(frozen=True)
class Whole:
    """A whole launch.

    Attributes:
        cycles: by draw, the chip's own values first.
        busy: share of them, with the chip's own values, in which each unit of an SM works; "HBM":
            in which the bytes that must move do.
        taken: share in which an SM has a CTA: the rest are the launch, and waiting for the last.
        uneven: MMA cycles of the busiest SM over those of the average one, at least (`uneven`).
        beyond: shares in which an SM's tensor core does not work (`BEYOND`).
    """

    cycles: tuple[float, ...]
    busy: Mapping[str, float]
    taken: float
    uneven: float
    beyond: Mapping[str, float]


def whole(
    costs: Costs, layout: Layout, extent: Extent, draws: Sequence[Draw], hbm_bytes: int
) -> Whole:
    """What a launch takes on all SMs, one CTA on each, as `sm100sim.timing.predict` has it."""
    tiles = extent.tiles(layout)
    places = int(draws[0]["sms"]) // layout.cluster
    if layout.claims:
        return _claimed(costs, tiles, places, draws, hbm_bytes)
    count = min(places if layout.persistent else len(tiles), len(tiles))
    taken = [layout.taken(tiles, cluster, count) for cluster in range(count)]
    work = np.array([(1.0, len(t), sum(t)) for t in taken])
    cycles = []
    for draw, price in zip(draws, costs.cycles, strict=True):
        ends = finish((work @ price).tolist(), places, draw["cta_cycles"])
        cycles.append(draw["launch_cycles"] + max(ends, moving(hbm_bytes, draw)))
    total = work.sum(0) / places
    busy = {unit: float(total @ price) / cycles[0] for unit, price in costs.busy.items()}
    busy["HBM"] = moving(hbm_bytes, draws[0]) / cycles[0]
    start, tile, key = costs.busy[MMAS]
    each = tile + start * (not layout.persistent)
    least = uneven([each + key * keys for keys in tiles], places)
    return _whole(costs, total, cycles, busy, least)


def _whole(
    costs: Costs, total: np.ndarray[Any, Any], cycles: Sequence[float], busy: Mapping[str, float],
    least: float,
) -> Whole:  # fmt: skip
    """A launch whose SMs have ``total`` starts, tiles and keys on average."""
    taken = total * costs.cycles[0] / cycles[0]
    start, tiles, keys = (taken - total * costs.busy[MMAS] / cycles[0]).tolist()
    parts = (1 - float(taken.sum()), start + tiles, keys)
    return Whole(
        tuple(cycles), busy, float(taken.sum()), least, dict(zip(BEYOND, parts, strict=True))
    )


def uneven(work: Sequence[float], places: int) -> float:
    """By how much the busiest of some places exceeds the average one, at least.

    Whoever gives out the pieces: one place has the largest, and one has as many as their number
    over that of places, rounded up, none smaller than the smallest.

    Args:
        work: of each piece; none is shared between places. places: that take them.
    """
    mean, most = sum(work) / places, -(-len(work) // places)
    return max(mean, *work, most * min(work)) / mean


def _claimed(
    costs: Costs, tiles: Sequence[int], places: int, draws: Sequence[Draw], hbm_bytes: int
) -> Whole:
    """What a launch takes whose clusters take over tiles, the next one as they end one."""
    cycles = []
    for draw, (start, tile, key) in zip(draws, costs.cycles, strict=True):
        each = [tile + key * keys for keys in tiles]
        ends = draw["cta_cycles"] + start + finish(each, places, 0.0)
        cycles.append(draw["launch_cycles"] + max(ends, moving(hbm_bytes, draw)))
    started = min(places, len(tiles)) / places
    total = np.array((started, len(tiles) / places, sum(tiles) / places))
    busy = {unit: float(total @ price) / cycles[0] for unit, price in costs.busy.items()}
    busy["HBM"] = moving(hbm_bytes, draws[0]) / cycles[0]
    _, tile, key = costs.busy[MMAS]
    least = uneven([tile + key * keys for keys in tiles], places)
    return _whole(costs, total, cycles, busy, least)


def moving(count: float, draw: Draw) -> float:
    """Cycles in which memory moves so many bytes."""
    return count / (draw["hbm_gbytes"] * 1e3 / draw["clock_mhz"])


def spent(launch: LaunchTrace, found: LaunchTime) -> dict[str, float]:
    """Cycles in which each unit of an SM works, and it has a CTA, on average of all SMs."""
    shares = [len(trace.clusters) / found.places for trace in launch.traces]
    times = [{**part.busy, TAKEN: part.cycles} for part in found.parts]
    return {
        unit: sum(n * time[unit] for n, time in zip(shares, times, strict=True))
        for unit in times[0]
    }


def times(trace: ClusterTrace, launch: LaunchTrace, draws: Sequence[Draw]) -> tuple[
    ClusterTime, ...
]:  # fmt: skip
    """What a cluster takes in each draw, alone on its SMs, where others work on all others.

    Rows that clusters share leave the L2 once; how much all ask of it is told by a first run.

    Raises:
        NotImplementedError: more than one CTA fits an SM and the grid fills them.
    """
    size = prod(launch.cluster)
    places = int(draws[0]["sms"]) // size
    if resident_ctas(launch, draws[0]) > 1 and prod(launch.grid) // size > places:
        raise NotImplementedError("extents: several CTAs share an SM")
    which = next(k for k, one in enumerate(launch.traces) if one is trace)
    alike = shared_by_all(launch).traces[which]
    alone = run_cluster(alike, draws[0].having({"l2_pressure": 0.0})).cycles
    asked = min(places * bytes_asked(trace) / alone / draws[0]["l2_bytes"], 1.0)
    return tuple(run_cluster(alike, draw.having({"l2_pressure": asked})) for draw in draws)


def clusters(launch: LaunchRequest | LaunchTrace) -> int:
    """Clusters of a launch."""
    return prod(launch.grid) // prod(launch.cluster)


def of_one(kernel: SassKernel, recorded: Recording) -> LaunchTrace:
    """The trace of a launch whose first cluster took over all others."""
    launch = Matcher(kernel, recorded).launch([0])
    return replace(launch, taken=launch.begun - 1)


def representatives(kernel: SassKernel, recorded: Recording) -> LaunchTrace:
    """The trace of a launch all of whose clusters ran, or one, which stands for all.

    Those that executed as much are alike.
    """
    matcher = Matcher(kernel, recorded)
    steps, every = recorded.steps, range(clusters(recorded.request))
    if len(np.unique(steps["cluster"])) == 1:
        launch = matcher.launch()
        return replace(launch, traces=(replace(launch.traces[0], clusters=tuple(every)),))
    counts: dict[tuple[int, ...], list[int]] = defaultdict(list)
    kinds = [number for number, name in enumerate(matcher.names) if name in COUNTED]
    marked = steps[[k in set(kinds) for k in steps["instruction"].tolist()]]
    for number in every:
        mine = marked["instruction"][marked["cluster"] == number].tolist()
        counts[tuple(mine.count(kind) for kind in kinds)].append(number)
    launch = matcher.launch([group[0] for group in counts.values()])
    of = {group[0]: group for group in counts.values()}
    traces = tuple(
        replace(t, clusters=tuple(n for first in t.clusters for n in of[first]))
        for t in launch.traces
    )
    return replace(launch, traces=traces)
