"""Runs a trace on the clocked machine, and says where the cycles went."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ...contract import clock
from ...engine.binding import load_engine
from ..chips import Draw
from ..records import Action, ClusterTrace, Place
from .tables import Residents, tables_of

SUB_PARTITIONS = 4
ALONE: Final = Residents()
"""One cluster, once."""


class StuckError(RuntimeError):
    """No warp can go on: the trace waits for something that none of its warps brings about."""


@dataclass(frozen=True)
class Span:
    """A span of the timeline, in cycles.

    Attributes:
        copy, rank, warp: who waited, or issued what worked. instruction: index in the kernel.
        what: a reason for waiting, or a unit of the SM.
    """

    start: float
    end: float
    copy: int
    rank: int
    warp: int
    instruction: int
    what: str


@dataclass(frozen=True, eq=False)
class WarpTime:
    """Cycles of a warp, by reason; they add up to `end` less its start."""

    copy: int
    rank: int
    warp: int
    end: float
    reasons: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class ClusterTime:
    """What a cluster takes on its SMs.

    Attributes:
        cycles: until the last warp ended. issued: warp instructions.
        busy: cycles by unit, per sub-partition or per SM, on average.
        executed, stood: by instruction: executions, and cycles that warps stood before it.
        spans: the timeline, as far as there was room; spans_lost: those that did not fit.
        l1_asked, l1_answered: pieces of 32 bytes that loads of lanes asked the L1 for, of all
            copies, and those that it had.
    """

    cycles: float
    issued: int
    busy: Mapping[str, float]
    warps: tuple[WarpTime, ...]
    executed: npt.NDArray[np.uint64]
    stood: npt.NDArray[np.float64]
    spans: tuple[Span, ...]
    spans_lost: int
    l1_asked: int = 0
    l1_answered: int = 0

    def use(self, unit: str) -> float:
        """Return the share of the time that a unit was taken."""
        return self.busy[unit] / self.cycles


@dataclass(frozen=True, eq=False)
class Replay:
    """What the machine wrote of a run, as it wrote it (`contract.clock`).

    Attributes:
        totals, warps, ops, records: of the whole, of each warp, of each instruction, the timeline.
        stands, issued: every wait and every issue; empty unless they were asked for.
        parts: of each sub-partition of each SM.
        ranks: SMs.
    """

    totals: clock.ClockTotals
    warps: ct.Array[clock.ClockWarpTimes]
    ops: ct.Array[clock.ClockOpTimes]
    records: ct.Array[clock.ClockRecord]
    stands: ct.Array[clock.ClockStand]
    issued: ct.Array[ct.c_double]
    parts: ct.Array[clock.ClockPartBusy]
    ranks: int


def replay(
    trace: ClusterTrace,
    draw: Draw,
    residents: Residents = ALONE,
    *,
    room: int = 0,
    stand_room: int = 0,
) -> Replay:
    """Replay a cluster; as `run_cluster`, with room for `stand_room` waits.

    Raises:
        ValueError: waits are asked for of clusters that follow one another.
    """
    copies = residents.copies
    if stand_room and residents.clusters > copies:
        raise ValueError(
            f"clusters: {residents.clusters}; waits are told of {copies} that run at once"
        )
    tables = tables_of(trace, draw, residents)
    tables.given.room, tables.given.stand_room = room, stand_room
    count = len(trace.streams) * copies
    steps = trace.instructions * copies if stand_room else 0
    totals = clock.ClockTotals()
    warps = (clock.ClockWarpTimes * count)()
    ops = (clock.ClockOpTimes * len(trace.kernel.instructions))()
    records, stands = (clock.ClockRecord * room)(), (clock.ClockStand * stand_room)()
    issued = (ct.c_double * steps)()
    parts = (clock.ClockPartBusy * (tables.given.ranks * SUB_PARTITIONS))()
    answer = load_engine().sm100_clock_run(
        ct.byref(tables.given), totals, warps, ops, records, stands, issued, parts
    )
    if answer == clock.NO_MEMORY:
        raise MemoryError("the clocked machine found no memory for its state")
    if answer == clock.STUCK:
        stream = trace.streams[totals.stuck_warp % len(trace.streams)]
        raise StuckError(
            f"{trace.kernel.name}: warp {stream.warp} of rank {stream.rank} waits for ever before "
            f"{trace.kernel.instructions[totals.stuck_op]}{_never_set(trace)}"
        )
    return Replay(totals, warps, ops, records, stands, issued, parts, tables.given.ranks)


def _never_set(trace: ClusterTrace) -> str:
    """Which mbarriers the trace waits for but nowhere initialises, or nothing."""
    places: dict[bool, set[Place]] = {True: set(), False: set()}
    for event in trace.events:
        if event.kind in (Action.MBARRIER_INIT, Action.MBARRIER_WAIT):
            places[event.kind is Action.MBARRIER_INIT] |= set(event.objects)
    missing = sorted((p.rank, p.offset) for p in places[False] - places[True])
    named = ", ".join(f"{offset:#x} of rank {rank}" for rank, offset in missing)
    return f"; the trace initialises no mbarrier at {named}" if missing else ""


def run_cluster(
    trace: ClusterTrace, draw: Draw, residents: Residents = ALONE, *, room: int = 0
) -> ClusterTime:
    """Replay a cluster whose CTAs lie on one SM each.

    Args:
        trace: what its warps executed.
        draw: the values of a chip.
        residents: how often it runs on the same SMs.
        room: how many spans of the timeline to keep.

    Raises:
        StuckError: its warps wait for what never comes.
        MemoryError: the machine's state found no room.
        NotImplementedError: the chip has no value for something that the trace does.
    """
    found = replay(trace, draw, residents, room=room)
    totals = found.totals
    return ClusterTime(
        cycles=totals.cycles,
        issued=totals.issued,
        busy=_busy(totals, found.ranks),
        warps=tuple(_warp_time(trace, k, raw) for k, raw in enumerate(found.warps)),
        executed=np.array([op.executed for op in found.ops], np.uint64),
        stood=np.array([op.stood for op in found.ops]),
        spans=tuple(_span(trace, raw) for raw in found.records[: min(totals.records, room)]),
        spans_lost=max(totals.records - room, 0),
        l1_asked=totals.l1_asked,
        l1_answered=totals.l1_answered,
    )


def _busy(totals: clock.ClockTotals, ranks: int) -> dict[str, float]:
    subs = ranks * SUB_PARTITIONS
    found = {"issue": totals.issued / subs}
    found |= {unit: totals.busy[k] / subs for k, unit in enumerate(clock.UNITS[:-1])}
    found |= {unit: totals.shared_busy[k] / ranks for k, unit in enumerate(clock.SHARED_UNITS)}
    return found


def _warp_time(trace: ClusterTrace, number: int, raw: clock.ClockWarpTimes) -> WarpTime:
    copy, k = divmod(number, len(trace.streams))
    reasons = {reason: raw.reason[r] for r, reason in enumerate(clock.REASONS) if raw.reason[r]}
    return WarpTime(copy, trace.streams[k].rank, trace.streams[k].warp, raw.end, reasons)


def _span(trace: ClusterTrace, raw: clock.ClockRecord) -> Span:
    copy, k = divmod(raw.warp, len(trace.streams))
    stream = trace.streams[k]
    known = len(clock.REASONS)
    what = clock.REASONS[raw.what] if raw.what < known else clock.SHARED_UNITS[raw.what - known]
    return Span(raw.start, raw.end, copy, stream.rank, stream.warp, raw.op, what)
