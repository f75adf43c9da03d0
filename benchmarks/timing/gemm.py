"""quack's GEMMs on the clocked machine, beside an H200's cycles where it has been asked.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.gemm docs/timing_gemm.md [MEASURED.json]

Measured: what `benchmarks.timing.cycles` wrote. CTAs are persistent and taken to be alike: the
first cluster is executed, which has as many tiles as any. No GPU is needed.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from statistics import mean
from typing import Any, Final

import sm100sim
from benchmarks.timing.gemms import LADDER, Gemm
from sm100sim.crew.recording import recording
from sm100sim.options import RunOptions
from sm100sim.run import run
from sm100sim.timing.predict import Prediction, predict_launch
from sm100sim.timing.records import LaunchTrace
from sm100sim.timing.sass.trace import traced

ARCH: Final = "sm_90a"
CHIP: Final = "h200"
DRAWS: Final = 6
PAIRS_AT_LEAST: Final = 2
Row = tuple[Gemm, Prediction]


def trace_of(gemm: Gemm, cubins: dict[str, bytes]) -> LaunchTrace:
    """What the CTAs of a GEMM execute; cubins are kept by PTX, since quack compiles a kernel once.

    Raises:
        ValueError: no assembler here makes the machine code that quack launches.
        Unmatched: no way through the machine code agrees with what a warp did.
    """
    from benchmarks.timing.attention_traces import code_of
    from benchmarks.timing.record_gemm import launches_of, untouched

    tensors = untouched(gemm, 0)
    with launches_of(gemm, tensors) as (request, found):
        cubins |= found
        kernel, _ = code_of(cubins[request.ptx], request.ptx, ARCH, request.kernel)
        with recording([0], others=False) as launches:
            run(request, RunOptions())
    launch = traced(kernel, launches[0])
    clusters = tuple(range(prod(launch.grid) // prod(launch.cluster)))
    return replace(launch, traces=(replace(launch.traces[0], clusters=clusters),))


def tau(found: Sequence[tuple[float, float]]) -> float:
    """Kendall's rank correlation of predicted and measured cycles.

    Raises:
        ValueError: fewer than two pairs.
    """
    if len(found) < PAIRS_AT_LEAST:
        raise ValueError(f"{len(found)} kernels; an order needs two")
    pairs = [(a, b) for k, a in enumerate(found) for b in found[:k]]
    alike = [(p - q) * (m - n) for (p, m), (q, n) in pairs]
    return (sum(x > 0 for x in alike) - sum(x < 0 for x in alike)) / len(pairs)


def page(rows: Sequence[Row], measured: Mapping[str, float], failed: Sequence[str]) -> str:
    """All GEMMs, with what an H200 took where it is known."""
    errors = {
        gemm.name: p.typical.cycles / measured[gemm.name] - 1
        for gemm, p in rows
        if gemm.name in measured
    }
    lines = [
        "# quack's GEMMs on an H200", "",
        "Written by `python -m benchmarks.timing.gemm`. PyPI `quack-kernels`, bf16, sums in f32.",
        "Predicted: the clocked machine with the chip's values, nothing in the L2 at the start;",
        "the band is that of draws. What was predicted before the measurement, without the rule of",
        "rows that SMs share, is in [timing_cycles.md](timing_cycles.md).", "",
    ]  # fmt: skip
    if errors:
        order = tau([(p.typical.cycles, measured[g.name]) for g, p in rows if g.name in errors])
        lines += [
            f"{len(errors)} cases: mean size of the error {mean(map(abs, errors.values())):.1%}, "
            f"worst {max(errors.values(), key=abs):+.1%}; rank correlation {order:.2f}.", "",
        ]  # fmt: skip
    else:
        lines += ["No GPU has been asked yet: these are predictions.", ""]
    lines += [
        "| m, n, k | tile | cluster | turns | predicted | band | of the peak | measured | error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for gemm, p in rows:
        known = gemm.name in errors
        said = f"{measured[gemm.name]:,.0f} | {errors[gemm.name]:+.1%}" if known else "– | –"
        peak = 2 * gemm.m * gemm.n * gemm.k / (FLOPS_PER_CYCLE * p.typical.cycles)
        cycles = f"{p.typical.cycles:,.0f} | {p.band.low:,.0f}–{p.band.high:,.0f}"
        lines.append(
            f"| {gemm.m:,}, {gemm.n:,}, {gemm.k:,} | {gemm.tile[0]} × {gemm.tile[1]} | "
            f"{gemm.cluster[0]} × {gemm.cluster[1]} | {'whole tiles' if gemm.pingpong else '–'} | "
            f"{cycles} | {peak:.0%} | {said} |"
        )
    if failed:
        lines += ["", "Without a prediction:", "", *(f"* {reason}" for reason in failed)]
    return "\n".join([*lines, ""])


FLOPS_PER_CYCLE: Final = 132 * 4096
"""132 SMs; 64 x N x 16 products and as many sums in N/2 cycles."""


def measured_by(file: Path) -> dict[str, float]:
    """Cycles by name of what `benchmarks.timing.cycles` measured of quack."""
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"]
    return {r["name"]: r["cycles"] for r in rows if r["runner"] == "quack" and "cycles" in r}


def main(arguments: list[str]) -> int:
    """Predict and write the page; returns the exit status."""
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 64
    warnings.simplefilter("ignore")
    sm100sim.activate(sm_count=132)  # before the DSL is imported
    measured = measured_by(Path(arguments[1])) if len(arguments) == PAIRS_AT_LEAST else {}
    rows, failed, cubins = list[Row](), [], dict[str, bytes]()
    for gemm in LADDER:
        try:
            launch = trace_of(gemm, cubins)
            rows.append((gemm, predict_launch(launch, CHIP, draws=DRAWS, cold=True)))
        except Exception as error:  # a table shows what fails and goes on
            reason = " ".join(str(error).split())[-200:]
            failed.append(f"{gemm.name}: {type(error).__name__}: {reason}")
            print(failed[-1], flush=True)
            continue
        print(f"{gemm.name}: {rows[-1][1].typical.cycles:,.0f}", flush=True)
        Path(arguments[0]).write_text(page(rows, measured, failed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
