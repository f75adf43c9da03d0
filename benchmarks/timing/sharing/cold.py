"""Rows that come from memory, asked for by SMs that share them; and the end of bulk stores.

CTAs, one an SM, meet before each round. `Cold`: each copies a step's rows into a ring, waits for
them, works for some cycles and asks for the step that takes the slot. `Stores`: each stores a tile
and waits for its end, or until its shared memory has been read. Where nothing is to be in the L2,
each round has rows of its own and the L2 is overwritten before the launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from benchmarks.timing.questions import DATA, ROW_BYTES, SMS
from benchmarks.timing.sharing.meeting import meeting
from benchmarks.timing.sharing.operands import SHARED, STEP_COLUMNS, Table, in_a_row
from testing.hardware.case import Case, MapArgs
from testing.hardware.micro.shared import BASE, SMEM

ROUNDS: Final = 3
"""The first one fetches code and does not count."""
WORDS: Final = 1 + 2 * ROUNDS
"""Of a CTA: its SM, and by round the cycles of all steps and those in waits."""
BACKED: Final = 1 << 20
"""A tensor of at most so many bytes is a buffer of its case; a larger one reaches into the device's
pool behind the last buffer, since only time is asked for."""
WARM: Final = 4
"""Steps after which rows of the L2 come again."""


def backed(size: int) -> np.ndarray:
    """The buffer of a tensor of ``size`` bytes."""
    return np.zeros(size if size <= BACKED else 4096, np.uint8)


def spread(cycles: np.ndarray) -> list[float]:
    """Mean, smallest and largest."""
    return [round(float(x), 1) for x in (cycles.mean(), cycles.min(), cycles.max())]


def begin(grid: int, barriers: int) -> str:
    """Registers of a CTA, its words and barriers. %q3: not the first thread."""
    made = "".join(f"mbarrier.init.shared.b64 [%r1+{8 * k}], 1;\n" for k in range(barriers))
    return (
        BASE + "mov.u32 %r62, %ctaid.x; mov.u32 %r61, %smid; mov.u32 %r60, 0; mov.u32 %r32, 0;"
        f"mul.wide.u32 %rd62, %r62, {4 * WORDS}; add.s64 %rd62, %rd62, %p1;"
        "setp.ne.u32 %q3, %r0, 0; @%q3 bra SET;"
        f"{made} st.global.b32 [%rd62], %r61; fence.mbarrier_init.release.cluster;"
        "fence.proxy.async; SET: bar.sync 0;"
        f"mul.wide.u32 %rd1, %r62, 16; add.s64 %rd1, %rd1, %p0;"
        "ld.global.v4.b32 {%r40, %r41, %r42, %r43}, [%rd1];"
        f"add.u64 %rd3, %p1, {4 * grid * WORDS}; ROUND: bar.warp.sync -1;"
        f"{meeting(grid, '%r43')} mov.u32 %r50, %clock; mov.u32 %r54, 0; mov.u32 %r31, 0; "
    )


FINISH: Final = (
    "mov.u32 %r51, %clock; sub.u32 %r52, %r51, %r50; @!%q3 st.global.b32 [%rd62+4], %r52;"
    "@!%q3 st.global.b32 [%rd62+8], %r54; add.s64 %rd62, %rd62, 8; add.u32 %r60, %r60, 1;"
    f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND; "
)


def work(label: str) -> str:
    """Cycles %n0 from %r53 on."""
    return (
        f"{label}: mov.u32 %r36, %clock; sub.u32 %r37, %r36, %r53; setp.lt.u32 %q7, %r37, %n0;"
        f"@%q7 bra {label}; "
    )


def micro_kernel(
    name: str, body: str, table: list[tuple[int, int, int, int]], pace: int,
    size: tuple[int, int], rows: tuple[int, ...],
) -> Case:  # fmt: skip
    """A micro-kernel whose tensor of bf16 has `size` rows and columns, with boxes of `rows`."""
    tall, columns = size
    grid, data = len(table), backed(tall * columns * 2)
    boxes = tuple(
        MapArgs(2, "FLOAT16", (columns, tall), (2 * columns,), (STEP_COLUMNS, n), swizzle=3)
        for n in rows
    )
    return Case(
        name=name, family="timing", body=body, inputs=(np.array(table, np.uint32).ravel(),),
        outputs=(np.zeros(grid * WORDS + 1, np.uint32), data), numbers=(pace,), maps=boxes,
        grid=grid, block=32, smem=SHARED, shared=SMEM,
    )  # fmt: skip


@dataclass(frozen=True)
class Cold:
    """Copies of rows step after step, waited for one by one.

    Attributes:
        pattern: says what `table` holds: for each CTA whose rows of the first box and of the second
            it copies; both are one where a step is 64 rows of 256 bytes, as of keys.
        flight: steps asked for ahead: with one, a step is asked for when the last has come.
        pace: cycles of work between what has come and what is asked for then.
        cold: the rows are in no cache.
        columns: of the tensor. 128: the next step has the next rows, its boxes one half of the
            columns each. More: as in a GEMM, the same rows of both boxes and the next columns.
        rows: of a box. apart: cycles that CTAs of a block begin later than the one before.
    """

    pattern: str
    table: Table
    flight: int
    pace: int = 0
    cold: bool = True
    columns: int = 2 * STEP_COLUMNS
    rows: int = 64
    apart: int = 0
    steps: int = 24

    @property
    def name(self) -> str:
        """Unique."""
        text = f"2 boxes of {self.rows} rows, {self.flight} ahead, {self.pattern}"
        text += f", {self.pace} cycles of work" if self.pace else ""
        text += f", each {self.apart} cycles later" if self.apart else ""
        text += f", rows {2 * self.columns} bytes apart" if self.columns > 2 * STEP_COLUMNS else ""
        return text + (", from memory" if self.cold else ", from the L2")

    @property
    def along(self) -> bool:
        """Steps go along the columns."""
        return self.columns > 2 * STEP_COLUMNS

    def case(self) -> Case:
        """The micro-kernel; `read` says what its output is."""
        blocks = [block for ((a, b),) in self.table for block in (a, b)]
        (first, second), size = self._blocks(), self.rows
        tall = self.rows
        if not self.along:
            tall *= self.steps + self.flight if self.cold else WARM
        kinds = 1 + max(blocks) if not self.along else first + second
        of_round = kinds * tall
        table, seen = [], dict[int, int]()
        for ((a, b),) in self.table:
            late = seen.get(a, 0)
            seen[a] = late + 1
            start = (first + b) * tall if self.along else b * tall
            table.append((a * tall, start, of_round * self.cold, late * self.apart))
        total = of_round * (ROUNDS if self.cold else 1)
        body = self._body(size * ROW_BYTES)
        return micro_kernel(self.name, body, table, self.pace, (total, self.columns), (size,))

    def _blocks(self) -> tuple[int, int]:
        """How many blocks there are of the first box and of the second."""
        tiles = [tile for (tile,) in self.table]
        return 1 + max(a for a, _ in tiles), 1 + max(b for _, b in tiles)

    def _slot(self, k: int, size: int) -> str:
        """Ask for the step %r34, %r35: its first row beyond the CTA's, its column."""
        load = (
            "@!%q3 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%r1+{to}], [%m0, {{{column}, {row}}}], [%r1+{bar}]; "
        )
        to, bar = DATA + 2 * k * size, 8 * k
        step = f"add.u32 %r34, %r34, {self.rows};"
        if self.along:
            step = f"add.u32 %r35, %r35, {STEP_COLUMNS};"
        if not (self.along or self.cold):
            step += f"and.b32 %r34, %r34, {self.rows * WARM - 1};"
        return (
            "add.u32 %r38, %r40, %r34; add.u32 %r39, %r41, %r34; add.u32 %r33, %r35, "
            f"{0 if self.along else STEP_COLUMNS};"
            f"@!%q3 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1+{bar}], {2 * size}; "
            + load.format(to=to, column="%r35", row="%r38", bar=bar)
            + load.format(to=to + size, column="%r33", row="%r39", bar=bar)
            + step
        )

    def _wait(self, k: int, side: str) -> str:
        return (
            f"mov.u32 %r55, %clock; {side}{k}: "
            f"mbarrier.try_wait.parity.shared.b64 %q6, [%r1+{8 * k}], %r32; @!%q6 bra {side}{k};"
            "mov.u32 %r53, %clock; "
        )

    def _body(self, size: int) -> str:
        turn = "".join(
            self._wait(k, "W") + "sub.u32 %r56, %r53, %r55; add.u32 %r54, %r54, %r56; "
            + (work(f"P{k}") if self.pace else "") + self._slot(k, size)
            for k in range(self.flight)
        )  # fmt: skip
        return (
            begin(len(self.table), self.flight)
            + "mul.lo.u32 %r34, %r60, %r42; mov.u32 %r35, 0; "
            + "".join(self._slot(k, size) for k in range(self.flight))
            + f"TURN: {turn} xor.b32 %r32, %r32, 1; add.u32 %r31, %r31, {self.flight};"
            f"setp.lt.u32 %q9, %r31, {self.steps}; @%q9 bra TURN; "
            + "".join(self._wait(k, "E") for k in range(self.flight))
            + "xor.b32 %r32, %r32, 1; " + FINISH
        )  # fmt: skip


@dataclass(frozen=True)
class Stores:
    """Tiles stored one after the other; each is waited for.

    Attributes:
        boxes: of 128 rows of 128 bytes, of a tile. read: wait only until they have been read.
        ctas: that store at once. pace: cycles between two tiles.
        fresh: a tile goes to rows that are in no cache; else all go to the same.
        columns: of the tensor; with 64 the rows of a tile lie together.
    """

    boxes: int
    read: bool
    ctas: int = SMS
    pace: int = 0
    fresh: bool = True
    columns: int = 2048
    steps: int = 12
    rows: int = 128

    @property
    def name(self) -> str:
        """Unique."""
        text = f"store of {self.boxes} boxes of {self.rows} rows by {self.ctas} CTAs"
        text += f", every {self.pace} cycles" if self.pace else ""
        text += f", rows {2 * self.columns} bytes apart"
        text += "" if self.fresh else ", the same again and again"
        return text + (", read" if self.read else ", ended")

    def case(self) -> Case:
        """The micro-kernel; `read` says what its output is."""
        across = self.columns // STEP_COLUMNS // self.boxes or 1
        table = []
        each = self.rows * (self.boxes if self.columns == STEP_COLUMNS else 1)
        tall = -(-self.ctas // across) * each
        for k in range(self.ctas):
            place, column = k // across, k % across * STEP_COLUMNS * self.boxes
            table.append((place * each, column % self.columns, tall * self.fresh, 0))
        total = tall * (ROUNDS * self.steps if self.fresh else 1)
        size = (total, self.columns)
        return micro_kernel(self.name, self._body(), table, self.pace, size, (self.rows,))

    def _body(self) -> str:
        store = ""
        for k in range(self.boxes):
            alone = self.columns == STEP_COLUMNS
            row = f"add.u32 %r38, %r34, {k * self.rows * alone};"
            column = f"add.u32 %r33, %r41, {k * STEP_COLUMNS * (not alone)};"
            store += (
                f"{row} {column} @!%q3 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                f"[%m0, {{%r33, %r38}}], [%r1+{DATA + k * self.rows * ROW_BYTES}]; "
            )
        ended = ".read" if self.read else ""
        return (
            begin(self.ctas, 0)
            + f"mul.lo.u32 %r34, %r60, %r42; mul.lo.u32 %r34, %r34, {self.steps};"
            "add.u32 %r34, %r34, %r40; mov.u32 %r53, %r50; TURN: "
            + (work("P") if self.pace else "")
            + f"mov.u32 %r55, %clock; {store} cp.async.bulk.commit_group;"
            f"cp.async.bulk.wait_group{ended} 0; mov.u32 %r53, %clock;"
            "sub.u32 %r56, %r53, %r55; add.u32 %r54, %r54, %r56; add.u32 %r34, %r34, %r42;"
            f"add.u32 %r31, %r31, 1; setp.lt.u32 %q9, %r31, {self.steps}; @%q9 bra TURN; " + FINISH
        )


def answer(asked: Cold | Stores, found: np.ndarray) -> dict[str, Any]:
    """Cycles of a step and of its wait: mean over CTAs, and of the fastest and slowest CTA."""
    rows = found[:-1].reshape(-1, WORDS)[:, 1:].reshape(-1, ROUNDS, 2)[:, 1:]
    step, waits = np.moveaxis(rows, 2, 0) / asked.steps
    return {
        "name": asked.name,
        "step": spread(step),
        "wait": spread(waits),
        "rounds": step.mean(axis=0).round(1).tolist(),
    }


def _sharing(sharers: int) -> Table:
    """So many CTAs in a row copy the same rows."""
    return tuple(((k // sharers, k // sharers),) for k in range(SMS))


def cold_questions() -> tuple[Cold, ...]:
    """Who waits how long for rows from memory, and for rows of the L2."""
    alone: Table = (((0, 0),),)
    keys = tuple(
        Cold(f"{n} in a row the same", _sharing(n), flight, pace, cold)
        for cold, flight, pace, n in product(
            (True, False), (1, 2, 3), (0, 1000), (1, 2, 4, 16, SMS)
        )
    )
    return (
        *(Cold("alone", alone, flight, cold=cold)
          for cold, flight in product((True, False), (1, 2, 3))),
        *keys,
        *(Cold("16 in a row the same", _sharing(16), flight, 1000, apart=apart)
          for flight in (1, 2) for apart in (50, 200, 800)),
        *(Cold(f"{n} in a row the same A", in_a_row(n), flight, pace, cold, columns=4096, rows=128)
          for cold, flight, pace, n in product((True, False), (1, 2, 3), (0, 512), (8, 32))),
    )  # fmt: skip


def store_questions() -> tuple[Stores, ...]:
    """How long the end of stores takes, of one CTA and of all."""
    return tuple(
        Stores(boxes, read, ctas, pace, fresh, columns, steps=8 if boxes > 3 else 12)
        for (boxes, columns, pace, fresh), ctas, read in product(
            (
                (1, 2048, 0, True), (2, 2048, 0, True), (4, 2048, 0, True), (1, 2048, 4000, True),
                (2, 2048, 4000, True), (3, STEP_COLUMNS, 4000, True), (1, STEP_COLUMNS, 0, False),
                (1, STEP_COLUMNS, 4000, False), (2, 2048, 4000, False),
            ),
            (1, SMS), (False, True),
        )
    )  # fmt: skip
