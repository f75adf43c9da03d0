"""Where on a timeline the two accesses of a finding are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .events import Event, EventKind, Traced


@dataclass(frozen=True, slots=True)
class Mark:
    """An access to point at.

    Attributes:
        label: what is written at it, e.g. "1st: PTX line 40".
        source, rank: the row, as in `Row`.
        time: of the run's own clock.
    """

    label: str
    source: int | Literal["tensor", "tma"]
    rank: int
    time: int


ACCESSES: dict[EventKind, Literal["tensor", "tma"] | None] = {
    EventKind.ACCESS: None,
    EventKind.MMA: "tensor",
    EventKind.TMA_LOAD: "tma",
    EventKind.TMA_STORE: "tma",
}
"""Kinds of events that touch memory -> the asynchronous unit, None for the warp itself."""

FIRST_ACCESS = re.compile(r"not ordered after the \w+ by ([^(]*)")
FIRST_WARP = re.compile(r"warp (\d+)(?: of|,) CTA (\d+)")


def access_marks(report: Traced, finding: int = 0) -> list[Mark]:
    """The accesses of a finding about two of them, the earlier first (in the order of the run).

    An access of an earlier cluster is not on the timeline, and not among the marks.

    Raises:
        ValueError: there is no such finding, or its place is not on the recorded timeline.
    """
    if not 0 <= finding < len(report.findings):
        raise ValueError(f"finding: {finding} of {len(report.findings)} findings")
    at = next(
        (k for k, e in enumerate(report.events)
         if e.kind is EventKind.FINDING and e.a == finding), None,
    )  # fmt: skip
    if at is None:
        raise ValueError(
            f"finding: number {finding} is not on the timeline; run with trace_cluster set to the "
            "cluster in which it happens"
        )
    found, here = report.findings[finding], report.events[at]
    second = _second_access(report.events, at) or here
    first = _first_access(report.events, at, found.line2, found.message) if found.line2 else None
    marks = [_mark("1st", first)] if first else []
    return [*marks, _mark("2nd" if first else found.code, second)]


def _mark(label: str, event: Event) -> Mark:
    unit = ACCESSES.get(event.kind)
    return Mark(f"{label}: PTX line {event.line}", unit or event.warp, event.rank, event.start)


def _second_access(events: Sequence[Event], at: int) -> Event | None:
    """A warp's own access is recorded right after its finding, asynchronous work at its issue."""
    here = events[at]
    for event in events[at + 1 :]:
        if event.kind is EventKind.ACCESS and (event.rank, event.warp) == (here.rank, here.warp):
            if event.line == here.line:
                return event
            break
    issued = (e for e in reversed(events[:at]) if ACCESSES.get(e.kind) and e.line == here.line)
    return next(issued, None)


def _first_access(events: Sequence[Event], at: int, line: int, message: str) -> Event | None:
    """The last access of that line in front of the finding, by the warp that the message names."""
    text = FIRST_ACCESS.search(message)
    warp = FIRST_WARP.search(text.group(1)) if text else None
    for event in reversed(events[:at]):
        if event.kind not in ACCESSES or event.line != line:
            continue
        if warp is None or (event.warp, event.rank) == (int(warp[1]), int(warp[2])):
            return event
    return None
