"""Every kernel under every checker and many schedules: ``make check``.

Each case runs at once, late, and with 16 random seeds, under all checks; results must be equal bit
for bit. Writes out/check.json; the exit status is 1 when anything was found.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from sm100sim.options import Check, RunOptions

from .launches import Case, Launch

SEEDS = 16
RESULT = Path("out/check.json")
CASES = (
    Case(300, 500, 64),
    Case(300, 500, 64, heads=4, causal=True),
    Case(200, 333, 96, heads=3, causal=True),
    Case(300, 520, 128, growth=0.02),
    Case(133, 277, 128, heads=4, kv_heads=2, causal=True, dtype=torch.float16),
    Case(100, 300, 128, heads=3, kv_heads=1, causal=True),
    Case(70, 200, 72, heads=8, kv_heads=1),
    Case(300, 400, 192, causal=True, growth=0.02),
    Case(1, 300, 128, heads=8, kv_heads=1, causal=True, num_qo=1),
    Case(128, 650, 128, causal=True, growth=0.02, num_qo=1),
    Case(11, 900, 64, heads=8, kv_heads=1, causal=True, growth=0.02, num_qo=1),
    Case(100, 333, 192, growth=0.02, dtype=torch.float16, num_qo=1),
    Case(200, 420, 256, causal=True, growth=0.02),
    Case(90, 300, 200, heads=4, kv_heads=1, dtype=torch.float16),
    Case(70, 600, 512, heads=4, kv_heads=1, causal=True, growth=0.02),
    Case(129, 130, 384, heads=2),
)


@dataclass
class Row:
    """What one case gave: seconds per mode, and the distinct findings."""

    case: str
    kernel: str
    verdict: str
    equal: bool
    fast: float
    late: float
    random: float
    findings: list[str]


def check(case: Case) -> Row:
    """Run one case in all modes."""
    launch = Launch(case)
    options = {"checks": Check.ALL, "raise_on_fault": False}
    modes = [("fast", 0), ("late", 0)] + [("random", seed) for seed in range(SEEDS)]
    seconds = dict.fromkeys(("fast", "late", "random"), 0.0)
    findings: dict[str, None] = {}
    verdicts, bits = set(), set()
    for mode, seed in modes:
        start = time.perf_counter()
        report, outputs = launch.execute(RunOptions(mode=mode, seed=seed, **options))  # type: ignore[arg-type]
        seconds[mode] += time.perf_counter() - start
        verdicts.add(report.verdict)
        bits.add(tuple(outputs))
        findings.update(dict.fromkeys(str(f) for f in report.findings))
    verdict = "clean" if verdicts == {"clean"} else sorted(verdicts - {"clean"})[0]
    times = seconds["fast"], seconds["late"], seconds["random"] / SEEDS
    kernel = type(launch.spec).__name__
    return Row(case.name, kernel, verdict, len(bits) == 1, *times, list(findings))


def main() -> int:
    """Print the table and write the report."""
    heads = f"{'fast s':>8}{'late s':>8}{'random s':>10}"
    print(f"{'case':40}{'kernel':14}{'verdict':10}{'bits':9}{heads}")
    rows = []
    for case in CASES:
        row = check(case)
        rows.append(row)
        same = "equal" if row.equal else "DIFFER"
        print(
            f"{row.case:40}{row.kernel:14}{row.verdict:10}{same:9}"
            f"{row.fast:8.2f}{row.late:8.2f}{row.random:10.2f}",
            flush=True,
        )
        for finding in row.findings:
            print(f"    {finding}")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    bad = [row for row in rows if row.verdict != "clean" or not row.equal]
    print(f"{len(rows) - len(bad)} of {len(rows)} cases clean in 2 + {SEEDS} schedules each")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
