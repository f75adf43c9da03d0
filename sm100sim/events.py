"""What a run records: findings, timeline events, and the part of a report that pictures need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from .ptx.places import SourcePlace


class EventKind(IntEnum):
    """Kinds of timeline events."""

    BUSY = 0
    WAIT = 1
    MMA = 2
    TMA_LOAD = 3
    TMA_STORE = 4
    ARRIVE = 5
    MARK = 6
    ACCESS = 7
    FINDING = 8
    BARRIER = 9


@dataclass(frozen=True, slots=True)
class Event:
    """One timeline entry of the traced cluster; times order a run, and predict no chip's.

    `a` and `b` are the kind's own numbers: MMA: TMEM column and N; TMA: bytes and offset in shared
    memory; FINDING: index in `Report.findings` and 0; BARRIER (initialisation of an mbarrier):
    offset in shared memory and expected arrivals.  ACCESS (a warp's own loads, stores and atomics)
    is recorded under the race checker only.  The order of events is that of the simulation, not of
    their times.
    """

    kind: EventKind
    rank: int
    warp: int
    line: int
    start: int
    end: int
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, or suspicious, at a PTX line, and at the source line that it comes from.

    Attributes:
        code: the rule's short name, e.g. "deadlock" or "mbarrier-over-arrival".
        message: one or two sentences with addresses, counts and phases.
        line, source: PTX line number (1-based, 0 when there is none) and its text.
        line2, source2: the second place, for findings about a pair of accesses.
        place, place2: the lines of the program behind both, where the PTX has line information.
        ctaid, rank, warp, lane: who, or None.
        fatal: the run stopped here.
        count: how often it was seen.
    """

    code: str
    message: str
    line: int
    source: str
    line2: int = 0
    source2: str = ""
    ctaid: tuple[int, int, int] | None = None
    rank: int | None = None
    warp: int | None = None
    lane: int | None = None
    fatal: bool = False
    count: int = 1
    place: SourcePlace | None = None
    place2: SourcePlace | None = None

    def __str__(self) -> str:
        where = _where(self.line, self.source, self.place) if self.line else "no PTX line"
        who = ""
        if self.warp is not None:
            who = f" [CTA {self.ctaid}, rank {self.rank}, warp {self.warp}, lane {self.lane}]"
        second = ""
        if self.line2:
            second = f"\n    and {_where(self.line2, self.source2, self.place2)}"
        return f"{self.code}: {self.message}{who}\n    {where}{second}"


def _where(line: int, source: str, place: SourcePlace | None) -> str:
    """The source line, if it is known, and the PTX line below it."""
    ptx = f"PTX line {line}: {source.strip()}"
    return ptx if place is None else f"{place}\n        {ptx}"


class Traced(Protocol):
    """A run with a timeline: what the pictures are drawn from."""

    @property
    def kernel(self) -> str:
        """Name of the entry."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What the checkers found."""

    @property
    def events(self) -> Sequence[Event]:
        """Events of the traced cluster."""
