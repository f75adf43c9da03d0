"""Planted synchronisation faults, and which of them are found: ``make mutants``.

Every fault is one edited or moved PTX statement of a compiled kernel (``sm100sim.mutate``). A
mutant is killed by a finding, a fault of the run, or another result; it runs at once and late under
all checks, then in random order. Survivors must be in the table of ``equivalent_mutants``, with the
reason why no run can tell them apart; an unexplained one, or a reason without its survivors, makes
the exit status 1. Which faults are planted in a kernel: ``planting``.

    python -m benchmarks.mutants            all kernels
    python -m benchmarks.mutants NAME ..    these; rows of others stay in the record
    python -m benchmarks.mutants --stale    name kernels whose row is not of the PTX of now

The record, ``mutants.json``, has a row for each kernel with the digest of the PTX that was changed;
the page of results is made from it (``results_page``).
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.equivalent_mutants import Survivor, barrier_of, explain
from benchmarks.mutant_cases import BASES, KERNELS
from benchmarks.planting import MOVED_ADDRESSES, barrier_names, chosen, shared_lines
from benchmarks.processes import processor_seconds
from sm100sim.mutate import Mutant
from sm100sim.options import RunOptions
from sm100sim.ptx.errors import PtxError
from sm100sim.report import SimulationFault
from testing.launches import Launch
from testing.runner import CHECKS

RECORD = Path(__file__).with_suffix(".json")
PROCESSES = 2
IDLE = 2_000_000
QUICK = RunOptions(mode="fast", max_idle_instructions=IDLE)
SCHEDULES = (
    RunOptions(mode="fast", checks=CHECKS, max_idle_instructions=IDLE),
    RunOptions(mode="late", checks=CHECKS, max_idle_instructions=IDLE),
    RunOptions(mode="random", seed=1, max_idle_instructions=IDLE),
    RunOptions(mode="random", seed=2, max_idle_instructions=IDLE),
)
Trial = tuple[Launch, list[bytes]]
Row = dict[str, Any]
"""What the record says of a kernel."""


@cache
def digest(kernel: str) -> str:
    """What tells the PTX of a kernel from others; its entry name, which may change, is masked."""
    request = Launch(KERNELS[kernel][0]).request
    return sha256(request.ptx.replace(request.kernel, "KERNEL").encode()).hexdigest()[:16]


@cache
def prepared(kernel: str) -> tuple[list[Trial], list[Mutant]]:
    """The launches of a kernel with the bits of their results, and its mutants."""
    launches = []
    for case in KERNELS[kernel]:
        launch = Launch(case)
        report, base = launch.execute(SCHEDULES[0])
        if report.verdict != "clean":
            raise RuntimeError(f"{case.name} is not clean before any change\n{report.summary()}")
        launches.append((launch, base))
    return launches, chosen(kernel)


def trial(launches: list[Trial], mutant: Mutant) -> str | None:
    """How the mutant was killed, or None.

    Raises:
        PtxError: the changed PTX cannot be read, or has no meaning where it is executed.
    """
    schedules = (QUICK, *SCHEDULES) if mutant.kind in MOVED_ADDRESSES else SCHEDULES
    for options in schedules:
        for launch, base in launches:
            try:
                report, outputs = launch.execute(options, mutant.ptx)
            except SimulationFault as fault:
                if isinstance(fault, PtxError):
                    raise
                return f"fault: {fault.report.findings[-1].code}"
            if report.findings:
                return f"finding: {report.findings[0].code}"
            if outputs != base:
                return "values"
    return None


def run_part(kernel: str, part: int, parts: int) -> dict[int, str | None]:
    """Run every `parts`-th mutant of a kernel: its number -> how it was killed."""
    torch.set_num_threads(1)
    launches, found = prepared(kernel)
    results: dict[int, str | None] = {}
    for number in range(part, len(found), parts):
        try:
            results[number] = trial(launches, found[number])
        except PtxError:
            results[number] = "refused: PTX"
    return results


def show_kernel(kernel: str, results: dict[int, str | None]) -> Row:
    """Print the table of one kernel and return its row of the record."""
    launches, found = prepared(kernel)
    launch = launches[0][0]
    names, lines = barrier_names(launch), launch.request.ptx.split("\n")
    totals = Counter(m.kind for m in found)
    dead = Counter(m.kind for k, m in enumerate(found) if results[k])
    how: dict[str, Counter[str]] = {kind: Counter() for kind in totals}
    for number, mutant in enumerate(found):
        how[mutant.kind][results[number] or "survives"] += 1
    killed, note = sum(dead.values()), ""
    lines_of_base = shared_lines(kernel)
    shared = sum(m.line in lines_of_base for m in found)
    if kernel in BASES:
        note = f"; {shared} of them in statements that {BASES[kernel]} has too, a few of each class"
    print(f"\n{launch.case.name} ({launch.spec.name}): {killed} of {len(found)} killed{note}")
    for kind, total in sorted(totals.items()):
        ways = ", ".join(f"{count} {way}" for way, count in how[kind].most_common())
        print(f"  {kind:26}{dead[kind]:4} /{total:4}   {ways}")
    survivors = [
        Survivor(m, barrier_of(m.line, m.before, lines, names))
        for k, m in enumerate(found)
        if results[k] is None
    ]
    explained, problems = explain(kernel, survivors)
    for survivor in explained:
        print(f"    equivalent: {survivor}: {survivor.reason}")
    for problem in problems:
        print(f"    UNEXPLAINED {problem}")
    return {
        "case": launch.case.name, "kernel": launch.spec.name, "ptx": digest(kernel),
        "total": len(found), "killed": killed,
        "base": BASES.get(kernel, ""), "shared": shared,
        "classes": {kind: [dead[kind], n] for kind, n in sorted(totals.items())},
        "equivalent": dict(Counter(survivor.reason for survivor in explained)),
        "unexplained": problems,
    }  # fmt: skip


def recorded() -> dict[str, Row]:
    """The rows of the record by kernel."""
    rows: dict[str, Row] = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    return rows


def save(rows: dict[str, Row]) -> None:
    """Put the rows into the record, in which those of other kernels stay."""
    merged = {**recorded(), **rows}
    names = [name for name in KERNELS if name in merged]
    lines = [f"{json.dumps(name)}: {json.dumps(merged[name])}" for name in names]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def show_stale(names: Sequence[str]) -> int:
    """Name the kernels whose row is of other PTX than that of now; 1 when there are some."""
    rows = recorded()
    for name in (old := [n for n in names if rows.get(n, {}).get("ptx") != digest(n)]):
        print(f"{name}: {'other PTX' if name in rows else 'no row'}")
    print(f"{len(names) - len(old)} of {len(names)} rows are of the PTX of now")
    return int(bool(old))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants of the kernels that are named, or of all."""
    parser = ArgumentParser(prog="python -m benchmarks.mutants", description=main.__doc__)
    parser.add_argument("kernels", nargs="*", metavar="kernel", help=", ".join(KERNELS))
    parser.add_argument("--processes", type=int, default=PROCESSES, help="at a time")
    parser.add_argument("--stale", action="store_true", help="only name rows of other PTX")
    asked = parser.parse_intermixed_args(arguments)
    names, processes = asked.kernels or list(KERNELS), asked.processes
    if unknown := [name for name in names if name not in KERNELS]:
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(KERNELS)}")
    if asked.stale:
        return show_stale(names)
    start, rows = time.perf_counter(), {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = {
            kernel: [pool.submit(run_part, kernel, part, processes) for part in range(processes)]
            for kernel in names
        }
        for kernel, futures in parts.items():
            results = {k: way for future in futures for k, way in future.result().items()}
            rows[kernel] = show_kernel(kernel, results)
            save(rows)
            print(f"  after {time.perf_counter() - start:.0f} s", flush=True)
    total, killed = (sum(row[key] for row in rows.values()) for key in ("total", "killed"))
    unexplained = sum(len(row["unexplained"]) for row in rows.values())
    print(
        f"\n{killed} of {total} killed, {total - killed} survive, {unexplained} unexplained; "
        f"{time.perf_counter() - start:.0f} s, {processor_seconds():.0f} s of processor time"
    )
    return int(bool(unexplained))


if __name__ == "__main__":
    raise SystemExit(main())
