"""Ladders of GEMM kernels on a model of a B200, beside their authors' times: is the order right?

    git clone https://github.com/gau-nernst/learn-cuda
    git clone https://github.com/HazyResearch/ThunderKittens
    python -m benchmarks.timing.ladder learn-cuda/02e_matmul_sm100 ThunderKittens

makes the rows that ladder.json lacks, which `benchmarks.timing.blackwell` puts into its page. nvcc
builds each kernel with a program that launches it on 4096 x 4096 x 4096; its first cluster is
executed, and the grid follows. Published: the README of that folder, bf16, at 1454f8b, and that of
`kernels/gemm/educational_b200` at 0b55588d. No GPU is needed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any, Final

from benchmarks.timing.gemms import tau
from benchmarks.timing.side_by_side.records import load, write
from sm100sim.crew.recording import Recording, recording
from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.predict.gpu import time_marked
from sm100sim.timing.predict.memory import NO_TRAFFIC
from sm100sim.timing.predict.whole import asked_by, marked
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.trace import traced

RECORDS: Final = Path(__file__).with_suffix(".json")
CHIP, DRAWS, SIZE = "b200", 16, 4096
PUBLISHED: Final = {
    "v0": 409.06, "v1a": 255.73, "v1b": 254.37, "v2a": 699.39, "v2b": 721.02, "v3": 914.42,
    "v4": 1053.61, "v5": 1169.65, "v6": 1273.32, "v7a": 1293.38, "v7b": 1316.16, "v7c": 1326.11,
}  # fmt: skip
"""TFLOPS."""
KITTENS: Final = {"level 6": 293.0, "level 7": 731.0, "level 8": 1050.0, "level 9": 1285.0}
"""TFLOPS of ThunderKittens' levels with tcgen05; the lower ones are loops on CUDA cores or wmma."""
STEPS: Final = {
    "v0": "mma.sync", "v1a": "tcgen05, copies of 16-byte rows", "v1b": "the same in 3D",
    "v2a": "rows of 128 bytes", "v2b": "the same in 3D", "v3": "two stages",
    "v4": "a role for each warp", "v5": "pairs of CTAs", "v6": "persistent", "v7a": "148 CTAs",
    "v7b": "128 CTAs", "v7c": "stores that leave the L1 alone",
    "level 6": "tcgen05 with boxes", "level 7": "a role for each warp, stages",
    "level 8": "tiles of 256 columns, an epilogue in parts", "level 9": "pairs of CTAs",
}  # fmt: skip
STUB: Final = """#pragma once
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <cuda.h>
#include <cuda_bf16.h>
#define TORCH_CHECK(ok, text) do { if (!(ok)) { puts(text); exit(1); } } while (0)
"""
"""What the kernels' sources need of torch."""
MAIN: Final = """
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
void matmul_NAME(const nv_bfloat16 *, const nv_bfloat16 *, nv_bfloat16 *, int, int, int);
int main() {
  nv_bfloat16 *a, *b, *c;
  const size_t bytes = size_t(SIZE) * SIZE * sizeof(*a);
  if (cudaMalloc(&a, bytes) || cudaMalloc(&b, bytes) || cudaMalloc(&c, bytes)) return 1;
  matmul_NAME(a, b, c, SIZE, SIZE, SIZE);
  return cudaDeviceSynchronize();
}
"""
LEVEL: Final = """
#define main kittens_main
#include "NAME.cu"
#undef main
int main() {
  __nv_bfloat16 *a, *b, *c;
  const size_t bytes = size_t(SIZE) * SIZE * sizeof(*a);
  if (cudaMalloc(&a, bytes) || cudaMalloc(&b, bytes) || cudaMalloc(&c, bytes)) return 1;
  matmul(a, b, c, SIZE);
  return cudaDeviceSynchronize();
}
"""
"""The same of a level, whose file has its kernel and a program of its own."""
DRIVER: Final = ("cuGetErrorString", "cuTensorMapEncodeTiled")
"""What they call of the driver."""
NVCC: Final = (
    "nvcc", "-O3", "--expt-relaxed-constexpr", "-gencode", "arch=compute_100a,code=compute_100a",
    "--no-compress", "-cudart", "shared",
)  # fmt: skip
OF_KITTENS: Final = ("-std=c++20", "--use_fast_math", "--expt-extended-lambda", "-DNDEBUG",
                     "-DKITTENS_BLACKWELL")  # fmt: skip
"""As its Makefile has it."""
FINDINGS: Final = 1
"""Exit code of a run that went through; v5 and v6 name lanes of other warps."""
LADDERS: Final = (PUBLISHED, KITTENS)
ENDS: Final = ("l2_bytes", "l2_shared_bytes")
"""Values whose ranges decide between kernels that the L2 and kernels that latencies hold."""
Row = Mapping[str, Any]


def built(name: str, sources: Path, folder: Path) -> Path:
    """The program that launches a kernel, with its PTX.

    Raises:
        subprocess.CalledProcessError: nvcc refuses it.
    """
    driver = folder / "libcuda.so"
    names = "".join(f"int {name}(void) {{ return 1; }}\n" for name in DRIVER)
    subprocess.run(
        ["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", str(driver)],
        input=names.encode(), check=True,
    )  # the linker's; the simulator brings the one that runs
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch" / "library.h").write_text(STUB)
    level = name in KITTENS
    stem = name.replace(" ", "_0")
    main, program = folder / f"{stem}.main.cu", folder / stem
    main.write_text((LEVEL if level else MAIN).replace("NAME", stem).replace("SIZE", str(SIZE)))
    if level:
        paths = [sources / "include", sources / "kernels/gemm/educational_b200"]
        given = [*OF_KITTENS, str(main)]
    else:
        paths = [folder, sources]
        given = ["-std=c++17", str(main), str(sources / f"matmul_{name.rstrip('abc')}.cu")]
    included = [word for path in paths for word in ("-I", str(path))]
    libraries = ["-L", str(folder), "-lcuda", "-o", str(program)]
    subprocess.run([*NVCC, *included, *given, *libraries], check=True, capture_output=True)
    return program


def recorded(program: Path) -> Recording:
    """What the first cluster of a program's launch executed.

    Raises:
        ValueError: it makes another number of launches than one, or fails.
    """
    from sm100sim.command.main import main as command

    with recording([0], others=False, everywhere=True) as launches:
        # v1 to v3 rely on their warps being abreast: where copies land at once, one misses phases
        status = command(["run", "--mode", "late", str(program)])
    if status not in (0, FINDINGS) or len(launches) != 1:
        raise ValueError(f"{program.name}: exit code {status}, {len(launches)} launches")
    return launches[0]


def predicted(recorded_: Recording) -> tuple[list[float], dict[str, list[float]], str]:
    """Cycles of the launch by draw, the chip's own values first; at both ends of the ranges of
    `ENDS`, with the others of the chip's own; and the assembler."""
    request = recorded_.request
    kernel = compiled(request.ptx, "sm_100a", request.kernel)
    launch = traced(kernel, recorded_)
    every = tuple(range(prod(launch.grid) // prod(launch.cluster)))
    launch = replace(launch, traces=(replace(launch.traces[0], clusters=every),))
    chip, moved = load_chip(CHIP), 3 * 2 * SIZE**2
    asked, shared = asked_by(launch, chip, cold=False), marked(launch, chip.draw(), cold=False)

    def cycles(draw: Draw) -> float:
        return time_marked(shared, draw, NO_TRAFFIC, moved).cycles

    draws = [cycles(chip.draw(number).having(asked)) for number in range(DRAWS + 1)]
    own, ends = chip.draw(), {}
    for name in ENDS:
        of = chip.parameters[name]
        changed = [replace(chip, parameters={**chip.parameters, name: replace(of, value=at)})
                   for at in (of.low, of.high)]  # fmt: skip
        ends[name] = [
            cycles(own.having({name: c.parameters[name].value, **asked_by(launch, c, cold=False)}))
            for c in changed
        ]
    return draws, ends, kernel.compiler


def order(cycles: Mapping[str, float], published: Mapping[str, float]) -> list[str]:
    """Pairs of kernels that are in another order than published, and those without one."""
    rising = sorted(cycles, key=lambda name: published[name])
    pairs = [(a, b) for a, b in combinations(rising, 2) if published[a] < published[b]]

    def told(which: Sequence[tuple[str, str]]) -> str:
        return ", ".join(
            f"{a} and {b} (published {published[b] / published[a] - 1:.1%} apart, "
            f"predicted {abs(cycles[a] / cycles[b] - 1):.1%})" for a, b in which
        ) or "none"  # fmt: skip

    turned = [(a, b) for a, b in pairs if cycles[a] < cycles[b]]
    alike = [(a, b) for a, b in pairs if cycles[a] == cycles[b]]
    return [
        f"In another order: {told(turned)}.",
        f"As fast as one another here: {told(alike)}.",
    ]


def section(rows: Sequence[Row], published: Mapping[str, float] = PUBLISHED) -> list[str]:
    """The table of one ladder."""
    flops = 2 * SIZE**3
    made = [row for row in rows if "cycles" in row and row["name"] in published]
    clock = load_chip(CHIP).parameters["clock_mhz"].value
    rates = {row["name"]: [flops * clock / c / 1e6 for c in row["cycles"]] for row in made}
    if not rates:
        return ["Not run."]
    best = max(published[name] for name in rates)
    top = {k: rates[max(rates, key=lambda n: published[n])][k] for k in range(DRAWS + 1)}
    lines = ["| kernel | step | published | predicted | band | predicted TFLOPS over published |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name in published:
        if name not in rates:
            why = next((r["failed"] for r in rows if r["name"] == name), "not run")
            lines.append(f"| {name} | {STEPS[name]} | {published[name] / best:.3f} | {why} | | |")
            continue
        shares = [rate / top[k] for k, rate in enumerate(rates[name])]
        drawn = sorted(shares[1:])
        lines.append(
            f"| {name} | {STEPS[name]} | {published[name] / best:.3f} | {shares[0]:.3f} | "
            f"{drawn[0]:.3f}–{drawn[-1]:.3f} | {rates[name][0] / published[name]:.2f} |"
        )
    orders = [tau([(published[n], r[k]) for n, r in rates.items()]) for k in range(DRAWS + 1)]
    of_draws = sorted(orders[1:])
    return [
        "Speed over the fastest's. Kendall's tau of the two orders: "
        f"{orders[0]:.2f} ({of_draws[0]:.2f} to {of_draws[-1]:.2f} over the draws); target 0.9.",
        *(_at_ends(name, made, published) for name in ENDS),
        *order({row["name"]: row["cycles"][0] for row in made}, published),
        f"The last column is at {clock:,.0f} MHz; the machine's clock is not known.", "", *lines,
    ]  # fmt: skip


def _at_ends(name: str, rows: Sequence[Row], published: Mapping[str, float]) -> str:
    """The order where one value is at an end of its range."""
    of = load_chip(CHIP).parameters[name]
    low, high = (
        tau([(published[row["name"]], -row["ends"][name][k]) for row in rows]) for k in range(2)
    )
    return (
        f"With `{name}` at the ends of its range, {of.low:,.0f} and {of.high:,.0f}: "
        f"{low:.2f} and {high:.2f}."
    )


def main(arguments: Sequence[str]) -> int:
    """Predict the ladders; returns the exit status."""
    if len(arguments) != len(LADDERS):
        print(__doc__, file=sys.stderr)
        return 64
    of = {name: Path(folder) for folder, ladder in zip(arguments, LADDERS, strict=True)
          for name in ladder}  # fmt: skip
    rows = [row for row in load(RECORDS) if {*row.get("ends", ())} == {*ENDS}]
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in of if name not in {row["name"] for row in rows}]:
            try:
                program = built(name, of[name], Path(folder))
                cycles, ends, compiler = predicted(recorded(program))
                told = {"cycles": [round(c) for c in cycles],
                        "ends": {end: [round(c) for c in found] for end, found in ends.items()}}
                rows.append({"name": name, "compiler": compiler, **told})
            except Exception as error:  # the others go on
                failed = str(error).partition("\n")[0].rpartition(": ")[2][:160]
                rows.append({"name": name, "failed": failed})
            print(name, rows[-1].get("failed", rows[-1].get("cycles", [0])[0]), flush=True)
            write(sorted(rows, key=lambda row: list(of).index(row["name"])), RECORDS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
