"""The clocked machine beside SemiAnalysis' sweep of a GEMM's main loop on a B200.

    git clone https://github.com/SemiAnalysisAI/microbench-blackwell
    cd microbench-blackwell/cutlass_gemm_mainloop
    python -m benchmarks.timing.mainloop results.csv docs/timing_mainloop.md

One CTA loads tiles of A and B through a ring of stages and multiplies them, K = 131,072. The loops
are not CUTLASS's machine code: they are its instructions with the distances of such loops.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.machine_state import model, states
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import run_cluster
from sm100sim.timing.records import Action, DynamicEvent, Place
from testing.clocked import Entry, Program, op

K: Final = 131_072
MMA_BYTES: Final = 32
ROW_BYTES: Final = 128
CLOCK_GHZ: Final = 1.3
"""The sweep's own `plot_results.py` at 9a068d8 says so, and draws its peak with it."""
HALF_L2: Final = 63 * 2**20
"""Bytes of one of the L2's halves; what is larger comes from memory each time.

CUTLASS's tensor maps ask the L2 to fetch 128 bytes (`copy_traits_sm90_tma.hpp`: L2_PROMOTION_128B),
so of four turns of 32 bytes, or two of 64, the first one waits for memory and the others do not.
"""
SHARED_BYTES: Final = 232_448 - 1_200
"""Shared memory of a CTA for stages: CUTLASS keeps about so much of it for its scheduler."""
BARRIER_BYTES: Final = 16
"""Of the two barriers of a stage."""
TURN: Final = 40
"""Cycles of a producer's turn between its wait and its first copy."""

REASONS: Final = """
What has changed since these rows had been seen, each in a commit before the run:

* **The clock.** This page took the sweep to run at 1.965 GHz. Its authors draw its peak at 1.3 GHz,
  and only so do its rows agree with their own counts in cycles: the deepest loops take 1.54 times
  their products at 1.965 GHz, with 64 rows and with 128, and 1.02 times at 1.3 GHz.
* **Copies.** A row takes 1.07 cycles (120 bytes a cycle); it had 1.5, the sweep's floor at the
  wrong clock. A copy takes 400 cycles beyond its rows; it had 640, the middle of a range that
  reached to three copies at once. The same authors' boxes from memory, counted in cycles, take 900
  for a round trip, and two in flight 34 more; a table of latencies for a compiler has 240 more.
* With the clock and the rows alone the error was 18.2 %, mean +17.5 %; before both it was 9.4 %,
  mean -8.5 %, worst -35.8 %; with the latency 6.4 %, mean +4.9 %, worst +35.4 %.
* **Rows of 32 and 64 bytes** take 1.00 cycles: an H200 takes 1.00 for them and 1.19 for long ones
  (sharing/operands.py), and the sweep's own floors say 1.00 and 1.07. What it does to these rows
  was known before it was taken: 5.4 %.
* **Lines of the L2.** CUTLASS's tensor maps ask it to fetch 128 bytes. So where all comes from
  memory, one turn of four waits for it at k = 16, one of two at k = 32 (in bf16), and not all:
  5.1 %, worst +21.7 % (was +33.7 %). The reason was found in these rows, the value in CUTLASS.
* **Boxes of few rows** take their rows alone: of boxes of 256 and 8, 16, 32 or 64 rows in turn an
  H200 copies a row a cycle (sharing/skews.py). The 48 cycles of a B300 are now from the beginning
  of one box to that of the next. Before, a box took 48 at least: 128 × 16 and 128 × 32 were 6 to
  14 % slow.

What is known of the misses:

* **64 × 16 and 64 × 32**, deep loops, -12 to -26 %: two boxes of 64 and 16 or 32 rows take these
  loops 114 to 126 cycles, so 57 to 63 from box to box, where the machine has 48. Published are 48
  (a B300) and 30 (Meta's table for a B200); an H200's probe takes 82 for boxes of 8 rows, of which
  its own instructions explain 72. What CUTLASS's loop of instructions takes is not known here.
* **Two to four stages, k = 16 and 32**, +5 to +12 %: 50 to 70 cycles of a round trip of 600 to 700,
  within the range of the latency of a copy (340 to 450; 400 is taken).
* **From memory, many stages**, k = 16 and 32: -6 %; the machine has no limit of memory for one SM.
"""


@dataclass(frozen=True)
class Row:
    """A configuration of the sweep; `cycles`: of one turn of the loop, measured."""

    m: int
    n: int
    k: int
    stages: int
    dtype: str
    cycles: float

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 2 if self.dtype == "BF16" else 1

    @property
    def footprint(self) -> int:
        """Bytes of A and B."""
        return (self.m + self.n) * K * self.size


def read_rows(lines: Iterable[str]) -> Iterator[Row]:
    """The rows that were measured; 0 stages stand for as many as fit, as CUTLASS counts them."""
    for entry in csv.DictReader(lines):
        if not (entry["time_ms"] or "")[:1].isdigit():
            continue
        m, n, k, stages = (int(entry[f]) for f in ("TILE_M", "TILE_N", "TILE_K", "STAGES"))
        cycles = float(entry["time_ms"]) * 1e6 * CLOCK_GHZ / (K / k)
        row = Row(m, n, k, stages, entry["dtype"], cycles)
        stage = (m + n) * k * row.size + BARRIER_BYTES
        yield replace(row, stages=stages or SHARED_BYTES // stage)


def loops(row: Row, turns: int) -> Program:
    """The producer's and the MMA warp's loops."""
    full = [Place(0, 16 * s) for s in range(row.stages)]
    empty = [Place(0, 16 * s + 8) for s in range(row.stages)]
    row_bytes = row.k * row.size
    pieces = -(-row_bytes // ROW_BYTES)
    producer: list[Entry] = [
        (op("SYNCS.EXCH.64 URZ, [UR4], UR5"), _event(Action.MBARRIER_INIT, b, shape=(1,)))
        for b in (*full, *empty)
    ]
    consumer: list[Entry] = [op("NOP")]
    mma = DynamicEvent(Action.MMA, 1, shape=(row.m, row.n, MMA_BYTES // row.size))
    for turn in range(turns):
        filled, freed = full[turn % row.stages], empty[turn % row.stages]
        phase = turn // row.stages
        producer += [_wait(freed, phase), op("NOP", TURN % 16 or 15, wait=(0,))]
        producer += [op("NOP", 8)] * (TURN // 16)
        tile = (row.m + row.n) * row_bytes
        fresh = float(row.footprint > HALF_L2 and turn * row_bytes % ROW_BYTES == 0)
        arrival = _event(Action.MBARRIER_ARRIVE, filled, count=1, size=tile)
        producer.append((op("SYNCS.ARRIVE.TRANS64.A1TR RZ, [UR4], UR7"), arrival))
        for rows in (row.m, row.n) * pieces:
            shape = (rows, min(row_bytes, ROW_BYTES))
            size = rows * shape[1]
            copy = _event(Action.COPY_LOAD, filled, size=size, shape=shape, fresh=fresh)
            producer.append((op("UTMALDG.2D [UR8], [UR4]", 12), copy))
        consumer += [_wait(filled, phase + 1), op("NOP", 13, wait=(0,))]
        multiply = op("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]", 7)
        consumer += [(multiply, mma)] * (row_bytes // MMA_BYTES)
        consumer.append((op("UTCBAR [UR4], URZ", 2), _event(Action.MMA_COMMIT, freed)))
    return Program().warp(0, *producer).warp(1, *consumer)


def _event(kind: Action, barrier: Place, **more: Any) -> DynamicEvent:
    return DynamicEvent(kind, 1, objects=(barrier,), **more)


def _wait(barrier: Place, phase: int) -> Entry:
    wait = _event(Action.MBARRIER_WAIT, barrier, phase=phase)
    return op("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R0", write=0), wait


@cache
def draw_for() -> Draw:
    """The B200's values; one CTA has the L2 and memory for itself."""
    return load_chip("b200").draw().having({"l2_pressure": 0.0, "hbm_pressure": 0.0})


def predicted(row: Row) -> float:
    """Cycles of one turn in the steady state."""
    draw = draw_for()
    few, many = 4 * row.stages, 8 * row.stages
    long, short = (run_cluster(loops(row, n).trace(), draw).cycles for n in (many, few))
    return (long - short) / (many - few)


def page(rows: Iterable[Row]) -> str:
    """The table: errors by tile, and over all rows."""
    errors: dict[tuple[str, int, int], list[tuple[float, Row]]] = defaultdict(list)
    for row in rows:
        error = predicted(row) / row.cycles - 1
        errors[row.dtype, row.m, row.n].append((error, row))
    lines = [
        "# The main loop of a GEMM: predicted beside published", "",
        "Written by `python -m benchmarks.timing.mainloop`. Published: SemiAnalysis,",
        "`microbench-blackwell`, one CTA on a B200, at 1.3 GHz as its `plot_results.py` says.",
        "Predicted: the clocked machine with the B200's values and no draw; nothing is fitted",
        f"to these rows; {states([{'model': model()}])}.",
        "Where the sweep leaves the number of stages to CUTLASS, as many as fit are taken. Of",
        "these 110 rows 44 have a twin with that number, whose time is within 0.5 % of theirs.", "",
        "| type | tile | rows | mean error | mean size of error | worst (k, stages) |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for (dtype, m, n), found in sorted(errors.items()):
        worst, row = max(found, key=lambda pair: abs(pair[0]))
        lines.append(
            f"| {dtype} | {m} × {n} | {len(found)} | {_mean(e for e, _ in found):+.1%} | "
            f"{_mean(abs(e) for e, _ in found):.1%} | {worst:+.1%} ({row.k}, {row.stages}) |"
        )
    every = [e for found in errors.values() for e, _ in found]
    by_row: dict[int, list[float]] = defaultdict(list)
    for error, row in (pair for found in errors.values() for pair in found):
        by_row[min(row.k * row.size, ROW_BYTES)].append(error)
    total = f"{_mean(every):+.1%} | {_mean(map(abs, every)):.1%} | {max(every, key=abs):+.1%} |"
    head = "| bytes of a row of a box | rows | mean error | mean size of error |"
    lines += [f"| all | | {len(every)} | {total}", "", head, "|---|---|---|---|"]
    for size, off in sorted(by_row.items()):
        more = " and more" if size == ROW_BYTES else ""
        lines.append(
            f"| {size}{more} | {len(off)} | {_mean(off):+.1%} | {_mean(map(abs, off)):.1%} |"
        )
    return "\n".join([*lines, REASONS])


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def main(arguments: list[str]) -> int:
    """Write the page; returns the exit status."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    source, target = map(Path, arguments)
    with source.open() as lines:
        target.write_text(page(read_rows(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
