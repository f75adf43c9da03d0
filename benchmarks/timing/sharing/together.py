"""All SMs of a launch at once, and nothing but their copies: which share of the rows is joined.

    python -m benchmarks.timing.sharing.together RESULTS.json       no GPU needed, some minutes

Each SM copies its steps into a ring of slots, a request being `Machine.rows` rows. A request goes
to one of the L2's queues, and its rows to its SM by one of its GPC's. Rows that another SM of the
GPC asked for at most `window` cycles ago are joined to that request: they pass no queue of the L2
and come when the other's do. Who is late by less so gets its rows as early as the first, and
catches up; who is later does not. No instruction is replayed, and the detailed machine
(`sm100sim.timing`) does not use this yet: docs/timing_probes.md says what it is right about.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.timing.questions import ROW_BYTES, SMS
from benchmarks.timing.sharing import operands, skews
from benchmarks.timing.sharing.operands import (
    COLUMNS,
    SLOTS,
    STEP_COLUMNS,
    WARM_BYTES,
    Sharing,
)
from testing.site.target import target

Array = npt.NDArray[Any]
HERE: Final = Path(__file__).parent
RECORDS: Final = ("h200.json", "h200_skews.json", "h200_tiles.json")
LENGTHS: Final = (2, 4, 14)
LATE: Final = (150, 300, 1300)
ONE_PACE: Final = 448
"""Of the questions with a pace those are replayed, cycles a step."""
SPREAD: Final = 40
"""Cycles within which SMs see a common start."""
STEPS_OF_ONE: Final = 100
"""Steps of a run in which CTAs stay with their rows; the first third is not counted."""
MIXER: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Machine:
    """What an H200 answered, and how coarsely requests are followed.

    Attributes:
        limit: bytes a cycle that leave the L2 (each SM its own rows: 34.7 an SM).
        delivered: bytes a cycle that an SM gets of rows that all share (93 of 95 asked).
        window: cycles after a request in which another one of its GPC is joined to it: 150 are in
            time, 200 too late.
        row_cycles: of an SM's port. latency: of a request, beside its queues.
        rows: of a request. queues: of the L2. lanes: of a GPC. These three make requests wait
            unevenly; 3 and 16 are one of the two best of five pairs
            for SMs that stay with their rows.
    """

    limit: float = 4600
    delivered: float = 95
    window: float = 175
    row_cycles: float = 1.15
    latency: float = 347
    rows: int = 16
    queues: int = 3
    lanes: int = 16


@dataclass(frozen=True, eq=False)
class Asked:
    """What the SMs of a launch copy.

    Attributes:
        group: GPC of each SM. begins: cycles at which each begins.
        requests: number of the rows of each request, by SM, step and place in the step.
        slots: of the ring. pace: cycles between steps where data come fast enough. work: cycles of
            products that follow each step and leave its slot free when they end.
        resident: entries that are of one SM.
    """

    group: Sequence[int]
    begins: Sequence[float]
    requests: Array
    slots: int
    pace: float = 0
    work: float = 0
    resident: int = 1


@dataclass(frozen=True, eq=False)
class Outcome:
    """ends: of each step, by SM and step. joined: share of the requests."""

    ends: Array
    joined: float

    def bytes_per_cycle(self, size: int, since: int) -> Array:
        """What each SM gets from step `since` to the last, of steps of so many bytes."""
        passed = self.ends[:, -1] - self.ends[:, since]
        return np.asarray(size * (self.ends.shape[1] - 1 - since) / passed)


class Together:
    """One run: requests in the order of time, SM after SM where they ask at once."""

    def __init__(self, asked: Asked, machine: Machine) -> None:
        """Set up; nothing has been asked for."""
        self._asked, self._machine = asked, machine
        sms, steps, self._each = asked.requests.shape
        self._steps, self._order = steps, count()
        self._ends = np.full((sms, steps), np.inf)
        self._left = np.full((sms, steps), self._each).tolist()
        self._rows = asked.requests.reshape(sms, -1).tolist()
        self._next, self._due, self._worked = [0] * sms, list(asked.begins), [0.0] * sms
        self._waits = [False] * sms
        self._events: list[tuple[float, int, int, int, int]] = []
        self._queue = [0.0] * machine.queues
        self._lane = [[0.0] * machine.lanes for _ in range(max(asked.group) + 1)]
        self._seen: dict[tuple[int, int], tuple[float, float]] = {}
        self._joined = 0
        size = machine.rows * ROW_BYTES
        self._served = size * machine.queues / machine.limit
        many = np.bincount(asked.group) / asked.resident
        self._given = [size * machine.lanes / (machine.delivered * max(n, 1)) for n in many]

    def run(self) -> Outcome:
        """Until all steps of all SMs have ended."""
        for sm, begin in enumerate(self._asked.begins):
            self._at(begin, sm, -1, -1)
        while self._events:
            now, _, sm, rows, step = heapq.heappop(self._events)
            if step < 0:
                self._ask(now, sm)
            elif rows >= 0:
                self._deliver(now, sm, rows, step)
            else:
                self._end(now, sm, step)
        return Outcome(self._ends, self._joined / max(self._asked.requests.size, 1))

    def _at(self, when: float, sm: int, rows: int, step: int) -> None:
        heapq.heappush(self._events, (when, next(self._order), sm, rows, step))

    def _ask(self, now: float, sm: int) -> None:
        """The next request of an SM, or the reason why it waits."""
        step, place = divmod(self._next[sm], self._each)
        if step == self._steps:
            return
        if place == 0:
            ready = self._ready(now, sm, step)
            if ready > now:
                self._waits[sm] = ready == np.inf
                if ready < np.inf:
                    self._at(ready, sm, -1, -1)
                return
            if step >= self._asked.slots:
                self._due[sm] += self._asked.pace
        self._next[sm] += 1
        self._send(now, sm, step, self._rows[sm][self._next[sm] - 1])
        self._at(now + self._machine.rows * self._machine.row_cycles, sm, -1, -1)

    def _ready(self, now: float, sm: int, step: int) -> float:
        """When a step may be asked for; infinite where that is not known yet."""
        if step < self._asked.slots:
            return now
        free = float(self._ends[sm, step - self._asked.slots])
        return max(free, self._due[sm] + self._asked.pace if self._asked.pace else now)

    def _send(self, now: float, sm: int, step: int, rows: int) -> None:
        """To the L2, or to the same request of another SM of the GPC."""
        key = self._asked.group[sm], rows
        at, done = self._seen.get(key, (-np.inf, 0.0))
        if now - at <= self._machine.window:
            self._joined += 1
        else:
            queue = scattered(rows, self._machine.queues)
            done = self._queue[queue] = max(self._queue[queue], now) + self._served
            self._seen[key] = now, done
        self._at(max(done, now), sm, rows, step)

    def _deliver(self, now: float, sm: int, rows: int, step: int) -> None:
        """By a lane of the GPC; the last request ends its step."""
        group = self._asked.group[sm]
        lanes, lane = self._lane[group], scattered(rows + 1, self._machine.lanes)
        lanes[lane] = max(lanes[lane], now) + self._given[group]
        self._at(lanes[lane] + self._machine.latency, sm, -1, step)

    def _end(self, now: float, sm: int, step: int) -> None:
        """A request has come; behind the last one of a step its products begin."""
        self._left[sm][step] -= 1
        if self._left[sm][step]:
            return
        self._worked[sm] = max(self._worked[sm], now) + self._asked.work
        self._ends[sm, step] = self._worked[sm] if self._asked.work else now
        if self._waits[sm]:
            self._waits[sm] = False
            self._at(now, sm, -1, -1)


def scattered(number: int, places: int) -> int:
    """One of some places, evenly."""
    return ((number * MIXER & 0xFFFFFFFFFFFFFFFF) >> 32) % places


def requests_of(asked: Sharing, steps: int, rows: int) -> Array:
    """Numbers of the requests of some steps, by CTA (or SM), step and place: as `Sharing.case`."""
    tall, columns = np.dot(asked.distinct, asked.rows), COLUMNS
    while asked.tiles == 1 and 2 * tall * columns > WARM_BYTES:
        columns //= 2
    across = columns // STEP_COLUMNS
    step = np.arange(steps)
    column = (step + np.arange(len(asked.table))[:, None] * asked.shift) % across
    tile = step // across % asked.tiles
    blocks = np.array(asked.table)[:, tile]
    first = blocks * asked.rows + (0, asked.distinct[0] * asked.rows[0])
    of = [first[..., k, None] + np.arange(0, asked.rows[k], rows) for k in range(2)]
    return np.asarray(np.concatenate(of, -1) // rows * across + column[..., None])


def sms_of(asked: Sharing, smid: Sequence[int]) -> list[int]:
    """The SM of each entry of a table."""
    return [k if asked.by_sm else smid[k] for k in range(len(asked.table))]


def placed(asked: Sharing, gpcs: list[list[int]], smid: Sequence[int]) -> list[int]:
    """The GPC of each entry of a table."""
    of = {sm: k for k, gpc in enumerate(gpcs) for sm in gpc}
    return [of[sm] for sm in sms_of(asked, smid)]


def begins_of(asked: Sharing, smid: Sequence[int], seed: int) -> list[float]:
    """When each begins: as CTAs of a launch do, or from a common start."""
    (first, *_) = json.loads((HERE / "h200_starts.json").read_text())["starts"]
    seen = dict(zip(first["sms"], first["begins"], strict=True))
    spread = np.random.default_rng(seed).uniform(0, SPREAD, len(asked.table))
    usual = [seen[sm] for sm in sms_of(asked, smid)]
    return list(np.add(asked.late or usual, spread))


def replayed(
    asked: Sharing, record: dict[str, Any], machine: Machine = Machine(), seed: int = 1
) -> tuple[float, float]:
    """Bytes a cycle and SM, and the share that is joined, of a question of `sharing`."""
    steps = STEPS_OF_ONE if asked.tiles == 1 else sum((asked.steps[1], asked.slots))
    smid = record["sms of CTAs"]
    outcome = Together(
        Asked(
            placed(asked, record["gpcs"], smid),
            begins_of(asked, smid, seed),
            requests_of(asked, steps, machine.rows),
            asked.slots,
            asked.pace,
        ),
        machine,
    ).run()
    since = steps // 3 if asked.tiles == 1 else asked.steps[0] + asked.slots - 1
    return float(outcome.bytes_per_cycle(asked.size, since).mean()), outcome.joined


def judged(asked: Sharing) -> bool:
    """Questions of all SMs at once in rings of four slots, without products beside them.

    Of SMs that stay with their rows: by SM or from a common start, some late by up to a round. Of
    tiles: two, four and, from a common start, fourteen.
    """
    if len(asked.table) != SMS or asked.groups or asked.shift or asked.slots != SLOTS:
        return False
    if asked.tiles > 1:
        return asked.tiles in (LENGTHS if asked.late else LENGTHS[:2])
    if any(asked.late):
        return asked.pace == 0 and max(asked.late) in LATE
    return asked.pace in (0, ONE_PACE) and (asked.by_sm or bool(asked.late))


def probes() -> Iterator[tuple[Sharing, dict[str, Any], float]]:
    """Questions, the record that has them, and what the chip answered."""
    known: set[str] = set()
    for name in RECORDS:
        record = json.loads((HERE / name).read_text())
        gpcs = record["gpcs"]
        answers = {rate["name"]: rate["mean"] for rate in record["rates"]}
        every = (*operands.questions(gpcs), *skews.questions(gpcs), *skews.tiles())
        for asked in every:
            if judged(asked) and asked.name in answers.keys() - known:
                known.add(asked.name)
                yield asked, record, answers[asked.name]


def main(path: Path) -> None:
    """Replay all, and keep what came."""
    found = []
    for asked, record, chip in probes():
        rate, joined = replayed(asked, record)
        found.append({"name": asked.name, "chip": chip, "here": round(rate, 1),
                      "joined": round(joined, 3)})  # fmt: skip
        print(f"{chip:6.1f} {rate:6.1f} {joined:5.2f}  {asked.name}", flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(target(__doc__))
