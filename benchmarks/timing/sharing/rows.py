"""Rows that lanes load and wait for: how long by their size, by how many SMs ask and how often.

Each row is timed on its own, so that what they take can be told from how it varies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np

from benchmarks.timing.questions import ROW_BYTES, SMS
from benchmarks.timing.replayed import launch_of_case
from benchmarks.timing.sharing.cold import ROUNDS, WARM, Cold, backed, spread, work
from benchmarks.timing.sharing.lanes import Loads
from benchmarks.timing.sharing.operands import Table
from sm100sim.timing.chips import Draw
from sm100sim.timing.predict.gpu import asked_of_l2, time_launch
from sm100sim.timing.records import Action, Extent, LaunchTrace
from testing.hardware.case import Case
from testing.hardware.micro.shared import BASE, SMEM

NEIGHBOURS: Final = 0
"""The rows of a step lie side by side, CTA by CTA, and step behind step."""
FAR: Final = 1 << 20
"""Bytes between the rows of two CTAs."""


@dataclass(frozen=True)
class Rows:
    """A CTA loads a row, waits for it, and goes on to its next one.

    Attributes:
        threads: of a CTA. loads: of a lane and row. width: bytes that a lane loads at once.
        ctas: one an SM. apart: bytes from a CTA's first row to that of the next CTA, whose rows lie
            side by side; `NEIGHBOURS`: rows of a step do.
        ring: rows of a CTA after which they come again; 0: none does, all are in no cache.
        pace: cycles of other work before a row. added: an atomic operation on a word of the CTA's
            own line ends a row, and is waited for.
        onward: bytes from a row to the next, where rows do not follow one another.
    """

    threads: int
    loads: int
    ctas: int = SMS
    apart: int = FAR
    ring: int = 0
    pace: int = 0
    added: bool = False
    width: int = 16
    onward: int = 0
    steps: int = 8

    @property
    def name(self) -> str:
        """Unique."""
        text = f"rows of {self.size} bytes by {self.threads} lanes of {self.ctas} CTAs, "
        text += "far apart" if self.apart else "side by side"
        text += f", the next {self.onward} bytes on" if self.onward else ""
        text += f", {self.pace} cycles of work" if self.pace else ""
        if self.ring:
            text += ", from the L2" if self.ring == WARM else f", {self.ring} again and again"
        return text + ", each counted" * self.added

    @property
    def size(self) -> int:
        """Bytes of a row."""
        return self.threads * self.loads * self.width

    def case(self) -> Case:
        """The micro-kernel; by CTA and round the cycles of each row. %n1 is 0."""
        onward = self.onward or (self.size if self.apart else self.ctas * self.size)
        first, words = self.apart or self.size, ROUNDS * self.steps
        data = backed((self.ctas - 1) * first + words * onward)
        loads = Loads(self.loads, self.threads * self.width, self.width)
        body = (
            BASE + loads.registers + "mov.u32 %r62, %ctaid.x; mov.u32 %r60, 0;"
            f"mul.lo.u32 %r3, %r0, {self.width};"
            f"cvt.u64.u32 %rd6, %r3; mul.wide.u32 %rd4, %r62, {first};"
            "add.s64 %rd4, %rd4, %p2; add.s64 %rd4, %rd4, %rd6; mov.b64 %rd7, %rd4; "
            f"mul.wide.u32 %rd62, %r62, {4 * words}; add.s64 %rd62, %rd62, %p0;"
            f"mul.wide.u32 %rd8, %r62, {ROW_BYTES}; add.s64 %rd8, %rd8, %p1; "
            "setp.ne.u32 %q3, %r0, 0; mov.u32 %r33, 0; ROUND: bar.sync 0; mov.u32 %r31, 0; TURN: "
            f"{self._work()} {self._row(loads)} add.s64 %rd4, %rd4, {onward}; {self._again()}"
            f"add.u32 %r31, %r31, 1; setp.lt.u32 %q9, %r31, {self.steps}; @%q9 bra TURN; "
            f"add.u32 %r60, %r60, 1; setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND; "
        )
        cycles, counts = np.zeros(words * self.ctas, np.uint32), np.zeros(32 * self.ctas, np.uint32)
        return Case(
            name=self.name, family="timing", body=body, outputs=(cycles, counts, data),
            grid=self.ctas, numbers=(self.pace, 0), block=self.threads, smem=1024, shared=SMEM,
            directives=f".maxntid {self.threads}",
        )  # fmt: skip

    def _work(self) -> str:
        """Cycles %n0 from the last row's end on."""
        if not self.pace:
            return ""
        return "mov.u32 %r53, %clock; " + work("WORK")

    def _row(self, loads: Loads) -> str:
        """Load, wait, write down. A reading of the clock keeps loads in front of what they bring;
        the next address, the count and the barrier depend on it."""
        count = (
            "mov.u32 %r58, 0; @!%q3 atom.relaxed.gpu.global.add.u32 %r58, [%rd8], 1;"
            "and.b32 %r58, %r58, %n1; add.u32 %r57, %r57, %r58; "
        )
        return (
            f"bar.sync 0; mov.u32 %r50, %clock; {loads.issued} mov.u32 %r55, %clock;"
            f"and.b32 %r55, %r55, %n1; {loads.joined} cvt.u32.u64 %r57, %rd5;"
            f"and.b32 %r57, %r57, %n1; add.u32 %r57, %r57, %r55; {count * self.added}"
            "cvt.u64.u32 %rd5, %r57; add.s64 %rd4, %rd4, %rd5; setp.ne.u32 %q8, %r57, 0;"
            "bar.red.or.pred %q8, 0, %q8; mov.u32 %r51, %clock;"
            "sub.u32 %r52, %r51, %r50; add.u32 %r52, %r52, %r57; @!%q3 st.global.b32 [%rd62], %r52;"
            "add.s64 %rd62, %rd62, 4; "
        )

    def _again(self) -> str:
        """Rows begin anew."""
        if not self.ring:
            return ""
        return (
            f"add.u32 %r33, %r33, 1; setp.eq.u32 %q8, %r33, {self.ring}; @%q8 mov.b64 %rd4, %rd7;"
            "@%q8 mov.u32 %r33, 0; "
        )

    def answer(self, found: np.ndarray) -> dict[str, Any]:
        """Cycles of a row: mean, least and most of CTAs, and how far rows deviate in all."""
        rows = found.reshape(-1, ROUNDS, self.steps)[:, 1:]
        return {
            "name": self.name,
            "row": spread(rows.mean(axis=(1, 2))),
            "deviation": round(float(rows.std()), 1),
        }


def launch_of(asked: Rows, steps: int) -> LaunchTrace:
    """The launch of a question with so many rows a round; the first CTA stands for all."""
    launch = launch_of_case(replace(asked, ctas=1, steps=steps).case())
    (trace,) = launch.traces
    first = min(event.address for event in trace.events if event.detail[:1] == ("ld",))
    rows = asked.ring or ROUNDS * steps
    size = asked.ctas * rows * (asked.onward or asked.size)
    return _of_all(launch, asked.ctas, Extent(first, size, size))


def _of_all(launch: LaunchTrace, ctas: int, read: Extent) -> LaunchTrace:
    """A launch of so many CTAs that do what the one of `launch` does, and read a tensor."""
    (trace,) = launch.traces
    all_ = replace(trace, clusters=tuple(range(ctas)))
    return replace(launch, grid=(ctas, 1, 1), traces=(all_,), tensors=(read,))


def machine(asked: Rows, draw: Draw, counts: tuple[int, int] = (4, 20)) -> float:
    """Cycles from row to row that a CTA takes in the machine, where the chip's work as long."""
    cold = not asked.ring
    short, long = (_cycles(launch_of(asked, steps), draw, cold) for steps in counts)
    return (long - short) / ROUNDS / (counts[1] - counts[0])


def _cycles(launch: LaunchTrace, draw: Draw, cold: bool) -> float:
    """Of a CTA, not of the slowest one; of all, where the L2 has what they load."""
    found = asked_of_l2(launch, draw)
    alike = found.having({"wait_spread": 0.0})
    time = time_launch(launch, alike, cold=cold)
    return time.longest.cycles if cold else time.cycles


def table(answers: Iterable[Mapping[str, Any]]) -> str:
    """Rows from memory, far apart, by size and by how many SMs ask."""
    said = {entry["name"]: entry["row"][0] for entry in answers}
    asked = [Rows(32, 1, width=4), *(Rows(threads, loads) for threads, loads in SIZES)]
    lines = ["| bytes of a row | " + " | ".join(f"{n} SMs" for n in SOME) + " | from the L2 |"]
    lines.append("|---|" + "---|" * (len(SOME) + 1))
    for row in asked:
        near = said.get(replace(row, ctas=SMS, ring=WARM).name)
        cells = [f"{said[replace(row, ctas=n).name]:,.0f}" for n in SOME]
        lines.append(f"| {row.size:,} | {' | '.join(cells)} | {f'{near:,.0f}' if near else ''} |")
    return "\n".join(lines)


SIZES: Final = ((32, 1), (128, 1), (128, 2), (128, 4), (256, 4), (256, 8))
"""Threads, and loads of a lane: rows of 512 bytes to 32 KB."""
SOME: Final = (1, 4, 12, 33, 66, SMS)


def questions() -> tuple[Rows, ...]:
    """By size, by how many SMs ask, by what they do in between."""
    return (
        *(Rows(32, 1, ctas, width=4) for ctas in SOME),
        *(Rows(threads, loads, ctas) for (threads, loads), ctas in product(SIZES, SOME)),
        *(Rows(threads, loads, SMS, NEIGHBOURS) for threads, loads in SIZES),
        *(Rows(threads, loads, SMS, pace=pace)
          for (threads, loads), pace in product(SIZES, (500, 1000, 3000))),
        *(Rows(threads, loads, ctas, ring=WARM)
          for (threads, loads), ctas in product(SIZES, (1, 33, SMS))),
        *(Rows(1, 1, ctas, width=4, onward=onward, steps=64)
          for ctas, onward in product((12, SMS), (32, 64, 128, 256, 512, 1024, 2048, 4096))),
        *(Rows(128, 1, ctas, ring=ring, added=True)
          for ctas, ring in product((1, 4, 33, SMS), (0, WARM))),
        *(Rows(128, 1, SMS, ring=ring, steps=ring)
          for ring in (40, 80, 100, 120, 140, 160, 180, 200, 230, 260, 300, 360)),
    )  # fmt: skip


OWN: Final = (4, 33, SMS)
"""SMs that copy boxes of their own."""
BOXES: Final = (8, 16, 32, 64, 128)
"""Rows of each of two boxes."""


def own(count: int, rows: int, columns: int, *, cold: bool) -> Cold:
    """So many CTAs copy rows of their own, which lie together (of 128 columns) or apart."""
    table: Table = tuple(((k, k),) for k in range(count))
    return Cold(f"{count} SMs their own", table, 1, cold=cold, columns=columns, rows=rows, steps=12)


def box_questions() -> tuple[Cold, ...]:
    """Waits by how many rows a step has, and by whether they lie together."""
    return tuple(
        own(count, rows, columns, cold=cold)
        for columns, rows, count in product((128, 4096), BOXES, OWN)
        for cold in (True, False)
        if count * rows * columns < SMS * 128 * 4096
    )


def box_machine(asked: Cold, draw: Draw, counts: tuple[int, int] = (8, 20)) -> float:
    """Cycles of a step in the machine. Tensors are larger than what is executed of them: one CTA's
    boxes stand for those of all."""
    short, long = (_cycles(_box_launch(asked, steps), draw, asked.cold) for steps in counts)
    return (long - short) / ROUNDS / (counts[1] - counts[0])


def _box_launch(asked: Cold, steps: int) -> LaunchTrace:
    ctas = len(asked.table)
    case = replace(asked, table=(((0, 0),),), steps=steps).case()
    (box,) = case.maps
    whole = np.zeros(2 * box.sizes[0] * box.sizes[1], np.uint8)
    launch = launch_of_case(replace(case, outputs=(case.outputs[0], whole)))
    (trace,) = launch.traces
    boxes = [event for event in trace.events if event.kind is Action.COPY_LOAD]
    first = min(event.address for event in boxes)
    size = ctas * sum(event.size for event in {event.address: event for event in boxes}.values())
    return _of_all(launch, ctas, Extent(first, ctas * whole.nbytes, size))


def box_table(answers: Iterable[Mapping[str, Any]]) -> str:
    """How much longer than for rows of the L2 an SM waits for those of memory."""
    waits = {entry["name"]: entry["wait"][0] for entry in answers}
    lines = ["| rows of 128 bytes | " + " | ".join(f"{n} SMs" for n in OWN) + " |"]
    lines.append("|---|" + "---|" * len(OWN))
    for columns, rows in product((128, 4096), BOXES):
        pairs = [[own(n, rows, columns, cold=c).name for c in (True, False)] for n in OWN]
        cells = [f"{waits[a] - waits[b]:,.0f}" if a in waits else "" for a, b in pairs]
        where = "together" if columns == 128 else f"{2 * columns:,} bytes apart"
        lines.append(f"| {2 * rows}, {where} | {' | '.join(cells)} |")
    return "\n".join(lines)
