"""The clocked machine beside what is published of FlashAttention-4 on a B200.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.blackwell docs/timing_blackwell.md [--draw]

Head dim 128, all keys. The steady state is the difference of two lengths. Published values do not
depend on clocks: shares of pipes, and ratios of times on one machine. The ratios come from the
records of `claims` and `ladder`; `--draw` puts them into the page and keeps the rest. No GPU is
needed.
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
OF_FP8 = {"tensor": 43.6, "XU": 71.6, "FMA": 20.6, "ALU": 36.3, "issue": 52.0}
"""The same for fp8."""
SHARES = {"FA4": PUBLISHED, "FA4 fp8": OF_FP8}
RATIOS = "## One machine, two kernels"
"""The heading under which ratios stand."""
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
        "Written by `python -m benchmarks.timing.blackwell`. Head dim 128, all keys, in the",
        "steady state, bf16 unless it says fp8; bands of draws, 5 to 95 %. Nothing here was",
        "measured by this project on a Blackwell chip, and nothing is fitted to these rows.", "",
        "Shares of the time in which pipes work, as Nsight Compute counts them. Published:",
        "flash-attention issue 2701, which does not say for which shape.", "",
        "| kernel | pipe | predicted | band | published | points off |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, shares_told in SHARES.items():
        if name not in drawn:
            continue
        for pipe, published in shares_told.items():
            band = Band.of([100 * d[pipe] / d["cycles"] for d in drawn[name]])
            share = 100 * typical[name][pipe] / typical[name]["cycles"]
            lines.append(
                f"| {name} | {pipe} | {share:.1f} | {band.low:.1f}–{band.high:.1f} | {published} | "
                f"{share - published:+.1f} |"
            )
    lines += ["", "Cycles of one key tile (256 query rows a CTA, 128 keys):", "",
              "| kernel | predicted | band | over FA4, draw by draw | published |",
              "|---|---|---|---|---|"]  # fmt: skip
    best = 2048 / PUBLISHED["tensor"] * 100
    told = {"FA4": f"at most {best:,.0f}", "FA4 176/88/72": f"× {SPILLED}"}
    base = [d["cycles"] for d in drawn["FA4"]]
    for name, found in drawn.items():
        if name.endswith("fp8"):
            continue
        band = Band.of([d["cycles"] for d in found])
        ratio = Band.of([d["cycles"] / b for d, b in zip(found, base, strict=True)])
        lines.append(
            f"| {name} | {typical[name]['cycles']:,.0f} | {band.low:,.0f}–{band.high:,.0f} | "
            f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f}) | {told.get(name, '')} |"
        )
    return "\n".join([*lines, ""])


def with_ratios(text: str) -> str:
    """The page with the ratios of the records in the place of those that it has."""
    from benchmarks.timing import claims, ladder

    lines = [text.partition(RATIOS)[0].rstrip(), "", RATIOS, "", *RATIOS_HEAD, ""]
    lines += [*claims.section(claims.load()), "", "## A ladder of GEMMs", "", *LADDER_HEAD, ""]
    return "\n".join([*lines, *ladder.section(ladder.load()), ""])


RATIOS_HEAD = (
    "Times of two calls divided, on one machine each; predicted with the same draws for both by",
    "`python -m benchmarks.timing.claims`. FlashAttention-4 is PyPI's, built by ptxas 13.4 unless",
    "a row names another, with the knob of the row changed; who published had other versions.",
)
LADDER_HEAD = (
    "The kernels of gau-nernst/learn-cuda, `02e_matmul_sm100` at 1454f8b, bf16, 4096 cubed,",
    "predicted by `python -m benchmarks.timing.ladder` with nvcc 13.0. Published on a rented B200.",
)


def main(arguments: list[str]) -> int:
    """Write the page; returns the exit status."""
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--draw"]):
        print(__doc__, file=sys.stderr)
        return 64
    target = Path(arguments[0])
    text = target.read_text() if arguments[1:] else page(traced_kernels())
    target.write_text(with_ratios(text))
    return 0


def traced_kernels() -> dict[str, tuple[LaunchTrace, LaunchTrace]]:
    """Launches of the kernels on the page, of two lengths."""
    sm100sim.activate(sm_count=SMS)  # before the DSL is imported
    from benchmarks.timing.attention_traces import Tracer

    tracer = Tracer("sm_100a", SMS)
    traces = {}
    kernels = (("FA4", None), ("FA4 fp8", None), ("FA4 176/88/72", spilling), ("fa4_cute", None))
    for name, rewrite in kernels:
        runner = name.partition(" ")[0]
        heads, dtype = HEADS[runner], "fp8" if name.endswith("fp8") else "bf16"
        group = "fp8" if dtype == "fp8" else "full"
        short = Problem(group, 1, SHORT, SHORT, heads, heads, 128, 128, dtype=dtype)
        problems = (short, replace(short, seqlen_q=LONG, seqlen_k=LONG))
        first, second = (tracer.of(runner, problem, rewrite) for problem in problems)
        traces[name] = (first, second)
    return traces


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
