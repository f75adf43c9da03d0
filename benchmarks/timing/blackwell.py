"""The clocked machine beside what is published of FlashAttention-4 on a B200.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.blackwell docs/timing_blackwell.md

Head dim 128, all keys, bf16. The steady state is the difference of two lengths. Published values do
not depend on clocks: shares of pipes, and ratios of times on one machine. No GPU is needed.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import sm100sim
from benchmarks.hopper.times.problems import Problem
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import ClusterTime, run_cluster
from sm100sim.timing.predict import Band
from sm100sim.timing.records import ClusterTrace, LaunchTrace, Pipe

CHIP, SMS, DRAWS = "b200", 148, 24
SHORT, LONG, KEYS = 2048, 4096, 128
HEADS = {"FA4": 2, "fa4_cute": 32}
"""So many that a CTA takes one pair of query tiles: few where CTAs are persistent, many where a
small grid gets another kernel."""
PUBLISHED = {"tensor": 87.7, "XU": 71.9, "FMA": 20.0, "ALU": 31.2, "issue": 49.2}
"""Shares of the time that Nsight Compute counts; flash-attention issue 2701, bf16 on a B200."""
SPILLED = 1.265
"""Time of 176/88/72 over that of 184/80/64 registers; flash-attention pull request 2869."""
PIPES = {"XU": (Pipe.MUFU, 8), "ALU": (Pipe.ALU, 2)}
FMA = (Pipe.FMA_LITE, Pipe.FMA_HEAVY, Pipe.FMA_PACKED)
OLD_REGISTERS = {"184": "176", "80": "88", "64": "72"}


def spilling(ptx: str) -> str:
    """The registers of warps as they were when FlashAttention-4's d128 loop spilled."""
    return re.sub(
        r"(setmaxnreg\S+\s+)(\d+)", lambda m: m[1] + OLD_REGISTERS.get(m[2], m[2]), ptx
    )


def shares(trace: ClusterTrace, time: ClusterTime) -> dict[str, float]:
    """Cycles of pipes as Nsight Compute counts them: instructions at the pipe's best rate."""
    kernel = trace.kernel.instructions
    ctas = 1 + max(stream.rank for stream in trace.streams)
    count = {
        pipe: sum(int(n) for n, i in zip(time.executed, kernel, strict=True) if i.pipe is pipe)
        / (4 * ctas)
        for pipe in (*FMA, Pipe.MUFU, Pipe.ALU)
    }
    found = {name: count[pipe] * cycles for name, (pipe, cycles) in PIPES.items()}
    found |= {"FMA": sum(count[pipe] for pipe in FMA), "issue": time.busy["issue"]}
    return found | {"tensor": time.busy["tensor"], "cycles": time.cycles}


def steady(short: LaunchTrace, long: LaunchTrace, draw: Draw) -> dict[str, float]:
    """Cycles of a key tile, and those of its pipes."""
    counted = [
        shares(launch.traces[0], run_cluster(launch.traces[0], draw)) for launch in (short, long)
    ]
    return {name: (counted[1][name] - counted[0][name]) / ((LONG - SHORT) / KEYS)
            for name in counted[0]}  # fmt: skip


def page(traces: dict[str, tuple[LaunchTrace, LaunchTrace]]) -> str:
    """The tables."""
    chip = load_chip(CHIP)
    draws = [chip.draw(number) for number in range(1, DRAWS + 1)]
    drawn = {name: [steady(*pair, draw) for draw in draws] for name, pair in traces.items()}
    typical = {name: steady(*pair, chip.draw()) for name, pair in traces.items()}
    lines = [
        "# Attention on a B200: predicted beside published", "",
        "Written by `python -m benchmarks.timing.blackwell`. Head dim 128, all keys, bf16, in the",
        "steady state; bands of draws, 5 to 95 %. Nothing here was measured by this project on a",
        "Blackwell chip, and nothing is fitted to these rows.", "",
        "Shares of the time in which pipes work, as Nsight Compute counts them. Published:",
        "flash-attention issue 2701, which does not say for which shape.", "",
        "| pipe | predicted, FA4 | band | published |", "|---|---|---|---|",
    ]  # fmt: skip
    for pipe, published in PUBLISHED.items():
        band = Band.of([100 * d[pipe] / d["cycles"] for d in drawn["FA4"]])
        share = 100 * typical["FA4"][pipe] / typical["FA4"]["cycles"]
        lines.append(f"| {pipe} | {share:.1f} | {band.low:.1f}–{band.high:.1f} | {published} |")
    lines += ["", "Cycles of one key tile (256 query rows a CTA, 128 keys):", "",
              "| kernel | predicted | band | over FA4, draw by draw | published |",
              "|---|---|---|---|---|"]  # fmt: skip
    best = 2048 / PUBLISHED["tensor"] * 100
    told = {"FA4": f"at most {best:,.0f}", "FA4 176/88/72": f"× {SPILLED}"}
    base = [d["cycles"] for d in drawn["FA4"]]
    for name, found in drawn.items():
        band = Band.of([d["cycles"] for d in found])
        ratio = Band.of([d["cycles"] / b for d, b in zip(found, base, strict=True)])
        lines.append(
            f"| {name} | {typical[name]['cycles']:,.0f} | {band.low:,.0f}–{band.high:,.0f} | "
            f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f}) | {told.get(name, '')} |"
        )
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> int:
    """Write the page; returns the exit status."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 64
    sm100sim.activate(sm_count=SMS)  # before the DSL is imported
    from benchmarks.timing.attention_traces import Tracer

    tracer = Tracer("sm_100a", SMS)
    traces = {}
    for name, rewrite in (("FA4", None), ("FA4 176/88/72", spilling), ("fa4_cute", None)):
        runner = name.partition(" ")[0]
        heads = HEADS[runner]
        short = Problem("full", 1, SHORT, SHORT, heads, heads, 128, 128)
        problems = (short, replace(short, seqlen_q=LONG, seqlen_k=LONG))
        first, second = (tracer.of(runner, problem, rewrite) for problem in problems)
        traces[name] = (first, second)
    Path(arguments[0]).write_text(page(traces))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
