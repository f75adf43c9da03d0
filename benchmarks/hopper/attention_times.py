"""Times of attention on a Hopper GPU: this package, torch's backends and FlashAttention-4.

    python -m benchmarks.hopper.attention_times [--launches FOLDER] [--tutorial FILE] [--out STEM]
        [--only REGEX] [--runners REGEX] [--rounds N] [--warm] [--seconds N]

Needs torch for CUDA and nothing that compiles; ``FA4_CUTE_CACHE_DIR`` names the kernels of this
package, ``--launches`` those of FlashAttention-4 (``benchmarks.hopper.times.record_fa4``), and
``--tutorial`` the ``06-fused-attention.py`` of Triton's tutorials. Every result is compared with
float64 arithmetic before it is timed. What was measured is written after each problem; none is
begun after the given seconds.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.hopper.times.clocks import ClockLog, card
from benchmarks.hopper.times.problems import TABLE, Problem
from benchmarks.hopper.times.report import render
from benchmarks.hopper.times.runners import RECORDED, Call, Runner, runners
from benchmarks.hopper.times.tensors import error, make
from benchmarks.hopper.times.timing import Flush, copy_rate, host_cost, measured

TOLERANCE: Final = {"bf16": 1e-2, "fp8": 6e-2}
"""Relative errors that are accepted: twice what rounding of P and O gives."""
ROUNDS: Final = 30
SECONDS: Final = 420
HOST_FLOPS: Final = 10**12
"""Problems below it also tell what a call costs on the host; of others the queue takes too long."""


def prepared(
    problem: Problem, offered: Mapping[str, Runner]
) -> tuple[dict[str, Call], dict[str, float], dict[str, str]]:
    """Calls whose results are right, their errors, and why a runner has none.

    All read the same q, k and v; each has a result of its own.
    """
    calls, errors, refused = {}, {}, {}
    inputs = make(problem, "cuda")
    for name, runner in offered.items():
        tensors = {**inputs, "out": torch.full_like(inputs["out"], float("nan"))}
        try:
            call = runner(problem, tensors)
            call()
            torch.cuda.synchronize()
        except Exception as reason:  # of any library: it has no figure, and the rest goes on
            refused[name] = f"{type(reason).__name__}: {' '.join(str(reason).split())[:200]}"
            continue
        distance = error(problem, tensors)
        if distance <= TOLERANCE[problem.dtype]:
            calls[name], errors[name] = call, distance
        else:
            refused[name] = f"wrong: relative error {distance:.1e}"
    return calls, errors, refused


def row_of(
    problem: Problem, offered: Mapping[str, Runner], rounds: int, flush: Flush, log: ClockLog
) -> dict[str, Any]:
    """What is stored of a problem."""
    calls, errors, refused = prepared(problem, offered)
    start = time.monotonic()
    times, notes = measured(calls, rounds, flush) if calls else ({}, {})
    clocks = log.since(start)
    small = problem.flops() < HOST_FLOPS
    costs = {name: host_cost(calls[name]) for name in calls if small and name != RECORDED}
    results = {
        name: {
            "ms": found.median, "spread": found.spread, "runs": found.runs, "error": errors[name],
            "note": notes.get(name, ""), "host_us": costs.get(name),
        }
        for name, found in times.items()
    }  # fmt: skip
    return {
        "problem": asdict(problem), "name": problem.name, "flops": problem.flops(),
        "bytes": problem.bytes(), "results": results, "refused": refused,
        "clocks": clocks,
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of what ran."""
    cudnn = torch.backends.cudnn.version()
    return {
        "python": sys.version.split()[0], "torch": torch.__version__,
        "CUDA": str(torch.version.cuda), "cuDNN": str(cudnn),
    }  # fmt: skip


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--launches", type=Path, help="folder of FlashAttention-4's launches")
    parser.add_argument("--tutorial", type=Path, help="Triton's attention, a Python file")
    stem = Path("out/attention_times")
    parser.add_argument("--out", type=Path, default=stem, help="files: this with .json and .md")
    parser.add_argument("--only", default="", help="regular expression over problem names")
    parser.add_argument("--runners", default=".*", help="regular expression over their names")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--warm", action="store_true", help="leave the L2 as it is between runs")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="begin nothing after them")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 when a result was wrong, 2 without a Hopper GPU."""
    asked, start = parse(arguments), time.monotonic()
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("attention_times needs a GPU of compute capability 9.0 (H100, H200) and torch for it")
        return 2
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    log, flush = ClockLog(), Flush(not asked.warm)
    everyone = runners(asked.launches, asked.tutorial)
    offered = {name: run for name, run in everyone.items() if re.fullmatch(asked.runners, name)}
    found: dict[str, Any] = {
        "card": card(), "versions": versions(), "rounds": asked.rounds, "cold": not asked.warm,
        "copy_gb_s": copy_rate(flush, asked.rounds), "rows": [],
    }  # fmt: skip
    for problem in TABLE:
        if not re.search(asked.only, problem.name):
            continue
        if time.monotonic() - start > asked.seconds:
            print(f"out of time before {problem.name}")
            break
        row = row_of(problem, offered, asked.rounds, flush, log)
        found["rows"].append(row)
        parts = [f"{name} {result['ms']:.4f}" for name, result in row["results"].items()]
        print(f"{time.monotonic() - start:5.0f} s {problem.name}: {', '.join(parts)}", flush=True)
        asked.out.with_suffix(".json").write_text(json.dumps(found) + "\n")
        asked.out.with_suffix(".md").write_text(render(found))
    log.close()
    reasons = [reason for row in found["rows"] for reason in row["refused"].values()]
    return int(any(reason.startswith("wrong") for reason in reasons))


if __name__ == "__main__":
    raise SystemExit(main())
