"""A run of the clocked machine: when each instruction was issued, and why not before."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...contract import clock
from ...ptx.places import Places
from ..chips import Draw
from ..model import Residents
from ..model.machine import SUB_PARTITIONS, replay
from ..records import Action, ClusterTrace, DynamicEvent, SassInstruction

STAND: Final = np.dtype(clock.ClockStand)
RECORD: Final = np.dtype(clock.ClockRecord)
PART: Final = np.dtype(clock.ClockPartBusy)
STANDS_PER_STEP: Final = 2
"""Room at first; a run that needs more is repeated with as much as it needs."""

STANDING: Final = (
    "named barrier", "cluster barrier", "tensor", "copy", "blocked",
)  # fmt: skip
"""Reasons of which the instruction before is the cause: it waits, or lets nothing pass."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]


def _numbers(reasons: tuple[str, ...]) -> list[int]:
    return [clock.REASONS.index(reason) for reason in reasons]


def _table(key: Ints, spent: Floats, rows: int) -> Floats:
    """Sums by row and reason."""
    sums: Floats = np.bincount(key, spent, rows * len(clock.REASONS)).astype(np.float64)
    return sums.reshape(rows, len(clock.REASONS))


@dataclass(frozen=True, eq=False)
class Detail:
    """What happened in a run of a cluster, cycle by cycle.

    A step is an execution of an instruction by a warp; steps count through the warps' streams, copy
    after copy. A warp has a number: copy times streams plus stream.

    Attributes:
        trace: what was replayed. copies: of the cluster, at once.
        draw: number of the draw. cycles: until the last warp ended.
        issued: cycle of each step. stands: STAND records, those of a step in order of time.
        works: RECORD records of servers of SMs (`what` from 0: place in SHARED_UNITS).
        parts: unit -> busy cycles, an array of SMs by sub-partitions; "issue" among them.
        shared: unit -> busy cycles of each SM, on average.
        ends: of each warp. places: lines of the PTX and of the program.
        l1: 32-byte pieces that loads of lanes asked the L1 for, and how many of them it had.
    """

    trace: ClusterTrace
    copies: int
    draw: int
    cycles: float
    issued: Floats
    stands: Rows
    works: Rows
    parts: dict[str, Floats]
    shared: dict[str, float]
    ends: Floats
    places: Places
    l1: tuple[int, int]

    @property
    def instructions(self) -> tuple[SassInstruction, ...]:
        """The machine code."""
        return self.trace.kernel.instructions

    def event(self, step: int) -> DynamicEvent | None:
        """What a step did, where it did something of its own."""
        number = int(self.event_of_step[step])
        return None if number < 0 else self.trace.events[number]

    def text(self, index: int) -> str:
        """An instruction: its line of PTX where that is known, else its machine code."""
        line = self.ptx_line(index)
        text = "" if line is None else self.places.ptx_line(line).strip()
        found = self.instructions[index]
        return f"PTX line {line}: {text}" if text else f"{found.address:#06x} {found}"

    def ptx_line(self, index: int) -> int | None:
        """PTX line of an instruction, None where nothing knows it."""
        return self.trace.lines.get(index, self.instructions[index].ptx_line)

    @cached_property
    def first(self) -> Ints:
        """First step of each warp, and one more entry for the end."""
        lengths = [len(stream.order) for stream in self.trace.streams] * self.copies
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    @cached_property
    def op(self) -> Ints:
        """Instruction of each step."""
        order = np.concatenate([stream.order for stream in self.trace.streams])
        return np.tile(order.astype(np.int64), self.copies)

    @cached_property
    def warp(self) -> Ints:
        """Warp of each step."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @cached_property
    def first_stand(self) -> Ints:
        """First stand of each step, and one more entry for the end."""
        steps = np.arange(len(self.issued) + 1)
        return np.searchsorted(self.stands["step"], steps).astype(np.int64)

    @cached_property
    def waited(self) -> Floats:
        """Cycles by warp and reason, issues among them."""
        spent = self.stands["end"] - self.stands["start"]
        key = self.stands["warp"].astype(np.int64) * len(clock.REASONS) + self.stands["why"]
        table = _table(key, spent, len(self.first) - 1)
        table[:, clock.REASONS.index("issued")] += np.diff(self.first)
        return table

    @cached_property
    def waits_at(self) -> Ints:
        """Step at which each stand is counted: where the warp began to wait, if that is known.

        A wait for a barrier or a group ends before the next instruction of its warp; it counts at
        the instruction that waits.
        """
        step, why = self.stands["step"].astype(np.int64), self.stands["why"]
        before = np.maximum(step - 1, self.first[self.stands["warp"]])
        at = np.where(np.isin(why, _numbers(STANDING)), before, step)
        is_wait = self.does((Action.MBARRIER_WAIT,))
        waits = np.maximum.accumulate(np.where(is_wait, np.arange(len(self.op)), -1))
        latest = waits[before]
        known = (why == _numbers(("mbarrier",))[0]) & (latest >= self.first[self.stands["warp"]])
        return np.where(known, latest, at)

    def waiting(self, step: int) -> int:
        """The instruction at which the waits before a step count."""
        return int(self.op[self._waited_at.get(step, step)])

    @cached_property
    def _waited_at(self) -> dict[int, int]:
        """Step -> the one at which it waited, where that is another."""
        step, at = self.stands["step"].astype(np.int64), self.waits_at
        elsewhere = at != step
        return dict(zip(step[elsewhere].tolist(), at[elsewhere].tolist(), strict=True))

    def does(self, actions: Collection[Action]) -> npt.NDArray[np.bool_]:
        """Whether a step did one of some things."""
        kinds = [event.kind in actions for event in self.trace.events]
        kinds.append(False)  # where a step has no event, -1
        found: npt.NDArray[np.bool_] = np.array(kinds)[self.event_of_step]
        return found

    @cached_property
    def event_of_step(self) -> Ints:
        """Number of each step's event, or -1."""
        event = np.concatenate([stream.event for stream in self.trace.streams])
        return np.tile(event.astype(np.int64), self.copies)

    @cached_property
    def stood(self) -> Floats:
        """Cycles by instruction and reason, issues among them."""
        spent = self.stands["end"] - self.stands["start"]
        key = self.op[self.waits_at] * len(clock.REASONS) + self.stands["why"]
        table = _table(key, spent, len(self.instructions))
        table[:, clock.REASONS.index("issued")] += self.executed
        return table

    @cached_property
    def executed(self) -> Ints:
        """Executions of each instruction."""
        return np.bincount(self.op, minlength=len(self.instructions)).astype(np.int64)

    def place(self, warp: int) -> tuple[int, int, int]:
        """Copy, rank in the cluster and number in the CTA of a warp."""
        copy, k = divmod(warp, len(self.trace.streams))
        stream = self.trace.streams[k]
        return copy, stream.rank, stream.warp


def _rows(raw: ct.Array[Any], kind: np.dtype[Any], count: int = -1) -> npt.NDArray[Any]:
    """An array of C structures as records."""
    found: npt.NDArray[Any] = np.frombuffer(memoryview(raw).cast("B"), kind, count)
    return found


def detailed(trace: ClusterTrace, draw: Draw, *, copies: int = 1, ptx: str = "") -> Detail:
    """Replay a cluster and keep everything.

    Args:
        trace, draw: as of `model.run_cluster`. copies: as of `model.Residents`.
        ptx: the module that the code was made of.

    Raises:
        StuckError, MemoryError, NotImplementedError: as `model.run_cluster`.
    """
    residents, steps = Residents(copies), trace.instructions * copies
    room, stand_room = steps // 8 + 64, STANDS_PER_STEP * steps + 64
    found = replay(trace, draw, residents, room=room, stand_room=stand_room)
    if found.totals.records > room or found.totals.stands > stand_room:
        room, stand_room = found.totals.records, found.totals.stands
        found = replay(trace, draw, residents, room=room, stand_room=stand_room)
    stands = _rows(found.stands, STAND, found.totals.stands)
    records = _rows(found.records, RECORD, found.totals.records)
    works = records[records["what"] >= len(clock.REASONS)].copy()
    works["what"] -= len(clock.REASONS)
    raw = _rows(found.parts, PART).reshape(-1, SUB_PARTITIONS)
    parts = {unit: raw["busy"][:, :, k] for k, unit in enumerate(clock.UNITS[:-1])}
    shared = found.totals.shared_busy
    return Detail(
        trace, copies, draw.number, found.totals.cycles,
        issued=_rows(found.issued, np.dtype(np.float64)),
        stands=stands[np.argsort(stands["step"], kind="stable")],
        works=works,
        parts={"issue": raw["issued"], **parts},
        shared={unit: shared[k] / found.ranks for k, unit in enumerate(clock.SHARED_UNITS)},
        ends=np.array([warp.end for warp in found.warps]),
        places=Places(ptx),
        l1=(found.totals.l1_asked, found.totals.l1_answered),
    )  # fmt: skip
