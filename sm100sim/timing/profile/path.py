"""The critical path: from the end of a run back to its start, each cycle to what it was spent on.

Where a warp waited, the path goes on with the execution that ended the wait: an arrival at a
barrier, a copy, an MMA. Where an MMA or a copy stood behind others, it goes through those first. So
the path's pieces follow one another without gaps, and their lengths add up to the run's cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from ...contract import clock
from .detail import Detail

TENSOR: Final = clock.SHARED_UNITS.index("tensor")
COPY: Final = clock.SHARED_UNITS.index("copy")
WORKS: Final = {"tensor": "tensor core", "copy": "TMA load", "store": "TMA store"}
"""Unit of the SM -> what a piece of its work is called."""
NOTHING: Final = "not started"
LATE: Final = 0.5
"""Cycles after its issue from which work counts as delayed by other work."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the critical path, in cycles.

    Attributes:
        what: a reason for waiting, "issued", or one of `WORKS`.
        warp: whose it is: the one that waited or, of a unit, that gave it the work; -1: nobody's.
        step: the execution before which it waited, or the one that gave the work.
        cause: the execution that ended the wait, where the path goes to another; else -1.
    """

    start: float
    end: float
    what: str
    warp: int
    step: int
    cause: int = -1


class _Works:
    """Work of servers of SMs, by the step that gave it and by its end."""

    def __init__(self, detail: Detail) -> None:
        works = detail.works
        self.start, self.what = works["start"].tolist(), works["what"].tolist()
        self.step, self.sm = works["step"].tolist(), works["sm"].tolist()
        self.of_step = {step: k for k, step in enumerate(self.step)}
        self._issued = detail.issued
        self._by_end: dict[tuple[int, int, float], int] = {}
        self._by_cycle: dict[tuple[int, int], int] = {}
        self._before: list[int] = []
        latest: dict[tuple[int, int], int] = {}
        for k, end in enumerate(works["end"].tolist()):
            of = self.what[k], self.sm[k]
            self._by_end[*of, round(end, 6)] = k
            if self.what[k] == TENSOR:
                self._by_cycle[self.sm[k], ceil(end)] = k
            self._before.append(latest.get(of, -1))
            latest[of] = k

    def ahead(self, work: int) -> int:
        """What a work stood behind; -1: nothing.

        The end of a copy's record is that of its bytes' way, so its engine is asked for its order.
        """
        if self.what[work] == COPY:
            late = self.start[work] > self._issued[self.step[work]] + LATE
            return self._before[work] if late else -1
        start = round(self.start[work], 6)
        for sm in (self.sm[work], self.sm[work] ^ 1):
            found = self._by_end.get((self.what[work], sm, start), -1)
            if found >= 0 and self.start[found] < self.start[work]:
                return found
        return -1

    def left(self, sm: int, cycle: float) -> int:
        """The MMA that left the queue of an SM at a cycle; -1: none."""
        return self._by_cycle.get((sm, int(cycle)), -1)


class _Walk:
    """A way back through a run."""

    def __init__(self, detail: Detail) -> None:
        stands = detail.stands
        self._detail, self._works = detail, _Works(detail)
        self._issued, self._first = detail.issued.tolist(), detail.first.tolist()
        self._stands = detail.first_stand.tolist()
        self._start, self._end = stands["start"].tolist(), stands["end"].tolist()
        self._why, self._cause = stands["why"].tolist(), stands["cause"].tolist()

    def pieces(self) -> Iterator[Piece]:
        """The pieces, the last one first."""
        warp = int(self._detail.ends.argmax())
        step, time = self._first[warp + 1] - 1, float(self._detail.cycles)
        while True:
            warp = int(self._detail.warp[step])
            yield Piece(self._issued[step], time, "issued", warp, step)
            time, jumped = self._issued[step], -1
            while jumped < 0:
                for piece in self._before(step, warp, time):
                    yield piece
                    time, jumped = piece.start, piece.cause
                if jumped >= 0:
                    step, warp, jumped = jumped, int(self._detail.warp[jumped]), -1
                    continue
                break
            if step == self._first[warp]:
                break
            step -= 1
        if time > 0:
            yield Piece(0, time, NOTHING, -1, step)

    def _before(self, step: int, warp: int, time: float) -> Iterator[Piece]:
        """What the cycles before an issue went to, as far as its warp or where another begins."""
        for k in range(self._stands[step + 1] - 1, self._stands[step] - 1, -1):
            work = self._work(k, warp)
            if work >= 0:
                yield from self._through(work, time)
                return
            cause = self._cause[k]
            reason = clock.REASONS[self._why[k]]
            if cause != clock.NO_STEP:
                yield Piece(self._issued[cause], time, reason, warp, step, cause)
                return
            yield Piece(self._start[k], time, reason, warp, step)
            time = self._start[k]

    def _work(self, stand: int, warp: int) -> int:
        """The work of a server that ended a wait; -1: there was none."""
        if clock.REASONS[self._why[stand]] == "queue":
            return self._works.left(self._detail.place(warp)[1], self._end[stand])
        cause = self._cause[stand]
        return -1 if cause == clock.NO_STEP else self._works.of_step.get(cause, -1)

    def _through(self, work: int, until: float) -> Iterator[Piece]:
        """Works that stood behind one another before `until`, back to the issue of the first."""
        works = self._works
        while True:
            step, unit = works.step[work], WORKS[clock.SHARED_UNITS[works.what[work]]]
            warp, ahead = int(self._detail.warp[step]), works.ahead(work)
            if ahead < 0:
                yield Piece(self._issued[step], until, unit, warp, step, step)
                return
            yield Piece(works.start[work], until, unit, warp, step)
            work, until = ahead, works.start[work]


def critical_path(detail: Detail) -> list[Piece]:
    """Return the pieces, from the start of the run to the end of its last warp."""
    pieces = list(_Walk(detail).pieces())
    pieces.reverse()
    return pieces
