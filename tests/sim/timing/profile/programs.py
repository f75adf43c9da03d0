"""Small programs whose times are known, for tests of the profiler."""

from __future__ import annotations

import random

from sm100sim.timing.profile.detail import Detail, detailed
from sm100sim.timing.records import Action, DynamicEvent, Place, SassInstruction
from testing.clocked import Program, chip, op

ALL = 0xFFFFFFFF
B200 = chip("b200", yield_cycles=0)
BARRIER = Place(0, 64)
Step = tuple[SassInstruction, DynamicEvent]


def run(program: Program, **values: float) -> Detail:
    """Run a program on a B200 some of whose values are others."""
    return detailed(program.trace(), chip("b200", yield_cycles=0, **values))


def init(count: int, place: Place = BARRIER) -> Step:
    """An mbarrier of so many arrivals."""
    event = DynamicEvent(Action.MBARRIER_INIT, 1, objects=(place,), shape=(count,))
    return op("SYNCS.EXCH.64 URZ, [UR4], UR5"), event


def arrive(place: Place = BARRIER) -> Step:
    """One arrival."""
    event = DynamicEvent(Action.MBARRIER_ARRIVE, 1, objects=(place,), count=1)
    return op("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ"), event


def wait(phase: int = 1, place: Place = BARRIER) -> Step:
    """A wait until so many phases have ended; `use` must wait for its scoreboard 0."""
    event = DynamicEvent(Action.MBARRIER_WAIT, 1, objects=(place,), phase=phase)
    return op("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2", write=0), event


def chain(count: int) -> list[SassInstruction]:
    """Dependent additions, four cycles each."""
    return [op("FFMA R0, R1, R2, R0", 4)] * count


def handover(first: int = 100, second: int = 30, other: int = 20) -> Program:
    """Warp 0 works and arrives, warp 1 waits and works; warp 2 has less to do."""
    return (
        Program()
        .warp(0, init(1), *chain(first), arrive())
        .warp(1, wait(), op("NOP", wait=(0,)), *chain(second))
        .warp(2, *chain(other))
    )


def mma(columns: int = 128) -> Step:
    """A product of 128 rows."""
    event = DynamicEvent(Action.MMA, 1, shape=(128, columns, 16, 16))
    return op("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]", 7), event


def commit(place: Place = BARRIER) -> Step:
    """An arrival when the products so far are done."""
    return op("UTCBAR [UR4]"), DynamicEvent(Action.MMA_COMMIT, 1, objects=(place,), count=1)


def loads(passes: int) -> Step:
    """A load of shared memory with conflicts."""
    return op("LDS R0, [R4]"), DynamicEvent(Action.SHARED, ALL, wavefronts=passes)


def tangle(seed: int) -> Program:
    """Warps with all kinds of work that hand on to one another in a ring."""
    chosen = random.Random(seed)
    count = chosen.randrange(2, 9)
    program = Program()
    for warp in range(count):
        work: list[SassInstruction | Step] = []
        for _ in range(chosen.randrange(5, 60)):
            kind = chosen.randrange(6)
            choices: list[list[SassInstruction | Step]] = [
                [op("FFMA R0, R2, R4, R6", chosen.randrange(1, 6))],
                [op("MUFU.EX2 R0, R1", 2, write=1), op("FADD R2, R0, R0", 4, wait=(1,))],
                [loads(chosen.randrange(1, 9)), op("NOP", yields=True)],
                [op("IADD3 R0, R2, R3, R4")] * 3,
                [mma(64)],
                [op("FENCE.VIEW.ASYNC.S", 2)],
            ]
            work += choices[kind]
        before: list[SassInstruction | Step] = [init(1, Place(0, 64 + 8 * warp))]
        if warp:
            before += [wait(place=Place(0, 64 + 8 * (warp - 1))), op("NOP", wait=(0,))]
        program.warp(warp, *before, *work, arrive(Place(0, 64 + 8 * warp)), *chain(3))
    return program
