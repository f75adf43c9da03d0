"""Loops that ptxas makes over lanes: the PTX has one instruction, the machine code one a turn.

Where an instruction takes uniform registers and lanes have values of their own, ptxas reads those
of one lane (R2UR), does what is asked for all lanes that agree with it, and goes back while any are
left (BRA.U.ANY). The PTX says nothing of such a loop, so that the way of a warp has one turn of it.
Known: `mbarrier.init` of several lanes, of sm_90a (SYNCS.EXCH); a turn for each mbarrier, and in
the loop before it one for each count. An H200 took 1,694 cycles to its end where lanes initialise
18, and one turn makes 302 (`benchmarks/timing/waits/h200.json`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .records import Action, ClusterTrace, DynamicEvent, Indices, SassKernel, WarpStream

MODIFIERS = ("U", "ANY")
"""Of the branch that goes back."""


@dataclass(frozen=True)
class _Turn:
    """A turn of a loop in the order of a warp: its first place, and that behind its branch."""

    start: int
    stop: int


def _turns(kernel: SassKernel, order: Indices) -> Iterator[_Turn]:
    """Single turns of loops over lanes."""
    for branch in kernel.instructions:
        if branch.opcode != "BRA" or branch.modifiers != MODIFIERS:
            continue
        first = branch.targets[0]
        for place in np.flatnonzero(order == branch.index).tolist():
            turn = _Turn(place - (branch.index - first), place + 1)
            body = np.arange(first, branch.index + 1)
            if first <= branch.index and np.array_equal(order[turn.start : turn.stop], body):
                yield turn


def _initialised(stream: WarpStream, trace: ClusterTrace, turn: _Turn) -> DynamicEvent | None:
    """What is initialised in a turn."""
    events = (trace.events[k] for k in stream.event[turn.start : turn.stop] if k >= 0)
    return next((event for event in events if event.kind is Action.MBARRIER_INIT), None)


def _counts(stream: WarpStream, trace: ClusterTrace) -> dict[_Turn, int]:
    """How often each turn is made; in front of one that initialises that which tells counts."""
    found: dict[_Turn, int] = {}
    before: _Turn | None = None
    for turn in sorted(_turns(trace.kernel, stream.order), key=lambda turn: turn.start):
        event = _initialised(stream, trace, turn)
        if event is not None:
            found[turn] = len(event.objects)
            if before is not None and before not in found:
                found[before] = len(set(event.shape))
        before = turn
    return found


def _unrolled(stream: WarpStream, trace: ClusterTrace) -> WarpStream:
    """A warp with every turn of its loops; what a turn does counts in the last one."""
    order, event = stream.order, stream.event
    for turn, count in sorted(
        _counts(stream, trace).items(), key=lambda found: found[0].start, reverse=True
    ):
        body = np.tile(order[turn.start : turn.stop], count - 1)
        order = np.insert(order, turn.start, body)
        event = np.insert(event, turn.start, np.full(len(body), -1, event.dtype))
    return replace(stream, order=order, event=event)


def unrolled(trace: ClusterTrace) -> ClusterTrace:
    """Return a trace whose warps make every turn of loops over lanes."""
    return replace(trace, streams=tuple(_unrolled(stream, trace) for stream in trace.streams))
