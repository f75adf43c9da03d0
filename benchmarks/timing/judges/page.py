"""The page of all that was measured in an SM's own cycles, beside predictions made before.

    python -m benchmarks.timing.judges.page docs/timing_cycles.md [MEASURED.json] \\
        [PREDICTED.json] [LATER.json]

Measured: what `benchmarks.timing.cycles` wrote, `measured.json` of that folder unless another is
named. Predicted: `benchmarks.timing.judges.predictions`, which must be older. What `later.json` of
that folder has, where there is one, was made after the measurement, with rules, values or orders of
tiles that changed since, and stands apart. Without other files `held.toml` of the profiler is
written too: what it says beside its bands (`benchmarks.timing.judges.held`), by the first
predictions only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks.timing.judges import held
from benchmarks.timing.judges.cases import LANES, ROWS
from benchmarks.timing.judges.misses.orders import ORDERS, again_lines, ladders
from benchmarks.timing.judges.misses.table import WORST, misses, short_name
from benchmarks.timing.judges.predictions import PREDICTED
from benchmarks.timing.judges.reasons import OF_LANES, OF_LANES_WHY, REASONS, SECOND_ROUND
from benchmarks.timing.judges.second_round import NAMES
from testing.site.target import options

BELOW: Final = "* Kernels without a way through machine code, and those that stopped, are below."
MOST: Final = 3
"""Records that are read."""
TARGET: Final = 0.05
MEASURED: Final = PREDICTED.with_name("measured.json")
LATER: Final = PREDICTED.with_name("later.json")


@dataclass(frozen=True)
class Judged:
    """A case: predicted cycles and band, and what a GPU took, None where it was not asked.

    `runs`: each of what `measured` is the median of.
    """

    runner: str
    name: str
    ladder: str
    predicted: float
    band: tuple[float, float]
    bound_by: str
    tensor: float
    measured: float | None
    mhz: float
    runs: tuple[float, ...] = ()

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
                tuple(row.get("runs", ())),
            )
        )  # fmt: skip
    return cases, failed


def _measured(cases: Iterable[Judged]) -> list[Judged]:
    return [case for case in cases if case.measured is not None]


def _figures(cases: Sequence[Judged]) -> str:
    errors = [case.error for case in cases]
    inside = sum(map(held.in_band, cases))
    return (
        f"{len(errors)} | {mean(map(abs, errors)):.1%} | {mean(errors):+.1%} | "
        f"{max(errors, key=abs):+.1%} | {inside}"
    )


def families(cases: Sequence[Judged]) -> list[str]:
    """A line for each kind of kernel, and one for all."""
    lines = [
        "| kernels | cases | mean size of error | mean | worst | in the band |",
        "|---|---|---|---|---|---|",
    ]
    for runner in dict.fromkeys(case.runner for case in cases):
        lines.append(f"| {runner} | {_figures([c for c in cases if c.runner == runner])} |")
    return [*lines, f"| all | {_figures(cases)} |"]


def tables(asked: Sequence[Judged]) -> list[str]:
    """Errors of families, and orders of variants."""
    return [*families(asked), "", *ORDERS, "", *ladders(asked), ""]


def _second(asked: Sequence[Judged]) -> list[str]:
    """The second round: new problems and choices for the same programs."""
    if not asked:
        return []
    errors = [abs(case.error) for case in asked]
    near = sum(error <= WORST for error in errors)
    said = f"{near} of {len(asked)} cases are within {WORST:.0%}."
    return [*SECOND_ROUND.strip().split("\n"), "", said, "", *tables(asked)]


def _later(
    first: Sequence[Judged], second: Sequence[Judged], asked: Sequence[Judged]
) -> list[str]:
    """Those that were predicted again, which is no blind prediction, and what changed is below."""
    if not asked:
        return []
    said = "Predicted again with rules, values or orders of tiles that have changed since (below):"
    rounds = (("first", first), ("second", second))
    return [said, "", *families(asked), "", *again_lines(rounds, asked),
            *misses((first, second), asked)]  # fmt: skip


def judged(cases: Sequence[Judged]) -> list[Judged]:
    """Those that were measured, but for kernels of lanes, which are judged apart."""
    return [case for case in _measured(cases) if case.runner not in LANES]


def _rounds(cases: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
    """Cases of the first round and of the second one."""
    second = [case for case in cases if case.name in NAMES]
    return [case for case in cases if case.name not in NAMES], second


def without_mmas(cases: Sequence[Judged]) -> list[Judged]:
    """Those of kernels of lanes that were measured, judged apart or not."""
    return [case for case in _measured(cases) if case.runner in (*LANES, *ROWS)]


def _within(asked: Sequence[Judged]) -> str:
    """How many are of those predicted again."""
    near = sum(abs(case.error) <= WORST for case in asked)
    return f", of those predicted again {near} of {len(asked)}" if asked else ""


COUNTED: Final = PREDICTED.with_name("l1_counted.json")
"""What ncu counted of the L1: sectors that loads asked it for, and hits."""
NEAR: Final = 0.01


def _counted(later: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Shares of the L1 by the chip's counters and by the machine."""
    counted = json.loads(COUNTED.read_text())
    shares = {said["name"]: said["l1"] for said in later.values() if "l1" in said}
    rows = [
        (name, found["hits"] / found["sectors"], shares[name])
        for name, found in counted.items()
        if name in shares
    ]
    near = sum(abs(chip - ours) <= NEAR for _, chip, ours in rows)
    return [
        "Shares of what loads ask for that the L1 has: by the chip's counters (ncu, kept in",
        f"`{COUNTED.name}`), and by the machine of now. {near} of {len(rows)} are within a "
        "point.", "",
        "| kernel | counted | machine |", "|---|---|---|",
        *(f"| {name} | {chip:.1%} | {ours:.1%} |" for name, chip, ours in rows), "",
    ]  # fmt: skip


def _of_lanes(
    cases: Sequence[Judged], again: Sequence[Judged], counted: Sequence[str]
) -> list[str]:
    """Kernels of lanes: errors, what is known of them, and the shares of the L1."""
    asked, since = (
        [case for case in _measured(group) if case.runner in LANES] for group in (cases, again)
    )
    if not asked:
        return []
    rest = ["", "Again:", "", *families(since)] if since else []
    return [*OF_LANES.strip().split("\n"), "", *families(asked), *rest,
            *OF_LANES_WHY.split("\n"), "", *counted]  # fmt: skip


def every(cases: Sequence[Judged], again: Sequence[Judged]) -> list[str]:
    """A line for each case, with what was predicted later where anything was."""
    since = {(c.runner, c.name): c for c in again}
    known = {(c.runner, c.name) for c in cases}
    lines = [
        "| kernel | case | predicted | band | tensor | bound by | measured | error |"
        + " since | error |" * bool(again),
        "|---|---|---|---|---|---|---|---|" + "---|---|" * bool(again),
    ]
    for c in (*cases, *(c for key, c in since.items() if key not in known)):
        seen = f"{c.measured:,.0f} | {c.error:+.1%}" if c.measured is not None else "– | –"
        now = since.get((c.runner, c.name))
        after = f"{now.predicted:,.0f} | {now.error:+.1%}" if now and now.measured else "– | –"
        name = short_name(c)
        first = f"{c.predicted:,.0f} | {c.band[0]:,.0f}–{c.band[1]:,.0f}"
        first = first if (c.runner, c.name) in known else "– | –"
        lines.append(
            f"| {c.runner} | {name} | {first} | {c.tensor:.0%} | {c.bound_by} | {seen} |"
            + f" {after} |" * bool(again)
        )
    return lines


def page(
    cases: Sequence[Judged],
    failed: Sequence[str],
    card: Mapping[str, Any],
    again: Sequence[Judged] = (),
    counted: Sequence[str] = (),
) -> str:
    """All cases, hits and misses; ``counted``: lines about the L1."""
    asked, fresh = _rounds(judged(cases))
    lines = [
        "# Kernels in an SM's own cycles: predicted beside measured", "",
        "Written by `python -m benchmarks.timing.judges.page`. Measured:",
        "`python -m benchmarks.timing.cycles`, which reads every SM's clock before and behind a",
        "kernel. Predicted: `python -m benchmarks.timing.judges.predictions`, kept in",
        "`benchmarks/timing/judges/predicted.json` before the measurement; bands are those",
        "of draws. The L2 holds nothing of a kernel when it begins. No value is fitted to these.",
        "", "Kernels: this package's and variants of it (tiles, slots, registers, warp groups),",
        "those of PyPI flash-attn-4 and quack-kernels, the Hopper examples of NVIDIA/cutlass, and",
        "Triton's of `benchmarks/timing/judges/triton_programs.py`.", "",
    ]  # fmt: skip
    if asked:
        errors = [abs(case.error) for case in asked]
        since = judged(again)
        said = f"{card.get('name', 'GPU')}, driver {card.get('driver_version', 'unknown')}"
        clocks = [case.mhz for case in asked]
        lines += [
            f"{said}; clocks as found, {min(clocks):,.0f} to {max(clocks):,.0f} MHz.", "",
            f"Target: {TARGET:.0%}, worst {WORST:.0%}. {sum(e <= WORST for e in errors)} of "
            f"{len(asked)} cases are within {WORST:.0%}{_within(since)}.", "",
            "Predicted before the measurement:", "", *tables(asked), *_second(fresh),
            *held.section([*asked, *fresh]), *_later(asked, fresh, since),
            *_of_lanes(cases, again, counted),
            *REASONS.strip().split("\n"), *([BELOW] if failed else []), "",
        ]  # fmt: skip
    else:
        lines += ["No GPU has been asked yet: these are predictions.", ""]
    lines += every(cases, again)
    if failed:
        said = "Without a first prediction or a measurement:"
        lines += ["", said, "", *(f"* {reason}" for reason in failed)]
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """Write the page; returns the exit status."""
    parser = options(__doc__)
    parser.add_argument("records", type=Path, nargs="*", help="are read in place of what is kept")
    asked = parser.parse_args(arguments)
    given: list[Path] = asked.records
    if len(given) > MOST:
        parser.error(f"records: {MOST} at most")
    taken, first, later = (*given, *(MEASURED, PREDICTED, LATER)[len(given) :])
    measured = json.loads(taken.read_text())
    rows = measured.get("rows", ())
    cases, failed = joined(json.loads(first.read_text()), rows)
    said = json.loads(later.read_text()) if later.is_file() else {}
    again, _ = joined(said, rows)
    told = page(cases, failed, measured.get("card", {}), again, _counted(said))
    asked.file.write_text(told)
    if not given:
        held.write(judged(cases), without_mmas(cases))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
