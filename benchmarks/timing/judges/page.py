"""The page of all that was measured in an SM's own cycles, beside predictions made before.

    python -m benchmarks.timing.judges.page docs/timing_cycles.md [MEASURED.json] \\
        [PREDICTED.json] [LATER.json]

Measured: what `benchmarks.timing.cycles` wrote. Predicted: `benchmarks.timing.judges.predictions`,
which must be older; what `later.json` has was made with rules and values that came after.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks.timing.gemm import PAIRS_AT_LEAST, tau
from benchmarks.timing.judges.predictions import PREDICTED

FEWEST_TO_MOST: Final = range(1, 5)
TARGET, WORST = 0.05, 0.12
LATER: Final = PREDICTED.with_name("later.json")


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
            failed.append(f"{key}: not measured: {' '.join(row['failed'].split())[:120]}")
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


def _later(again: Sequence[Judged]) -> list[str]:
    """The same with what probes of the measuring run have changed since; no prediction any more."""
    asked = [case for case in again if case.measured is not None]
    if not asked:
        return []
    said = "With what the probes of the same run have changed since (the L2 and memory, below):"
    return [said, "", *_families(asked), "", *_ladders(asked), ""]


REASONS: Final = """
What is known of the misses:

* **GEMMs without clusters** were bound by the L2 in the machine, not on the chip: `l2_bytes` is
  what 132 SMs got that each copied rows of its own. In the same run the GPU was asked for rows that
  SMs share (`more_questions.py`): of rows that 1, 2, 4, 12 and 132 SMs copy at once an SM gets
  30, 52, 74, 74 and 69 bytes a cycle. So what n SMs ask for leaves the L2 once. The rule has no
  value of its own, and stands in the machine now.
* **Softmax and layer norm**: memory was taken to be written with 2,040 GB/s, inferred from a copy
  that a copy engine may have made. torch's own kernels write 4,755, read 4,290 and copy 4,268 GB/s
  (1 GiB, the same run); the chip's file has that now. Small tensors stay in the L2 when written.
* **Attention is predicted too slow**, FlashAttention-4's by 23 %: the pages that said 5 % divided
  times by NVML's clock of a row, 1,905 to 1,980 MHz, where the SMs ran at 1,486 to 1,798. The
  machine keeps the tensor core busy for 85 to 95 % of a time that is itself too long: its
  products wait for the registers' write ports. Without these waits (`product_writes` 0)
  FlashAttention-4 with 1K keys is -11, 0 and +7 % off at head dims 64, 128 and 256, ours -28, -9
  and +2 %. The probes beside products say that maxima and exponentials of other warps cost a
  product nothing (32.0 cycles of m64n64k16, 64.1 of m64n128k16), additions of one warp a
  sub-partition nothing, and those of two 10 and 28 cycles; the machine charges for each write.
  To settle: a rule of the write ports that gives these twelve answers, then these cases again.
* **A copy's first bytes** come 258 cycles sooner than the machine says where a whole warp waits
  (8 rows: 313 beside 571); that moves attention by 1 %, Triton's two-slot kernels by up to 9 %.
* Kernels whose way through the machine code was not found, and one that stopped, are below.
"""


def page(
    cases: Sequence[Judged],
    failed: Sequence[str],
    card: Mapping[str, Any],
    again: Sequence[Judged] = (),
) -> str:
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
            "Predicted before the measurement:", "", *_families(asked), "",
            *_later(again), *REASONS.rstrip().split("\n"), "",
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
    if len(arguments) not in FEWEST_TO_MOST:
        print(__doc__, file=sys.stderr)
        return 64
    measured = json.loads(Path(arguments[1]).read_text()) if len(arguments) > 1 else {}
    rows = measured.get("rows", ())
    given = [Path(name) for name in arguments[2:]]
    first, later = (*given, *(PREDICTED, LATER)[len(given) :])
    cases, failed = joined(json.loads(first.read_text()), rows)
    again, _ = joined(json.loads(later.read_text()), rows) if later.is_file() else ([], [])
    Path(arguments[0]).write_text(page(cases, failed, measured.get("card", {}), again))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
