"""Planted synchronisation faults, and which of them are found: ``make mutants``.

Every fault is one edited PTX statement of a compiled kernel (``sm100sim.mutate``). A mutant is
killed by a finding, a fault of the run, or another result; it runs at once and late under all
checks, then in random order. Survivors must be in EQUIVALENT, with the reason why no run can tell
them apart; an unexplained one, or a reason without its survivors, makes the exit status 1.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from fa4_cute.plan.depth512_smem import Depth512AttentionSMem
from fa4_cute.plan.smem_layout import SM100AttentionSMem
from sm100sim.mutate import Mutant, mutants
from sm100sim.options import Check, RunOptions
from sm100sim.ptx.errors import PtxError
from sm100sim.report import SimulationFault

from .launches import Case, Launch

RESULT = Path("out/mutants.json")
KERNELS = (
    (Case(300, 700, 128, causal=True, growth=0.016), Case(600, 70, 128, causal=True)),
    (Case(200, 900, 512, causal=True, growth=0.016), Case(400, 70, 512, causal=True)),
    (
        Case(300, 700, 256, causal=True, growth=0.016, dtype=torch.float16),
        Case(600, 70, 256, causal=True, dtype=torch.float16),
    ),
)
"""Per kernel: a long problem whose row maxima grow, so that O is rescaled and the rings wrap
around, and one whose first tiles see no key at all."""

SCHEDULES = (
    RunOptions(checks=Check.ALL, max_idle_instructions=2_000_000),
    RunOptions(mode="late", checks=Check.ALL, max_idle_instructions=2_000_000),
    RunOptions(mode="random", seed=1, max_idle_instructions=2_000_000),
    RunOptions(mode="random", seed=2, max_idle_instructions=2_000_000),
)


@dataclass(frozen=True)
class Equivalent:
    """Survivors that are no faults: `count` of `kind` at barriers whose name matches `where`."""

    kernel: str
    kind: str
    where: str
    count: int
    reason: str


RELINQUISH = "one CTA per SM: nobody else waits for the permit; giving it up early is courtesy"
FACTOR_READ = "P V, and so the next scores, already need the correction's arrival (design 5.18)"
PREVIOUS_PV = (
    "the commit of this tile's scores, seen by the softmax before, covers the P V before it"
)
SCORES_FREE = "the scores two tiles on are issued after a P V that needed these to be read (5.18)"
DRAIN = (
    "the last O commit covers these; kept because nothing promises in which order the signals of "
    "two commits reach another CTA, and here they arrive in issue order"
)
SPARE = "fits the register file; whether the pool is the launch's share is open (docs/hardware.md)"
TWO_Q, D512, D256 = (
    "fa4_sm100_bf16_d128_g1_causal_lse",
    "fa4_sm100_pair_bf16_d512_g1_causal_lse",
    "fa4_sm100_pair_fp16_d256_g1_causal_lse",
)
EQUIVALENT = (
    Equivalent(TWO_Q, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(TWO_Q, "drop-wait", "C[01]_cons", 2, FACTOR_READ),
    Equivalent(TWO_Q, "drop-wait", r"O_prod\[[01]\]", 2, PREVIOUS_PV),
    Equivalent(D512, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(D512, "greedy-setmaxnreg", "-", 1, SPARE),
    Equivalent(D512, "drop-wait", "S_even_cons", 1, SCORES_FREE),
    Equivalent(D512, "drop-wait", r"KV_empty\[\d\]", 4, DRAIN),
    Equivalent(D512, "wrong-parity", r"KV_empty\[\d\]", 1, DRAIN),
    Equivalent(D256, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(D256, "greedy-setmaxnreg", "-", 1, SPARE),
    Equivalent(D256, "drop-wait", "-", 9, f"one: {SCORES_FREE}; eight: {DRAIN}"),
    Equivalent(D256, "wrong-parity", "-", 1, DRAIN),
)


def barrier_names(launch: Launch) -> dict[int, str]:
    """Offset in dynamic shared memory -> name of the mbarrier there."""
    config = launch.spec.config
    layout = (
        SM100AttentionSMem(config) if hasattr(config, "num_qo") else Depth512AttentionSMem(config)
    )
    return {layout.mbar_byte_offset + 8 * s.index: s.name for s in config.misc_mbars.specs}


def context(mutant: Mutant, lines: list[str], names: dict[int, str]) -> str:
    """The barrier that the edited statement uses, where its address is a constant offset."""
    found = re.search(r"\[\s*(%\w+)\s*\]", mutant.before)
    if not found:
        return "-"
    definition = re.compile(rf"add\.s32\s+{found.group(1)}, %\w+, (\d+);")
    for text in reversed(lines[: mutant.line]):
        match = definition.search(text)
        if match:
            return names.get(int(match.group(1)), "-")
    return "-"


def trial(launches: list[tuple[Launch, list[bytes]]], mutant: Mutant) -> str | None:
    """How the mutant was killed, or None."""
    for options in SCHEDULES:
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


def explain(kernel: str, survivors: list[tuple[Mutant, str]]) -> list[str]:
    """Print the survivors with their reasons; returns what is unexplained."""
    left = list(survivors)
    problems = []
    for entry in EQUIVALENT:
        if entry.kernel != kernel:
            continue
        mine = [s for s in left if s[0].kind == entry.kind and re.fullmatch(entry.where, s[1])]
        if len(mine) != entry.count:
            counts = f"{len(mine)} survive, {entry.count} explained"
            problems.append(f"{entry.kind} at {entry.where}: {counts}")
        for mutant, where in mine:
            print(f"    equivalent: {mutant.name} at {where}: {entry.reason}")
        left = [s for s in left if s not in mine]
    return problems + [f"{m.name} at {where}: {m.before[:90]}" for m, where in left]


def run_kernel(cases: tuple[Case, ...]) -> tuple[dict[str, object], list[str]]:
    """Run all mutants of one kernel."""
    launches = []
    for case in cases:
        launch = Launch(case)
        report, base = launch.execute(RunOptions())
        assert report.verdict == "clean"
        launches.append((launch, base))
    launch, case = launches[0][0], cases[0]
    kernel = launch.spec.name
    names, lines = barrier_names(launch), launch.request.ptx.split("\n")
    how: Counter[str] = Counter()
    survivors, total = [], 0
    for mutant in mutants(launch.request.ptx, launch.request.kernel):
        try:
            killed = trial(launches, mutant)
        except PtxError:
            continue
        total += 1
        if killed is None:
            survivors.append((mutant, context(mutant, lines, names)))
        else:
            how[f"{mutant.kind:26}{killed}"] += 1
    print(f"{case.name} ({kernel}): {total - len(survivors)} of {total} killed")
    for key, count in sorted(how.items()):
        print(f"  {count:4}  {key}")
    problems = explain(kernel, survivors)
    for problem in problems:
        print(f"    UNEXPLAINED {problem}")
    row = {"case": case.name, "kernel": kernel, "total": total, "killed": total - len(survivors)}
    return row, problems


def main() -> int:
    """Run every kernel's mutants."""
    rows, problems = [], []
    for cases in KERNELS:
        row, unexplained = run_kernel(cases)
        rows.append(row)
        problems += unexplained
    total, killed = sum(r["total"] for r in rows), sum(r["killed"] for r in rows)  # type: ignore[misc]
    print(f"{killed} of {total} killed, {total - killed} survive, {len(problems)} unexplained")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"kernels": rows, "unexplained": problems}, indent=1))
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
