"""Tiny machine code and traces for tests of the clocked machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import ClusterTime, Residents, run_cluster
from sm100sim.timing.predict.gpu import places_of
from sm100sim.timing.predict.memory import Traffic, from_memory
from sm100sim.timing.records import (
    Action,
    ClusterTrace,
    DynamicEvent,
    LaunchTrace,
    Place,
    SassInstruction,
    SassKernel,
    WarpStream,
)
from sm100sim.timing.sass.pipes import pipe_of


def op(
    text: str,
    stall: int = 1,
    *,
    write: int | None = None,
    read: int | None = None,
    wait: Sequence[int] = (),
    yields: bool = False,
    reuse: int = 0,
) -> SassInstruction:
    """An instruction; `code` gives it its place."""
    mnemonic, _, operands = text.partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    mask = sum(1 << k for k in wait)
    return SassInstruction(
        0, 0, opcode, tuple(modifiers), operands, "", stall, yields, write, read, mask, reuse,
        pipe_of(opcode),
    )  # fmt: skip


Entry = SassInstruction | tuple[SassInstruction, DynamicEvent]
"""An execution, with its event if it has one."""


@dataclass
class Program:
    """Warps under construction: each is a list of instructions with their events."""

    warps: dict[tuple[int, int], list[tuple[SassInstruction, DynamicEvent | None]]] = field(
        default_factory=dict
    )

    def warp(self, number: int, *given: Entry, rank: int = 0) -> Program:
        """Add a warp; what it executes lies one after the other in the code."""
        pairs: list[tuple[SassInstruction, DynamicEvent | None]] = [
            entry if isinstance(entry, tuple) else (entry, None) for entry in given
        ]
        self.warps[rank, number] = pairs
        return self

    def trace(self) -> ClusterTrace:
        """The trace of the warps, each with code of its own."""
        code: list[SassInstruction] = []
        events: list[DynamicEvent] = []
        streams = []
        for (rank, number), pairs in self.warps.items():
            order: list[int] = []
            event: list[int] = []
            for instruction, happened in pairs:
                order.append(len(code))
                code.append(replace(instruction, index=len(code), address=16 * len(code)))
                event.append(-1 if happened is None else len(events))
                events += [] if happened is None else [happened]
            arrays = (np.array(order, np.int32), np.array(event, np.int32))
            streams.append(WarpStream(rank, number, *arrays))
        kernel = SassKernel("test", "sm_90a", 128, "none", tuple(code), b"")
        return ClusterTrace(kernel, (0,), tuple(streams), tuple(events))


BARRIER = Place(0, 64)
Step = tuple[SassInstruction, DynamicEvent]


def init(count: int, place: Place = BARRIER) -> Step:
    """An mbarrier whose phases end with so many arrivals."""
    event = DynamicEvent(Action.MBARRIER_INIT, 1, objects=(place,), shape=(count,))
    return op("SYNCS.EXCH.64 URZ, [UR4], UR5"), event


def arrive(size: int = 0, place: Place = BARRIER) -> Step:
    """An arrival, which may expect bytes."""
    event = DynamicEvent(Action.MBARRIER_ARRIVE, 1, objects=(place,), count=1, size=size)
    return op("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ"), event


def wait(phase: int, place: Place = BARRIER) -> Step:
    """A wait until so many phases have ended, for the result of which `READY` waits."""
    event = DynamicEvent(Action.MBARRIER_WAIT, 1, objects=(place,), phase=phase)
    return op("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R0", write=0), event


READY = op("NOP", wait=(0,))


def chip(name: str, **values: float) -> Draw:
    """The values of a chip, some of them others; the instruction cache never misses."""
    draw = load_chip(name).draw()
    return draw.having({"icache_next": 0, "icache_jump": 0, **values})


def fresh_of(of: LaunchTrace, name: str = "h200") -> tuple[LaunchTrace, Traffic]:
    """A launch that says what of it is fresh on a chip, and its traffic."""
    draw = chip(name)
    return from_memory(of, draw, places_of(of, draw))


def executed(trace: ClusterTrace, warp: int = 0) -> list[DynamicEvent]:
    """What a warp does that takes more than its instructions, in its order."""
    return [trace.events[k] for k in trace.streams[warp].event if k >= 0]


def run(program: Program, draw: Draw, *, room: int = 0, **residents: Any) -> ClusterTime:
    """Run it, alone or as often as `Residents` says."""
    return run_cluster(program.trace(), draw, Residents(**residents), room=room)


def single(draw: Draw, *given: Entry) -> float:
    """Cycles from the first to the last instruction of one warp."""
    return run(Program().warp(0, *given), draw).cycles - 1
