"""The clocked machine beside what is published of FlashAttention-4 on a B200.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.blackwell docs/timing_blackwell.md [--draw]
    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.blackwell --pipes

Head dim 128, all keys. The steady state is the difference of two lengths. Published values do not
depend on clocks: shares of pipes, and ratios of times on one machine. The ratios come from the
records of `claims` and `ladder`; `--draw` puts them into the page and keeps the rest. `--pipes`
keeps the shares of the build that was timed, in its environment (`claims.builds`). No GPU is
needed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import sm100sim
from benchmarks.hopper.times.problems import Problem
from benchmarks.machine_state import model, states
from benchmarks.timing.claims.builds import MAY, ready
from benchmarks.timing.claims.words import (
    KITTENS_HEAD,
    LADDER_HEAD,
    LADDER_KNOWN,
    NOT_PREDICTED,
    RATIOS_HEAD,
    REASONS,
)
from benchmarks.timing.side_by_side.callers import CUDA13, assembler
from benchmarks.timing.side_by_side.records import load, write
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import ClusterTime, run_cluster
from sm100sim.timing.predict import Band
from sm100sim.timing.records import ClusterTrace, LaunchTrace, Pipe
from testing.site.target import options

CHIP, SMS, DRAWS = "b200", 148, 12
SHORT, LONG, KEYS = 1024, 2048, 128
HEADS = 2
ONE_TILE = {"scheduler": "tile", "num_qo": 2}
"""So that a CTA takes one pair of query tiles: few heads where CTAs are persistent, and the kernel
that this package takes for many."""
PUBLISHED = {"tensor": 87.7, "XU": 71.9, "FMA": 20.0, "ALU": 31.2, "issue": 49.2}
"""Shares of the time that Nsight Compute counts; flash-attention issue 2701, bf16 on a B200."""
OF_FP8 = {"tensor": 43.6, "XU": 71.6, "FMA": 20.6, "ALU": 36.3, "issue": 52.0}
"""The same for fp8."""
RATIOS = "## One machine, two kernels"
"""The heading under which ratios stand."""
SPILLED = 1.265
"""Time of 176/88/72 over that of 184/80/64 registers; flash-attention pull request 2869."""
MOVED = 0.02
"""A change of the period that is named."""
PIPES = {"XU": (Pipe.MUFU, 8), "ALU": (Pipe.ALU, 2)}
FMA = (Pipe.FMA_LITE, Pipe.FMA_HEAVY, Pipe.FMA_PACKED)
WITH_ALU: Final = ("R2UR", "VOTE", "ELECT")
"""Opcodes that go to no pipe in the machine; Nsight Compute counts as many more for ALU."""
KEPT: Final = Path(__file__).with_name("pipes.json")
TIMED_HEAD: Final = "The same of the build that counts of instructions say was timed:"
REASONS_HEAD: Final = "What is known of the misses:"
OLD_REGISTERS = {"184": "176", "80": "88", "64": "72"}


def spilling(ptx: str) -> str:
    """The registers of warps as they were when FlashAttention-4's d128 loop spilled."""
    return re.sub(
        r"(setmaxnreg\S+\s+)(\d+)", lambda m: m[1] + OLD_REGISTERS.get(m[2], m[2]), ptx
    )


@dataclass(frozen=True)
class Kernel:
    """A kernel of the page.

    Attributes:
        name: as the page has it. runner: who launches it, "FA4" or "fa4_cute".
        dtype: "bf16" or "fp8". multiplied: cycles of a key tile's multiplications; over the
            published share of the tensor core they are its period.
        told: shares of pipes that are published. period: what is published of its period.
        assembler: version of the ptxas that makes its machine code; none is the runner's own.
        rewrite: changes its PTX.
    """

    name: str
    runner: str = "FA4"
    dtype: str = "bf16"
    multiplied: int = 2048
    told: Mapping[str, float] | None = None
    period: str = ""
    assembler: str = ""
    rewrite: Callable[[str], str] | None = None


BEST: Final = f"at most {2048 / PUBLISHED['tensor'] * 100:,.0f}"
FP8: Final = Kernel("FA4 fp8", dtype="fp8", multiplied=1024, told=OF_FP8)
KERNELS: Final = (
    Kernel("FA4", told=PUBLISHED, period=BEST),
    FP8,
    Kernel("FA4, ptxas 13.4", told=PUBLISHED, period=BEST, assembler=CUDA13),
    replace(FP8, name="FA4 fp8, ptxas 13.4", assembler=CUDA13),
    Kernel("FA4 176/88/72", period=f"× {SPILLED}", rewrite=spilling),
    Kernel("fa4_cute", runner="fa4_cute"),
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
    beside = (int(n) for n, i in zip(time.executed, kernel, strict=True) if i.opcode in WITH_ALU)
    found["ALU and beside"] = found["ALU"] + sum(beside) / (4 * ctas) * PIPES["ALU"][1]
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
        "flash-attention issue 2701, which does not say for which shape. The last column is the",
        "work of a key tile, share times period, over the published one. It does not depend on how",
        "long a tile takes. The work of the tensor core gives the published period, so its ratio",
        f"is 1. These and the periods: {states([{'model': model()}])}.", "",
        "| kernel | pipe | predicted | band | published | points off | work |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for kernel in _told(traces):
        own, told = typical[kernel.name], kernel.told or {}
        for pipe, published in told.items():
            band = Band.of([100 * d[pipe] / d["cycles"] for d in drawn[kernel.name]])
            share = 100 * own[pipe] / own["cycles"]
            work = own[pipe] / published * told["tensor"] / kernel.multiplied
            lines.append(
                f"| {kernel.name} | {pipe} | {share:.1f} | {band.low:.1f}–{band.high:.1f} | "
                f"{published} | {share - published:+.1f} | {work:.2f} |"
            )
    lines += ["", "Cycles of one key tile (256 query rows a CTA, 128 keys):", "",
              "| kernel | by the chip's own values | band of draws | over FA4, by these values | "
              "draw by draw, median (band) | published |",
              "|---|---|---|---|---|---|"]  # fmt: skip
    base = [d["cycles"] for d in drawn["FA4"]]
    for name, period in ((k.name, k.period) for k in KERNELS if k.dtype == "bf16"):
        if name not in drawn:
            continue
        found = drawn[name]
        band = Band.of([d["cycles"] for d in found])
        ratio = Band.of([d["cycles"] / b for d, b in zip(found, base, strict=True)])
        lines.append(
            f"| {name} | {typical[name]['cycles']:,.0f} | {band.low:,.0f}–{band.high:,.0f} | "
            f"{typical[name]['cycles'] / typical['FA4']['cycles']:.2f} | "
            f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f}) | {period} |"
        )
    return "\n".join([*lines, "", *moved(traces)])


def _told(traces: dict[str, tuple[LaunchTrace, LaunchTrace]]) -> list[Kernel]:
    return [kernel for kernel in KERNELS if kernel.told and kernel.name in traces]


def moved(traces: dict[str, tuple[LaunchTrace, LaunchTrace]]) -> list[str]:
    """What the periods of the kernels with shares owe to values that are only known as ranges."""
    chip = load_chip(CHIP)
    draw = chip.draw()
    lines = [f"Values that move the period by {MOVED:.0%} or more at an end of their range:", ""]
    for name in (kernel.name for kernel in _told(traces)):
        short, long = traces[name]
        own, start = steady(short, long, draw)["cycles"], run_cluster(short.traces[0], draw).cycles
        told = []
        for value, known in chip.parameters.items():
            for end in sorted({known.low, known.high} - {known.value}):
                changed = draw.having({value: float(end)})
                if abs(run_cluster(short.traces[0], changed).cycles / start - 1) < MOVED / 2:
                    continue  # what the short launch does not feel, its tiles do not
                by = steady(short, long, changed)["cycles"] / own - 1
                if abs(by) >= MOVED:
                    told.append(f"{value} {end:g} instead of {known.value:g} {by:+.1%}")
        lines.append(f"* {name}: {'; '.join(told) or 'none'}.")
    return [*lines, ""]


def timed_shares(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of the build that was timed, from its records."""
    lines = [TIMED_HEAD, "",
             "| kernel | build | pipe | predicted | band | published | points off | work |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    told = {kernel.name: kernel for kernel in KERNELS}
    for row in rows:
        kernel, (own, *drawn) = told[row["name"]], row["steady"]
        published = dict(kernel.told or {})
        for pipe, share in (*published.items(), ("ALU and beside", published["ALU"])):
            band = Band.of([100 * d[pipe] / d["cycles"] for d in drawn])
            mine = 100 * own[pipe] / own["cycles"]
            work = own[pipe] / share * published["tensor"] / kernel.multiplied
            found = f"{mine:.1f} | {band.low:.1f}–{band.high:.1f} | {share} | {mine - share:+.1f}"
            lines.append(f"| {kernel.name} | {row['build']} | {pipe} | {found} | {work:.3f} |")
    periods = (
        f"{row['name']} {row['steady'][0]['cycles']:,.0f} of at most "
        f"{100 * told[row['name']].multiplied / (told[row['name']].told or {})['tensor']:,.0f}"
        for row in rows
    )
    return [*lines, "", f"Cycles of a key tile, predicted and published: {'; '.join(periods)}.",
            "", f"These two kernels: {states(rows)}, of 23 November; not predicted again.", ""]


def keep_shares() -> None:
    """Keep what the kernels with published shares take in this environment."""
    chip, rows = load_chip(CHIP), []
    kernels = [replace(k, assembler=MAY.assembler) for k in KERNELS if k.told and not k.assembler]
    for name, pair in traced_kernels(kernels).items():
        if not MAY.here:
            raise ValueError(f"{MAY.name} is asked for: another is here")
        steady_ = [steady(*pair, chip.draw(number)) for number in range(DRAWS + 1)]
        told = [{key: round(value, 2) for key, value in one.items()} for one in steady_]
        rows.append({"name": name, "build": MAY.name, "steady": told, "model": model()})
    write(rows, KEPT)


def _of_their_day() -> list[str]:
    """Which states of the machine the ratios are of."""
    from benchmarks.timing.claims import found

    told = (
        f"Calls: {states(load(found.CALLS))}. Ratios of today's build whose calls are not kept: "
        f"{states(load(found.RATIOS))}. The machine has changed since "
        "([timing.md](timing.md#what-the-machine-does)), and these were not predicted again. "
        "Builds other than today's have to be installed for it."
    )
    return wrap(told, 96, break_on_hyphens=False)


def with_ratios(text: str) -> str:
    """The page with the ratios of the records in the place of those that it has."""
    from benchmarks.timing import ladder
    from benchmarks.timing.claims import clocks, found
    from benchmarks.timing.claims.page import causes, section

    tables = text.partition(REASONS_HEAD)[0].partition(TIMED_HEAD)[0].rstrip()
    lines = [tables, "", *timed_shares(load(KEPT)), *REASONS.strip().split("\n"), ""]
    lines += [RATIOS, "", *RATIOS_HEAD, "", *_of_their_day(), ""]
    every = found.every()
    lines += [*section(every), "", *causes(every), "", *clocks.section(load(found.CALLS)), ""]
    lines += ["## Ladders of GEMMs", "", *LADDER_HEAD, ""]
    rows = load(ladder.RECORDS)
    lines += [*ladder.section(rows), "", *LADDER_KNOWN, ""]
    lines += [*KITTENS_HEAD, "", *ladder.section(rows, ladder.KITTENS)]
    return "\n".join([*lines, "", *NOT_PREDICTED.strip().split("\n"), ""])


def main(arguments: list[str]) -> int:
    """Write the page; returns the exit status."""
    if arguments == ["--pipes"]:
        keep_shares()
        return 0
    parser = options(__doc__)
    parser.add_argument("--draw", action="store_true", help="ratios only; the rest stays")
    given = parser.parse_args(arguments)
    text = given.file.read_text() if given.draw else page(traced_kernels())
    given.file.write_text(with_ratios(text))
    return 0


def traced_kernels(
    kernels: Iterable[Kernel] = KERNELS,
) -> dict[str, tuple[LaunchTrace, LaunchTrace]]:
    """Launches of the kernels on the page, of two lengths."""
    sm100sim.activate(sm_count=SMS)  # before the DSL is imported
    ready()
    from benchmarks.timing.attention_traces import Tracer

    tracer = Tracer("sm_100a", SMS, **ONE_TILE)
    traces = {}
    for kernel in kernels:
        ptxas = assembler(kernel.assembler) if kernel.assembler else ""
        group = "fp8" if kernel.dtype == "fp8" else "full"
        short = Problem(group, 1, SHORT, SHORT, HEADS, HEADS, 128, 128, dtype=kernel.dtype)
        problems = (short, replace(short, seqlen_q=LONG, seqlen_k=LONG))
        first, second = (
            tracer.of(kernel.runner, problem, kernel.rewrite, ptxas) for problem in problems
        )
        traces[kernel.name] = (first, second)
    return traces


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
