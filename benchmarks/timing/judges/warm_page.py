"""The page of the warm round: predicted before it was measured, and at the clocks that were found.

    python -m benchmarks.timing.judges.warm_page docs/timing_warm.md

Predicted, measured and at its clock: `warm_predicted.json`, `warm_measured.json` and
`warm_at_clocks.json` of this folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any, Final

from benchmarks.timing.judges.cases import LANES, ROWS
from benchmarks.timing.judges.misses.table import WORST
from benchmarks.timing.judges.page import TARGET, Judged, every, joined, judged, tables
from benchmarks.timing.judges.warm_round import MEASURED, PREDICTED
from testing.site.target import target

AT_CLOCKS: Final = PREDICTED.with_name("warm_at_clocks.json")
HEAD: Final = """# Kernels whose tensors the L2 has: predicted beside measured

Written by `python -m benchmarks.timing.judges.warm_page`. All kernels of
[timing_cycles.md](timing_cycles.md) begin with nothing in the L2; predictions for a B200, but for
steps of decoding, and those of a profile begin with all that a launch reads there. This is that:
problems of 17 to 25 MB (`benchmarks/timing/judges/warm_round.py`), each run behind one of the same
call, with a pause in between that asks the L2 for nothing (`python -m benchmarks.timing.cycles
--warm`). **Blind as a measurement and as a machine**: cases were chosen, then predicted by the
machine of commit 2466cba8 (30 November, 16:28 UTC) and kept in it, then measured (16:30). No rule
or value was changed for them. That SMs of a launch share rows, and how much they ask of the L2, was
not known of warm launches until that day."""
KNOWN: Final = """What is known of the misses:

* **Two cases with a mask have no measurement**: the program of variants launched them without one,
  so that what came out is not what was asked for; predicted was the same launch. They stay here.
* **The L2 has a clock of its own** (1,709 MHz), and SMs that slow down get more bytes in each of
  their cycles ([timing_cycles.md](timing_cycles.md)). Predictions are of 1,980 MHz. At the clocks
  that were recorded Triton's 64 × 128 by boxes (1,627 MHz) and 64 × 64 by pointers (1,748 MHz) are
  {boxes} and {pointers}, and all of these cases {clocks} off in the mean.
* **Rows** (softmax and layer norm) take 9,000 to 10,200 cycles, 4,083 of which a launch is taken to
  cost. In the machine stores of all SMs at once get 2,327 bytes a cycle, of 1,449 to 3,112 that
  were seen; at 3,112 they would take 900 cycles less. That it is they is a hypothesis.
* **This package's 64 keys** -7.7 %: products of 64 keys, -9.9 % where nothing is in the L2."""


def at_their_clocks(
    cases: Sequence[Judged], clocks: Mapping[str, Mapping[str, Any]]
) -> list[Judged]:
    """The cases as predicted at the clock that was recorded."""
    return [
        replace(case, predicted=clocks[f"{case.runner}: {case.name}"]["at its clock"])
        for case in cases
        if f"{case.runner}: {case.name}" in clocks
    ]


def page(
    cases: Sequence[Judged], failed: Sequence[str], card: Mapping[str, Any],
    clocks: Mapping[str, Mapping[str, Any]],
) -> str:
    """All cases, hits and misses."""
    asked = [case for case in judged(cases) if case.runner not in (*LANES, *ROWS)]
    rows = [case for case in cases if case.measured is not None and case.runner in ROWS]
    every_one = [*asked, *rows]
    errors = [abs(case.error) for case in every_one]
    moved = {f"{c.name}": c for c in at_their_clocks(every_one, clocks)}
    told = {
        "boxes": _error(moved, "64 × 128, 4 stages"),
        "pointers": _error(moved, "64 × 64, 4 stages"),
        "clocks": f"{mean(abs(c.error) for c in moved.values()):.1%}",
    }  # fmt: skip
    found = [case.mhz for case in every_one]
    return "\n".join([
        HEAD, "",
        f"{card.get('name', 'GPU')}, driver {card.get('driver_version', 'unknown')}; clocks as "
        f"found, {min(found):,.0f} to {max(found):,.0f} MHz.", "",
        f"Target: {TARGET:.0%}, worst {WORST:.0%}. {mean(errors):.1%} in the mean of "
        f"{len(errors)}, {mean(abs(c.error) for c in asked):.1%} of the {len(asked)} with "
        f"products; {sum(e <= WORST for e in errors)} are within {WORST:.0%}.", "",
        *tables(every_one),
        *KNOWN.format(**told).split("\n"), "", *every(cases, ()), "",
        *(f"* {reason}" for reason in failed), "",
    ])  # fmt: skip


def _error(cases: Mapping[str, Judged], part: str) -> str:
    """The error of the one case whose name has a part."""
    (found,) = (case for name, case in cases.items() if part in name)
    return f"{found.error:+.1%}"


def main(arguments: Sequence[str]) -> int:
    """Write the page; returns the exit status."""
    file = target(__doc__, arguments)
    measured = json.loads(MEASURED.read_text())
    cases, failed = joined(json.loads(PREDICTED.read_text()), measured["rows"])
    clocks = json.loads(AT_CLOCKS.read_text())
    file.write_text(page(cases, failed, measured["card"], clocks))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
