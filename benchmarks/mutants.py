"""Planted synchronisation faults, and which of them are found: ``make mutants``.

Every fault is one edited or moved PTX statement of a compiled kernel (``sm100sim.mutate``). A
mutant is killed by a finding, a fault of the run, or another result; it runs at once and late under
all checks, then in random order. Survivors must be in the table of ``equivalent_mutants``, with the
reason why no run can tell them apart; an unexplained one, or a reason without its survivors, makes
the exit status 1. Classes that only move an address are thinned: they are many and alike.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import torch

from fa4_cute.plan.depth512_smem import Depth512AttentionSMem
from fa4_cute.plan.smem_layout import SM100AttentionSMem
from sm100sim.mutate import Mutant, mutants, thinned
from sm100sim.options import Check, RunOptions
from sm100sim.ptx.errors import PtxError
from sm100sim.report import SimulationFault

from .equivalent_mutants import Survivor, barrier_of, explain
from .launches import AnyCase, Case, Featured, Launch

RESULT = Path("out/mutants.json")
PROCESSES = 2
CAUSAL, PAGES = frozenset({"causal"}), frozenset({"ragged", "page16"})
PERSISTENT = frozenset({"persistent", "ragged", "causal"})
KERNELS: dict[str, tuple[AnyCase, ...]] = {
    "2q": (Case(300, 760, 128, causal=True, growth=0.016), Case(600, 70, 128, causal=True)),
    "pair512": (Case(200, 950, 512, causal=True, growth=0.016), Case(400, 70, 512, causal=True)),
    "pair256": (
        Case(300, 760, 256, causal=True, growth=0.016, dtype=torch.float16),
        Case(600, 70, 256, causal=True, dtype=torch.float16),
    ),
    "1q": (
        Case(100, 890, 128, causal=True, growth=0.016, num_qo=1),
        Case(100, 760, 128, causal=True, growth=0.016, num_qo=1),
        Case(300, 70, 128, causal=True, num_qo=1),
    ),
    "2q-persistent": (
        Featured(PERSISTENT, 128, ((300, 420), (0, 20), (200, 500)), 2, 1, num_qo=2, sharpness=4.0),
        Featured(PERSISTENT, 128, ((600, 70),), 2, 1, num_qo=2),
    ),
    "1q-persistent": (
        Featured(PERSISTENT, 128, ((130, 620), (0, 20), (70, 500)), 2, 1, num_qo=1, sharpness=4.0),
        Featured(PERSISTENT, 128, ((300, 70), (2, 200)), 2, 1, num_qo=1),
        Featured(PERSISTENT, 128, ((20, 890), (20, 760), (20, 1010), (20, 890)), 2, 1, num_qo=1),
    ),
    "2q-pair": (
        Case(600, 760, 128, causal=True, growth=0.016, pair_cta=True),
        Case(900, 70, 128, causal=True, pair_cta=True),
        Case(512, 1700, 128, causal=True, growth=0.016, pair_cta=True),
    ),
    "pair256-pages": (
        Featured(PAGES | CAUSAL, 256, ((150, 420), (40, 17)), 2, 1, sharpness=4.0),
        Featured(PAGES | CAUSAL, 256, ((300, 17), (9, 60)), 2, 1),
    ),
}
"""Per kernel: a long problem whose row maxima grow, so that O is rescaled and the rings wrap
around, whose last key tile is nearly full, and one whose first tiles see no key at all. One Q tile
runs with an odd and an even number of key tiles, a persistent CTA takes several query tiles, and
with pages rows of V that belong to no key are cleaned. The combine kernel has no synchronisation
that could be at fault."""

IDLE = 2_000_000
QUICK = RunOptions(max_idle_instructions=IDLE)
STRICT = Check.STRICT_LD | Check.STRICT_FENCE | Check.STRICT_LANES | Check.STRICT_SCOPE
CHECKS = Check.ALL | STRICT
SCHEDULES = (
    RunOptions(checks=CHECKS, max_idle_instructions=IDLE),
    RunOptions(mode="late", checks=CHECKS, max_idle_instructions=IDLE),
    RunOptions(mode="random", seed=1, max_idle_instructions=IDLE),
    RunOptions(mode="random", seed=2, max_idle_instructions=IDLE),
)
MOVED_ADDRESSES = frozenset({
    "a-k-step+", "a-row-group+", "a-row-group-", "b-k-step+", "b-row-group+", "b-row-group-",
    "accumulator-column", "operand-column", "tmem-column+8", "tmem-column-8", "wrong-stage-buffer",
})  # fmt: skip
"""Classes that give wrong values; they run without checks first, which is faster."""
REPEATED = frozenset({
    "drop-copy", "copy-signals-neighbour", "drop-wait-ld", "drop-fence-before", "drop-fence-after",
})  # fmt: skip
"""Classes with many statements that differ by an offset only."""
LIMIT = 6
"""Mutants of each thinned class, spread over the kernel."""

Trial = tuple[Launch, list[bytes]]
Row = dict[str, Any]
"""What the report says of a kernel."""


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
    return launches, planted(launches[0][0])


def planted(launch: Launch) -> list[Mutant]:
    """The mutants of a launch's kernel, of frequent classes only some."""
    found = mutants(launch.request.ptx, launch.request.kernel)
    return thinned(found, MOVED_ADDRESSES | REPEATED, LIMIT)


def trial(launches: list[Trial], mutant: Mutant) -> str | None:
    """How the mutant was killed, or None.

    Raises:
        PtxError: the changed PTX is refused before it runs.
    """
    schedules = (QUICK, *SCHEDULES) if mutant.kind in MOVED_ADDRESSES else SCHEDULES
    for options in schedules:
        for launch, base in launches:
            try:
                report, outputs = launch.execute(options, mutant.ptx)
            except SimulationFault as fault:
                return f"fault: {fault.report.findings[-1].code}"
            if report.findings:
                return f"finding: {report.findings[0].code}"
            if outputs != base:
                return "values"
    return None


def run_part(kernel: str, part: int) -> dict[int, str | None]:
    """Run every PROCESSES-th mutant of a kernel: its number -> how it was killed."""
    torch.set_num_threads(1)
    launches, found = prepared(kernel)
    results: dict[int, str | None] = {}
    for number in range(part, len(found), PROCESSES):
        try:
            results[number] = trial(launches, found[number])
        except PtxError:
            results[number] = "refused: PTX"
    return results


def barrier_names(launch: Launch) -> dict[int, str]:
    """Offset in dynamic shared memory -> name of the mbarrier there."""
    config = launch.spec.config
    layout = (
        SM100AttentionSMem(config) if hasattr(config, "num_qo") else Depth512AttentionSMem(config)
    )
    return {layout.mbar_byte_offset + 8 * s.index: s.name for s in config.misc_mbars.specs}


def show_kernel(kernel: str, results: dict[int, str | None]) -> Row:
    """Print the table of one kernel and return its row of the report."""
    launches, found = prepared(kernel)
    launch = launches[0][0]
    names, lines = barrier_names(launch), launch.request.ptx.split("\n")
    totals = Counter(m.kind for m in found)
    dead = Counter(m.kind for k, m in enumerate(found) if results[k])
    how: dict[str, Counter[str]] = {kind: Counter() for kind in totals}
    for number, mutant in enumerate(found):
        how[mutant.kind][results[number] or "survives"] += 1
    killed = sum(dead.values())
    print(f"\n{launch.case.name} ({launch.spec.name}): {killed} of {len(found)} killed")
    for kind, total in sorted(totals.items()):
        ways = ", ".join(f"{count} {way}" for way, count in how[kind].most_common())
        print(f"  {kind:26}{dead[kind]:4} /{total:4}   {ways}")
    survivors = [
        Survivor(m, barrier_of(m, lines, names)) for k, m in enumerate(found) if results[k] is None
    ]
    explained, problems = explain(launch.spec.name, survivors)
    for survivor in explained:
        print(f"    equivalent: {survivor}: {survivor.reason}")
    for problem in problems:
        print(f"    UNEXPLAINED {problem}")
    return {
        "case": launch.case.name, "kernel": launch.spec.name, "total": len(found), "killed": killed,
        "classes": {kind: [dead[kind], n] for kind, n in sorted(totals.items())},
        "equivalent": dict(Counter(survivor.reason for survivor in explained)),
        "unexplained": problems,
    }  # fmt: skip


def save(rows: dict[str, Row]) -> None:
    """Put the rows into the report, in which those of other kernels stay."""
    known = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    merged = {**known, **rows}
    RESULT.parent.mkdir(exist_ok=True)
    text = json.dumps({name: merged[name] for name in KERNELS if name in merged}, indent=1)
    RESULT.write_text(text + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants of the kernels that are named, or of all, in two processes."""
    parser = ArgumentParser(prog="python -m benchmarks.mutants", description=main.__doc__)
    parser.add_argument("kernels", nargs="*", metavar="kernel", help=", ".join(KERNELS))
    names = parser.parse_args(arguments).kernels or list(KERNELS)
    if unknown := [name for name in names if name not in KERNELS]:
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(KERNELS)}")
    start, rows = time.perf_counter(), {}
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        parts = {
            kernel: [pool.submit(run_part, kernel, part) for part in range(PROCESSES)]
            for kernel in names
        }
        for kernel, futures in parts.items():
            results = {k: way for future in futures for k, way in future.result().items()}
            rows[kernel] = show_kernel(kernel, results)
            save(rows)
            print(f"  after {time.perf_counter() - start:.0f} s", flush=True)
    total, killed = (sum(row[key] for row in rows.values()) for key in ("total", "killed"))
    unexplained = sum(len(row["unexplained"]) for row in rows.values())
    own, children = (getrusage(who).ru_utime for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    print(
        f"\n{killed} of {total} killed, {total - killed} survive, {unexplained} unexplained; "
        f"{time.perf_counter() - start:.0f} s, {own + children:.0f} s of processor time"
    )
    return int(bool(unexplained))


if __name__ == "__main__":
    raise SystemExit(main())
