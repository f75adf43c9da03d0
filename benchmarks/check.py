"""Every kernel and feature under every checker and many schedules: ``make check``.

Each case runs at once, late, and with 16 random seeds, under all checks, the strict ones of
Tensor Memory among them, and once without checks; results must be equal bit for bit, and right:
they are compared with attention in float64 (``testing.reference``). Every configuration family of
every kernel must be among the cases. Writes out/check.json; the exit status is 1 when anything was
found or a family is missing.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import feature_cases
from benchmarks.processes import each, processor_seconds
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose
from sm100sim.options import Check, RunOptions
from testing.arguments import arguments
from testing.cases import FP8, FP16, Case, dense
from testing.launches import Launch
from testing.reference.attention import Comparison, compare
from testing.reference.fp8 import compare_fp8
from testing.runner import CHECKS

SEEDS = 16
RESULT = Path("out/check.json")
CASES = (
    dense(300, 500, 64),
    dense(300, 500, 64, heads=4, kv_heads=1, causal=True),
    dense(200, 333, 96, heads=3, kv_heads=1, causal=True),
    dense(300, 520, 128, growth=0.02),
    dense(133, 277, 128, 4, 2, causal=True, dtype=FP16),
    dense(100, 300, 128, 3, 1, causal=True),
    dense(70, 200, 72, 8, 1),
    dense(300, 400, 192, causal=True, growth=0.02),
    dense(1, 300, 128, 8, 1, causal=True, num_qo=1),
    dense(128, 650, 128, causal=True, growth=0.02, num_qo=1),
    dense(11, 900, 64, 8, 1, causal=True, growth=0.02, num_qo=1),
    dense(100, 333, 192, growth=0.02, dtype=FP16, num_qo=1),
    dense(200, 420, 256, causal=True, growth=0.02),
    dense(90, 300, 200, 4, 1, dtype=FP16),
    dense(70, 600, 512, 4, 1, causal=True, growth=0.02),
    dense(129, 130, 384, heads=2, kv_heads=1),
    dense(300, 500, 64, 4, 2, causal=True, dtype=FP8),
    dense(300, 520, 128, dtype=FP8, growth=0.02),
    dense(70, 600, 512, 4, 1, causal=True, dtype=FP8),
    # Scores that fall from key to key: the first key tiles decide, which growth hides.
    dense(130, 700, 128, growth=-0.0014),
    dense(100, 700, 128, growth=-0.0014, num_qo=1),
    dense(70, 600, 256, growth=-0.0016, dtype=FP16),
    dense(300, 520, 128, growth=-0.0019, pair_cta=True),
)


HEAD_DIMS = range(8, 513, 8)
Family = tuple[str, int, int, int]
"""Kernel, keys per tile, ring slots, depth parts: what makes another pipeline."""


def family(head_dim: int) -> Family | None:
    """The configuration family that serves a head dim, or None."""
    q = torch.empty(1, 2, 1, head_dim, dtype=torch.bfloat16)
    choice = choose(Problem.from_tensors(q, q, q))
    if not isinstance(choice, Choice):
        return None
    config = choice.spec.config
    name = type(choice.spec).__name__
    return name, config.BN, config.num_kv_stages, config.num_qk_stages


def uncovered_families(cases: tuple[Case, ...]) -> list[Family]:
    """Families of supported head dims that no case belongs to."""
    covered = {family(case.head_dim) for case in cases}
    found = {family(head_dim) for head_dim in HEAD_DIMS} - covered - {None}
    return sorted(f for f in found if f)


@dataclass
class Row:
    """What one case gave: seconds per run in each mode, and the distinct findings.

    `wrong` says what differs from float64 by more than rounding, and `error` is the largest
    difference of O. `plain` is a run at once without checks; the others are under all checks.
    """

    case: str
    kernel: str
    verdict: str
    equal: bool
    wrong: list[str]
    error: float
    plain: float
    fast: float
    late: float
    random: float
    findings: list[str]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.verdict == "clean" and self.equal and not self.wrong


def compared(launch: Launch) -> Comparison:
    """Compare the latest results of a launch with attention in float64."""
    given = arguments(launch.case)
    judge = compare_fp8 if given.q.dtype is FP8 else compare
    return judge(*launch.results, given.inputs, **given.options)


def check(case: Case) -> Row:
    """Run one case in all modes."""
    launch = Launch(case)
    # Parses and lowers the PTX, which no mode's time should hold.
    launch.execute(RunOptions(mode="fast"))
    modes = [("plain", 0), ("fast", 0), ("late", 0)]
    modes += [("random", seed) for seed in range(SEEDS)]
    seconds = dict.fromkeys(("plain", "fast", "late", "random"), 0.0)
    findings: dict[str, None] = {}
    verdicts, bits = set(), set()
    for name, seed in modes:
        mode: Any = "fast" if name == "plain" else name
        checks = Check.NONE if name == "plain" else CHECKS
        options = RunOptions(mode=mode, seed=seed, checks=checks, raise_on_fault=False)
        start = time.perf_counter()
        report, outputs = launch.execute(options)
        seconds[name] += time.perf_counter() - start
        verdicts.add(report.verdict)
        bits.add(tuple(outputs))
        findings.update(dict.fromkeys(str(f) for f in report.findings))
    verdict = "clean" if verdicts == {"clean"} else sorted(verdicts - {"clean"})[0]
    kernel, found = type(launch.spec).__name__, compared(launch)
    return Row(
        case=case.name,
        kernel=kernel,
        verdict=verdict,
        equal=len(bits) == 1,
        wrong=list(found.failures),
        error=found.max_error,
        plain=seconds["plain"],
        fast=seconds["fast"],
        late=seconds["late"],
        random=seconds["random"] / SEEDS,
        findings=list(findings),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all cases, print the table and write the report."""
    parser = ArgumentParser(prog="python -m benchmarks.check", description=main.__doc__)
    parser.add_argument("--processes", type=int, default=1, help="cases at a time")
    asked = parser.parse_args(arguments)
    start, columns = time.perf_counter(), ("plain s", "fast s", "late s", "random s")
    names = f"{'case':64}{'kernel':14}{'verdict':10}{'bits':7}{'values':8}"
    print(names + "".join(f"{c:>9}" for c in columns))
    rows = []
    cases = [(case,) for case in (*CASES, *feature_cases.CASES)]
    for row in each(check, cases, asked.processes):
        rows.append(row)
        same = "equal" if row.equal else "DIFFER"
        values = "WRONG" if row.wrong else "right"
        times = "".join(f"{t:9.2f}" for t in (row.plain, row.fast, row.late, row.random))
        print(f"{row.case:64}{row.kernel:14}{row.verdict:10}{same:7}{values:8}{times}", flush=True)
        for problem in (*row.findings, *row.wrong):
            print(f"    {problem}")
    missing = uncovered_families(CASES)
    for name in missing:
        print(f"no case for family {name}")
    RESULT.parent.mkdir(exist_ok=True)
    took, cpu = time.perf_counter() - start, processor_seconds()
    report = {"seeds": SEEDS, "rows": [asdict(row) for row in rows], "missing_families": missing,
              "seconds": took, "processor_seconds": cpu}  # fmt: skip
    RESULT.write_text(json.dumps(report, indent=1))
    bad = [row for row in rows if not row.ok]
    print(
        f"{len(rows) - len(bad)} of {len(rows)} cases right, and clean in 2 + {SEEDS} schedules; "
        f"plain: at once without checks, one run; the others: one run under all checks; "
        f"{took:.0f} s, {cpu:.0f} s of processor time"
    )
    return int(bool(bad or missing))


if __name__ == "__main__":
    raise SystemExit(main())
