"""From clusters to a launch: how many fit an SM, in which order they run, and what bounds them all.

Clusters start in the order of their numbers, each where a place is free first. Where an SM holds
several, each place is taken again on its own, while the others go on. Not modelled: that clusters
need SMs of one GPC.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..chips import Draw
from ..model import ClusterTime, Residents, run_cluster
from ..model.residency import THREADS_PER_WARP, cta_registers, limits
from ..records import SECTOR_BYTES, LaunchTrace, atomic
from .memory import NO_TRAFFIC, Traffic, awaited, awaited_by_lanes, normal, of_launch
from .sharing import Kind, groups_of, last_end


@dataclass(frozen=True, eq=False)
class LaunchTime:
    """What a launch takes.

    Attributes:
        cycles: from launch to end. parts: cycles by distinct trace, in the order of the launch's,
            of as many clusters as run at once.
        resident: CTAs of one SM. places: clusters that run at once.
        bound_by: "SMs", or "HBM" where the bytes take longer.
    """

    cycles: float
    parts: tuple[ClusterTime, ...]
    resident: int
    places: int
    bound_by: str

    @property
    def longest(self) -> ClusterTime:
        """The cluster that takes longest."""
        return max(self.parts, key=lambda part: part.cycles)


def resident_ctas(launch: LaunchTrace, draw: Draw) -> int:
    """Return how many CTAs of a launch an SM holds.

    Raises:
        ValueError: not even one fits.
    """
    warps = -(-prod(launch.block) // THREADS_PER_WARP)
    registers = max(trace.kernel.registers for trace in launch.traces)
    found = min(limits(warps, registers, launch.shared_bytes, draw).values())
    if found < 1:
        raise ValueError(
            f"launch: {warps} warps, {cta_registers(registers, warps)} registers and "
            f"{launch.shared_bytes} bytes of shared memory do not fit an SM of {draw.chip}"
        )
    return found


def places_of(launch: LaunchTrace, draw: Draw) -> int:
    """Return how many clusters of a launch run at once."""
    groups = int(draw["sms"]) // prod(launch.cluster)
    held = -(-sum(len(trace.clusters) for trace in launch.traces) // groups)
    return groups * min(resident_ctas(launch, draw), held)


def finish(durations: Sequence[float], places: int, gap: float) -> float:
    """Return when the last of some jobs ends that take the first free place, in their order."""
    free = [0.0] * places
    for duration in durations:
        heapq.heapreplace(free, free[0] + gap + duration)
    return max(free)


def time_launch(
    launch: LaunchTrace, draw: Draw, *, hbm_bytes: int = 0, cold: bool = False
) -> LaunchTime:
    """Return what a launch takes with one draw of a chip's values.

    Args:
        launch: distinct clusters, each with those that it stands for.
        draw: of the chip.
        hbm_bytes: bytes that have to come from memory besides.
        cold: nothing is in the L2 when the launch begins.
    """
    launch, traffic = of_launch(launch, draw, places_of(launch, draw), cold=cold)
    dirty = draw.values.get("l2_dirty_bytes", 0) if cold else 0
    return time_marked(launch, draw, traffic, hbm_bytes, dirty)


def time_marked(
    launch: LaunchTrace, draw: Draw, traffic: Traffic, hbm_bytes: int = 0, dirty: float = 0
) -> LaunchTime:
    """Return what a launch takes whose copies say who shares them and what is fresh.

    Args:
        launch: as `memory.of_launch` has it, with its traffic.
        draw, hbm_bytes: as of `time_launch`. dirty: bytes in the L2 that were written before.
    """
    places = places_of(launch, draw)
    clusters = {number: k for k, t in enumerate(launch.traces) for number in t.clusters}
    groups = int(draw["sms"]) // prod(launch.cluster)
    order = [clusters[number] for number in sorted(clusters)]
    held, gap, copies = -(-len(order) // groups), draw["cta_cycles"], places // groups
    parts = tuple(run_cluster(trace, draw, Residents(copies)) for trace in launch.traces)
    if copies in (1, held):
        work = _ended(launch, draw, order, parts, copies)
    else:  # an SM's share of the time, of as many of a kind as it gets in all
        turns = Residents(copies, held, gap)
        each = [(gap + run_cluster(t, draw, turns).cycles) / held for t in launch.traces]
        work = finish(_scattered(order, each, draw), groups, 0)
    work = max(work, draw.values.get("l2_cycles", 0))
    read = hbm_bytes + traffic.read_in_all(_answered_by_l1(launch, parts))
    moved = _moving(draw, read, traffic.written, dirty)
    return LaunchTime(
        draw["launch_cycles"] + max(work, moved),
        parts,
        resident_ctas(launch, draw),
        places,
        "HBM" if moved > work else "SMs",
    )


def _ended(
    launch: LaunchTrace, draw: Draw, order: Sequence[int], parts: Sequence[ClusterTime], copies: int
) -> float:
    """When the last cluster ends where so many of an SM's have places each taken again on its own.

    `order`: kinds of all of them. `parts`: what one of each takes beside others.
    """
    each, gap = [part.cycles for part in parts], draw["cta_cycles"]
    places = copies * (int(draw["sms"]) // prod(launch.cluster))
    longer = draw.values.get("copy_memory_latency", 0)
    fresh = any(event.fresh for trace in launch.traces for event in trace.events)
    shared = groups_of(launch) if longer and fresh else None
    if shared is None:
        return finish(_scattered(order, each, draw), places, gap)
    near = draw.having({"copy_memory_latency": 0.0})
    kinds = [
        Kind(run_cluster(trace, near, Residents(copies)).cycles, far)
        for trace, far in zip(launch.traces, each, strict=True)
    ]
    return last_end(order, kinds, shared, longer, places, gap)


def _scattered(order: Sequence[int], each: Sequence[float], draw: Draw) -> list[float]:
    """The times of clusters in their order, those of a kind around what one of it takes."""
    spread = draw.values.get("wait_spread", 0)
    return [each[kind] * max(1 + spread * normal(k), 0) for k, kind in enumerate(order)]


def _moving(draw: Draw, read: float, written: float, dirty: float = 0) -> float:
    """Cycles in which memory moves so many bytes.

    `dirty`: bytes in the L2 that somebody wrote before: they have to go as others come. In the end
    as many of the launch's own stay there, as far as it writes.
    """
    gbytes = read / draw["hbm_gbytes"]
    if moved := read + written:
        written += min(dirty, moved) - min(written, dirty * written / moved)
    gbytes += written / draw["hbm_write_gbytes"] if written else 0
    return gbytes * draw["clock_mhz"] / 1e3


def _answered_by_l1(launch: LaunchTrace, parts: Sequence[ClusterTime]) -> float:
    """Bytes of a launch's loads that do not come as far as the L2."""
    return sum(
        SECTOR_BYTES * part.l1_answered * len(trace.clusters) * len(trace.streams) / len(part.warps)
        for trace, part in zip(launch.traces, parts, strict=True)
        if part.l1_answered
    )


def asked_of_l2(launch: LaunchTrace, draw: Draw, *, cold: bool = True) -> Draw:
    """Return a draw that knows how much a launch asks of the L2 and of memory.

    A first run, in which each SM has its port to itself, says in how much time it asks for its
    bytes; what that is of the L2's and memory's rate counts as pressure (`model.happenings`).

    Args:
        launch, draw, cold: as of `time_launch`.
    """
    launch, traffic = of_launch(launch, draw, places_of(launch, draw), cold=cold)
    alone = draw.having({"l2_pressure": 0.0, "hbm_pressure": 0.0})
    first = time_marked(launch, alone, NO_TRAFFIC)
    work = first.cycles - draw["launch_cycles"]
    answered = _answered_by_l1(launch, first.parts)
    asked = traffic.asked - answered
    moving = _moving(draw, traffic.read_in_all(answered), traffic.written)
    pressure = {
        "l2_pressure": min(asked / draw["l2_bytes"] / work, 1),
        # What takes memory longest it takes as long as memory: SMs that wait let others be served.
        "hbm_pressure": moving / work if moving < work else 0.0,
    }
    if "hbm_ahead" in draw.values:
        pressure |= _waiting(launch, alone, work, moving)
        pressure["l2_cycles"] = max(traffic.own - answered, 0) / draw["l2_bytes"]
    return draw.having(pressure)


def _waiting(launch: LaunchTrace, alone: Draw, work: float, moving: float) -> dict[str, float]:
    """How SMs wait for rows of their own that come from memory, and for atomic operations.

    In ``work`` cycles an SM waits as long as a run takes less in which memory answers as soon as
    the L2, and atomic operations at once.
    Each wait for memory is `hbm_slower` times as long where others wait too: `hbm_ahead` of what is
    under way, which is a wait times memory's use, is answered first. That is what an H200's rows
    say, of 33, 66 and 132 SMs, with up to 3,000 cycles of other work between two
    (`benchmarks/timing/sharing/h200_rows.json`). Waits differ, and so do the times of clusters that
    do the same: `wait_spread` is by how much, as a share. For memory each wait differs from the
    next; atomic operations take an SM always as long, another SM longer.
    """
    events = [event for trace in launch.traces for event in trace.events]
    near = alone["global_latency"]

    def waits(**at_once: float) -> float:
        draw = alone.having(at_once)
        less = time_marked(launch, draw, NO_TRAFFIC).cycles - draw["launch_cycles"]
        return max(work - less, 0)

    found, spread = {}, 0.0
    if any(map(awaited, events)):
        waited = waits(hbm_latency=0.0, hbm_deviation=0.0)
        busy = alone["hbm_ahead"] * moving
        # The time of all is work + waited * (slower - 1), with slower = time / (time - busy).
        less = work + busy
        time = (less + (less * less - 4 * busy * (work - waited)) ** 0.5) / 2
        found["hbm_slower"] = time / max(time - busy, time / alone["hbm_slowest"])
        if any(map(awaited_by_lanes, events)):
            spread = waited / (near + alone["hbm_latency"]) * alone["hbm_deviation"] ** 2
    if any(map(atomic, events)):
        times = waits(atomic_latency=-near) / (near + alone["atomic_latency"])
        spread += (times * alone["atomic_deviation"]) ** 2
    return {**found, "wait_spread": spread**0.5 / work}
