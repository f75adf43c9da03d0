"""The clocked machine beside times that an H200 measured: attention, ours and FlashAttention-4's.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.hopper docs/timing_hopper.md [--only REGEX]

Measured: docs/hopper_times.md, TFLOPS and the clock of each row. Our kernels must be those that
were measured: run it with `fa4_cute` of that page's commit. No GPU is needed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import mean

import sm100sim
from benchmarks.hopper.times.problems import TABLE, Problem
from sm100sim.timing.predict import Prediction, predict_launch

MEASURED = Path(__file__).resolve().parents[2] / "docs" / "hopper_times.md"
CHIP, SMS = "h200", 132
RUNNERS = ("fa4_cute", "FA4")
LONGEST, LONGEST_CAUSAL, LONGEST_PERSISTENT = 4096, 2048, 1024
"""Longer sequences take long to execute: with a mask all tiles of a head are, and a persistent CTA
takes many tiles."""


@dataclass(frozen=True)
class Measured:
    """A time of the table, in cycles of the row's clock."""

    runner: str
    problem: Problem
    cycles: float


@dataclass(frozen=True)
class Case:
    """A measured time with its prediction."""

    measured: Measured
    prediction: Prediction

    @property
    def error(self) -> float:
        """Of the prediction with the chip's own values, relative to what was measured."""
        return self.prediction.typical.cycles / self.measured.cycles - 1


def measured(page: str) -> Iterator[Measured]:
    """The times of the first table of a page."""
    problems = {(_dims(p), p.causal, p.seqlen_k): p for p in TABLE if p.group == "full"}
    header: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "head dim" in cells:
            if header:
                return
            header = cells
        elif header and cells[0][:1].isdigit():
            row = dict(zip(header, cells, strict=True))
            length = int(row["length"].replace(",", ""))
            problem = problems[row["head dim"], row["keys"] == "causal", length]
            for runner in RUNNERS:
                if row[runner].isdigit():
                    seconds = problem.flops() / (float(row[runner]) * 1e12)
                    yield Measured(runner, problem, seconds * float(row["SM MHz"]) * 1e6)


def _dims(problem: Problem) -> str:
    narrow = problem.head_dim_v != problem.head_dim
    return f"{problem.head_dim}/{problem.head_dim_v}" if narrow else str(problem.head_dim)


def asked(entry: Measured, only: str) -> bool:
    """Whether a time is compared: it does not take too long to execute, and is wanted."""
    p = entry.problem
    persistent = p.head_dim == 64 and entry.runner == "fa4_cute"
    longest = LONGEST_PERSISTENT if persistent else LONGEST_CAUSAL if p.causal else LONGEST
    return p.seqlen_k <= longest and bool(re.search(only, f"{entry.runner}-{p.name}"))


def page(cases: Sequence[Case], failed: Sequence[str]) -> str:
    """All cases, hits and misses."""
    errors = [case.error for case in cases]
    lines = [
        "# Attention on an H200: predicted beside measured", "",
        "Written by `python -m benchmarks.timing.hopper`. Measured: the table of",
        "[hopper_times.md](hopper_times.md), in cycles at the clock of the row. Predicted: the",
        "clocked machine with the chip's values; the band is that of draws (5 to 95 %). Nothing is",
        "fitted to these times. Kernels of this package are those of the commit that was measured.",
        "",
        "**The clock of a row is NVML's median over all runners, and not what the SMs ran at**, so",
        "the errors here are about 15 points too low and no measure of the model:",
        "[timing_cycles.md](timing_cycles.md) has the SMs' own cycles, and [timing.md](timing.md)",
        "says how this was found.", "",
        f"{len(cases)} cases: mean size of the error {mean(map(abs, errors)):.1%}, "
        f"mean {mean(errors):+.1%}, worst {max(errors, key=abs):+.1%}. Target: 5 %, worst 12 %.",
        f"The faster of two kernels is named rightly for {order(cases)} problems.", "",
        "| kernel | head dim | keys | length | measured | predicted | band | error | tensor |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for case in cases:
        p, band, typical = case.measured.problem, case.prediction.band, case.prediction.typical
        lines.append(
            f"| {case.measured.runner} | {_dims(p)} | {'causal' if p.causal else 'all'} | "
            f"{p.seqlen_k:,} | {case.measured.cycles:,.0f} | {typical.cycles:,.0f} | "
            f"{band.low:,.0f}–{band.high:,.0f} | {case.error:+.1%} | "
            f"{typical.longest.use('tensor'):.0%} |"
        )
    compilers = sorted({case.prediction.compiler or "12.9" for case in cases})
    lines += ["", f"Machine code as it was launched, by ptxas {', '.join(compilers)}."]
    if failed:
        lines += ["", "Without a prediction:", "", *(f"* {reason}" for reason in failed)]
    return "\n".join([*lines, ""])


def order(cases: Iterable[Case]) -> str:
    """How often the faster kernel of a problem is the one that is predicted to be."""
    right, pairs = 0, 0
    named = sorted(cases, key=lambda case: case.measured.problem.name)
    for _, group in groupby(named, key=lambda case: case.measured.problem.name):
        found = list(group)
        if len(found) == 2:
            a, b = found
            pairs += 1
            faster = a.measured.cycles < b.measured.cycles
            right += faster == (a.prediction.typical.cycles < b.prediction.typical.cycles)
    return f"{right} of {pairs}"


def main() -> int:
    """Compare and write the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--only", default="", help="regular expression over runner-problem")
    arguments = parser.parse_args()
    sm100sim.activate(sm_count=SMS)  # before the DSL is imported
    from benchmarks.timing.attention_traces import Tracer

    tracer, cases, failed = Tracer("sm_90a", SMS), [], []
    for entry in measured(MEASURED.read_text()):
        if not asked(entry, arguments.only):
            continue
        name = f"{entry.runner} {entry.problem.name}"
        try:
            launch = tracer.of(entry.runner, entry.problem)
            prediction = predict_launch(launch, CHIP, draws=arguments.draws, cold=True)
        except Exception as error:  # a table shows what fails and goes on
            failed.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            print(failed[-1], flush=True)
            continue
        cases.append(Case(entry, prediction))
        print(f"{name}: {cases[-1].error:+.1%}", flush=True)
        arguments.page.write_text(page(cases, failed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
