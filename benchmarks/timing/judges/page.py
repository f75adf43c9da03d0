"""The page of all that was measured in an SM's own cycles, beside predictions made before.

    python -m benchmarks.timing.judges.page docs/timing_cycles.md [MEASURED.json] [PREDICTED.json]

Measured: what `benchmarks.timing.cycles` wrote. Predicted: `benchmarks.timing.judges.predictions`,
which must be older.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.timing.gemm import PAIRS_AT_LEAST, tau
from benchmarks.timing.judges.predictions import PREDICTED

TARGET, WORST = 0.05, 0.12


@dataclass(frozen=True)
class Judged:
    """A case: predicted cycles and band, and what a GPU took, None where it was not asked."""

    runner: str
    name: str
    ladder: str
    predicted: float
    band: tuple[float, float]
    bound_by: str
    tensor: float
    measured: float | None
    mhz: float

    @property
    def error(self) -> float:
        """Relative to what was measured."""
        assert self.measured is not None
        return self.predicted / self.measured - 1


def joined(
    predicted: Mapping[str, Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> tuple[list[Judged], list[str]]:
    """Cases with a prediction, and why others have none or no measurement."""
    known = {f"{row['runner']}: {row['name']}": row for row in rows}
    cases, failed = [], []
    for key, said in predicted.items():
        row = known.get(key, {})
        if "failed" in said:
            failed.append(f"{key}: no prediction: {said['failed']}")
            continue
        if "failed" in row:
            failed.append(f"{key}: not measured: {row['failed']}")
        low, high = said["band"]
        cases.append(
            Judged(
                said["runner"], said["name"], said["ladder"], said["cycles"], (low, high),
                said["bound_by"], said["tensor"], row.get("cycles"), row.get("mhz", 0),
            )
        )  # fmt: skip
    return cases, failed


def _figures(cases: Sequence[Judged]) -> str:
    errors = [case.error for case in cases]
    inside = sum(c.band[0] <= (c.measured or 0) <= c.band[1] for c in cases)
    return (
        f"{len(errors)} | {mean(map(abs, errors)):.1%} | {mean(errors):+.1%} | "
        f"{max(errors, key=abs):+.1%} | {inside}"
    )


def _families(cases: Sequence[Judged]) -> list[str]:
    lines = [
        "| kernels | cases | mean size of error | mean | worst | in the band |",
        "|---|---|---|---|---|---|",
    ]
    for runner in dict.fromkeys(case.runner for case in cases):
        lines.append(f"| {runner} | {_figures([c for c in cases if c.runner == runner])} |")
    return [*lines, f"| all | {_figures(cases)} |"]


def _ladders(cases: Sequence[Judged]) -> list[str]:
    lines = ["| variants of | how many | tau |", "|---|---|---|"]
    ordered = sorted(cases, key=lambda case: case.ladder)
    for ladder, group in groupby(ordered, key=lambda case: case.ladder):
        found = [(c.predicted, c.measured) for c in group if c.measured is not None]
        if len(found) > PAIRS_AT_LEAST:
            lines.append(f"| {ladder} | {len(found)} | {tau(found):.2f} |")
    return lines


def page(cases: Sequence[Judged], failed: Sequence[str], card: Mapping[str, Any]) -> str:
    """All cases, hits and misses."""
    asked = [case for case in cases if case.measured is not None]
    lines = [
        "# Kernels in an SM's own cycles: predicted beside measured", "",
        "Written by `python -m benchmarks.timing.judges.page`. Measured:",
        "`python -m benchmarks.timing.cycles`, which reads every SM's clock before and behind a",
        "kernel. Predicted: `python -m benchmarks.timing.judges.predictions`, kept in",
        "`benchmarks/timing/judges/predicted.json` before the first measurement; bands are those",
        "of draws. The L2 holds nothing of a kernel when it begins. Nothing is fitted to these.",
        "", "Kernels: this package's and variants of it (tiles, slots, registers, warp groups),",
        "those of PyPI flash-attn-4 and quack-kernels, the Hopper examples of NVIDIA/cutlass, and",
        "Triton's of `benchmarks/timing/judges/triton_programs.py`.", "",
    ]  # fmt: skip
    if asked:
        errors = [abs(case.error) for case in asked]
        said = f"{card.get('name', 'GPU')}, driver {card.get('driver_version', 'unknown')}"
        clocks = [case.mhz for case in asked]
        lines += [
            f"{said}; clocks as found, {min(clocks):,.0f} to {max(clocks):,.0f} MHz.", "",
            f"Target: {TARGET:.0%}, worst {WORST:.0%}. {sum(e <= WORST for e in errors)} of "
            f"{len(asked)} cases are within {WORST:.0%}.", "",
            *_families(asked), "",
            "Order of variants of one problem, Kendall's tau; target 0.9:", "", *_ladders(asked),
            "",
        ]  # fmt: skip
    else:
        lines += ["No GPU has been asked yet: these are predictions.", ""]
    lines += [
        "| kernel | case | predicted | band | tensor | bound by | measured | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for c in cases:
        seen = f"{c.measured:,.0f} | {c.error:+.1%}" if c.measured is not None else "– | –"
        name = c.name.removeprefix(c.runner).strip()
        lines.append(
            f"| {c.runner} | {name} | {c.predicted:,.0f} | {c.band[0]:,.0f}–{c.band[1]:,.0f} | "
            f"{c.tensor:.0%} | {c.bound_by} | {seen} |"
        )
    if failed:
        lines += ["", "Left out:", "", *(f"* {reason}" for reason in failed)]
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """Write the page; returns the exit status."""
    if len(arguments) not in (1, 2, 3):
        print(__doc__, file=sys.stderr)
        return 64
    measured = json.loads(Path(arguments[1]).read_text()) if len(arguments) > 1 else {}
    kept = Path(arguments[2]) if len(arguments) > PAIRS_AT_LEAST else PREDICTED
    cases, failed = joined(json.loads(kept.read_text()), measured.get("rows", ()))
    Path(arguments[0]).write_text(page(cases, failed, measured.get("card", {})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
