"""A trace as the tables that the clocked machine replays."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...contract import clock
from ...contract.codes import NONE32, WARPGROUP_WARPS
from ..chips import Draw
from ..records import Action, ClusterTrace, Indices, Pipe, Place, SassKernel
from .happenings import Happening, happening_of
from .operands import Form, l1_use
from .residency import l1_lines
from .rules import Cost, cost_of

NAMED_PER_CTA: Final = 16
NAMED: Final = (Action.NAMED_BARRIER, Action.NAMED_ARRIVE)
OP: Final = np.dtype(clock.ClockOp)
COSTS: Final = np.dtype(
    [(name, np.uint32) for name in ("unit", "also", "action", "reason", "group_end", "keep")]
    + [(name, np.float64) for name in ("service", "latency", "passes", "read_latency")]
    + [(name, np.uint32) for name in ("writes", "even", "odd")]
)
"""What of an entry of the table depends on the chip; `_costs` fills it in this order."""
CODE_LINE_BYTES: Final = 128
"""Of the instruction cache."""
KERNELS: Final = 8
"""Kernels whose code is kept: draws, and the clusters of a launch, share it."""
Rows = npt.NDArray[np.void]


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of a trace on a chip; `keep` holds the arrays that `given` points to."""

    given: clock.ClockInput
    keep: tuple[Any, ...]


@dataclass(frozen=True)
class Residents:
    """How often a cluster runs on the same SMs.

    Attributes:
        copies: how many share them at once.
        clusters: how many run there in all, if more: each place is taken again when all warps of
            its cluster have ended.
        gap: cycles from the end of one to the start of the next.
    """

    copies: int = 1
    clusters: int = 0
    gap: float = 0


def tables_of(trace: ClusterTrace, draw: Draw, residents: Residents) -> Tables:
    """Return the tables of a trace.

    Args:
        trace: what the warps of a cluster executed.
        draw: the values of the chip.
        residents: how often it runs.
    """
    ops = _ops(trace.kernel, draw)
    happenings = [happening_of(event, draw) for event in trace.events]
    events, objects, places = _events(trace, happenings)
    pieces, lines = _pieces(trace, events)
    order = np.concatenate([s.order for s in trace.streams]).astype(np.int32)
    event = np.concatenate([_kept(happenings, s.event) for s in trace.streams])
    warps, groups = _warps(trace)
    room_for = ct.c_uint32 * max(len(places), 1)
    ranks, counts = room_for(*(p.rank for p in places)), room_for(*_arrivals(trace, places))
    given = clock.ClockInput(
        n_ops=len(ops), n_events=len(trace.events), n_objects=len(objects), n_warps=len(warps),
        n_mbarriers=len(places), n_groups=groups, ranks=1 + max(s.rank for s in trace.streams),
        copies=residents.copies, gap=residents.gap,
        clusters=max(residents.clusters, residents.copies), n_pieces=len(pieces), n_lines=lines,
        n_common=len(trace.common),
        in_turn=all(i.pipe is not Pipe.TMEM for i in trace.kernel.instructions),
        ops=ops.ctypes.data_as(ct.POINTER(clock.ClockOp)),
        events=events, objects=objects, pieces=pieces,
        mbarrier_ranks=ranks, mbarrier_counts=counts, warps=warps,
        order=order.ctypes.data_as(ct.POINTER(ct.c_int32)),
        event=event.ctypes.data_as(ct.POINTER(ct.c_int32)),
        chip=_chip(draw, l1_lines(trace, draw)),
    )  # fmt: skip
    return Tables(given, (ops, events, objects, pieces, ranks, counts, warps, order, event))


def _chip(draw: Draw, lines: int) -> clock.ClockChip:
    chip = clock.ClockChip(l1_lines=lines)
    queues = {
        "alu": "alu_queue", "fma heavy": "fma_heavy_queue", "fma lite": "fma_lite_queue",
        "mufu": "mufu_queue", "write": "write_queue",
    }  # fmt: skip
    for k, unit in enumerate(clock.UNITS):
        chip.queue[k] = round(draw.values.get(queues.get(unit, ""), 0))
    for name, *_ in clock.ClockChip._fields_:
        if name in draw.values:
            setattr(chip, name, draw[name])
    if "mma_fixed" in draw.values:  # the rest of it is the way to whom waits for the commit
        seen = draw["mma_front"] + draw["wake_latency"]
        chip.commit_latency = max(draw["mma_fixed"] - seen, 0)
    chip.yield_cycles = round(draw["yield_cycles"])
    return chip


@dataclass(frozen=True, eq=False)
class _Code:
    """A kernel's table without costs, its forms, and which of them each instruction has."""

    fixed: Rows
    forms: tuple[Form, ...]
    which: Indices


@lru_cache(KERNELS)
def _code(kernel: SassKernel) -> _Code:
    fixed = np.zeros(len(kernel.instructions), OP)
    forms: dict[Form, int] = {}
    which = np.zeros(len(fixed), np.int32)
    before = None
    for k, i in enumerate(kernel.instructions):
        op = fixed[k]
        op["stall"], op["yields"], op["wait_mask"] = i.stall, i.yields, i.wait_mask
        op["write_barrier"] = NONE32 if i.write_barrier is None else i.write_barrier
        op["read_barrier"] = NONE32 if i.read_barrier is None else i.read_barrier
        op["line"], op["l1"] = i.address // CODE_LINE_BYTES, clock.L1_USES.index(l1_use(i))
        which[k] = forms.setdefault(Form.of(i, before), len(forms))
        before = i
    return _Code(fixed, tuple(forms), which)


def _costs(cost: Cost) -> tuple[float, ...]:
    return (
        clock.UNITS.index(cost.unit), clock.UNITS.index(cost.also),
        clock.ACTIONS.index(cost.action), clock.REASONS.index(cost.reason), cost.group_end,
        cost.keep, cost.service, cost.latency, cost.passes, cost.read_latency, cost.writes,
        *cost.banks,
    )  # fmt: skip


def _ops(kernel: SassKernel, draw: Draw) -> Rows:
    code = _code(kernel)
    ops = code.fixed.copy()
    costs = np.array([_costs(cost_of(form, draw)) for form in code.forms], COSTS)
    for name in COSTS.names or ():
        ops[name] = costs[name][code.which]
    return ops


def _events(
    trace: ClusterTrace, happenings: Sequence[Happening | None]
) -> tuple[ct.Array[clock.ClockEvent], ct.Array[ct.c_uint32], Sequence[Place]]:
    """Events, the objects that they name, and the place of each mbarrier."""
    events = (clock.ClockEvent * max(len(trace.events), 1))()
    numbers: dict[Place, int] = {}
    objects: list[int] = []
    # The table has one entry more than there are events where there are none.
    for raw, event, happening in zip(events, trace.events, happenings, strict=False):
        if happening is None:
            continue
        raw.action = clock.ACTIONS.index(happening.action)
        raw.first_object, raw.objects = len(objects), len(event.objects)
        raw.phase, raw.count, raw.size = event.phase, happening.count, happening.size
        raw.service, raw.latency = happening.service, happening.latency
        raw.passes, raw.memory, raw.pair = happening.passes, happening.memory, happening.pair
        for place in event.objects:
            if event.kind in NAMED:
                objects.append(place.rank * NAMED_PER_CTA + place.offset)
            else:
                objects.append(numbers.setdefault(place, len(numbers)))
    table = (ct.c_uint32 * max(len(objects), 1))(*objects)
    return events, table, tuple(numbers)


def _pieces(
    trace: ClusterTrace, events: ct.Array[clock.ClockEvent]
) -> tuple[ct.Array[ct.c_uint32], int]:
    """Pieces of global memory that events touch, and how many lines they lie in.

    Those that other clusters touch as well are numbered first.
    """
    lines = {line: k for k, line in enumerate(sorted(trace.common))}
    found: list[int] = []
    # The table of events has one entry more than there are where there are none.
    for raw, event in zip(events, trace.events, strict=False):
        raw.first_piece, raw.pieces = len(found), len(event.pieces)
        for piece in event.pieces:
            line, part = divmod(piece, clock.PIECES)
            found.append(lines.setdefault(line, len(lines)) * clock.PIECES + part)
    return (ct.c_uint32 * max(len(found), 1))(*found), len(lines)


def _arrivals(trace: ClusterTrace, places: Sequence[Place]) -> list[int]:
    """How many arrivals end a phase of each mbarrier; 0 where none is set."""
    counts = {
        place: count
        for event in trace.events
        if event.kind is Action.MBARRIER_INIT
        for place, count in zip(event.objects, event.shape, strict=True)
    }
    return [counts.get(place, 0) for place in places]


def _kept(happenings: Sequence[Happening | None], event: Indices) -> Indices:
    """A stream's events without those whose instruction says it all."""
    dropped = np.array([*(h is None for h in happenings), True])  # the last one is for -1
    return np.where(dropped[event], -1, event).astype(np.int32)


def _warps(trace: ClusterTrace) -> tuple[ct.Array[clock.ClockWarp], int]:
    """The warps, and how many groups of four they form."""
    warps = (clock.ClockWarp * len(trace.streams))()
    groups: dict[tuple[int, int], int] = {}
    first = 0
    for raw, stream in zip(warps, trace.streams, strict=True):
        group = (stream.rank, stream.warp // WARPGROUP_WARPS)
        raw.rank, raw.warp = stream.rank, stream.warp
        raw.length, raw.first = len(stream.order), first
        raw.group = groups.setdefault(group, len(groups))
        first += len(stream.order)
    return warps, len(groups)
