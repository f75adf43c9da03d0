"""Speed of the virtual SM100: seconds and warp instructions per second of whole attention calls.

``python -m benchmarks.simulator``. The target is FA4-class d128, one head, 1024 x 1024, full, in at
most 1.5 s on two cores after compilation; the last column is the ratio to that. A profile, with its
band, of one CTA of d128 with 32 key tiles is to take at most 5 s of one core.
"""

from __future__ import annotations

import platform
import resource
import statistics
import time
from pathlib import Path

import torch

import fa4_cute
import sm100sim
from benchmarks.processes import processor_seconds
from fa4_cute.host.compile import cache
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.options import Check
from sm100sim.ptx import parse

TARGET_SECONDS = 1.5
PROFILE_SECONDS = 5.0
PROFILED_KEYS = 32 * 128
REPEATS = 5
CASES: tuple[tuple[str, int, bool, dict[str, object]], ...] = (
    ("d128 full", 128, False, {}),
    ("d128 causal", 128, True, {}),
    ("d64 full", 64, False, {}),
    ("d192 full", 192, False, {}),
    ("d128 full, late", 128, False, {"mode": "late"}),
    ("d128 full, random", 128, False, {"mode": "random", "seed": 1}),
    ("d128 full, all checks", 128, False, {"checks": Check.ALL}),
)


def processor() -> str:
    """The processor's name, as the system gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def measure(head_dim: int, causal: bool, options: dict[str, object]) -> tuple[float, float, int]:
    """Median seconds of the execution and of the whole call, and the instructions of one call."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, 1024, 1, head_dim, generator=generator).bfloat16() for _ in range(3)
    )
    inside, whole, instructions = [], [], 0
    with fa4_cute.simulator_options(**options):
        fa4_cute.flash_attn(q, k, v, causal=causal)
        for _ in range(REPEATS):
            start = time.perf_counter()
            fa4_cute.flash_attn(q, k, v, causal=causal)
            whole.append(time.perf_counter() - start)
            report = fa4_cute.last_report()
            assert report is not None
            inside.append(report.seconds)
            instructions = report.instructions
    return statistics.median(inside), statistics.median(whole), instructions


def profiling() -> float:
    """Median seconds of a core that the profile of one CTA takes, its kernel being compiled."""
    q = torch.randn(1, 256, 1, 128).bfloat16()
    k, v = (torch.randn(1, PROFILED_KEYS, 1, 128).bfloat16() for _ in range(2))

    def call() -> None:
        fa4_cute.flash_attn(q, k, v)

    call()
    seconds = []
    for _ in range(REPEATS):
        before = processor_seconds()
        sm100sim.profile(call, "b200")
        seconds.append(processor_seconds() - before)
    return statistics.median(seconds)


def reading() -> tuple[float, int]:
    """Median seconds in which the PTX of d128 is read, and its instructions."""
    ptx, seconds = cache.compiled(KernelSpec.for_attention(DType.BF16, 128)).ptx, []
    for _ in range(REPEATS):
        start = time.perf_counter()
        (kernel,) = parse(ptx).kernels.values()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), len(kernel.body)


def main() -> None:
    """Print the table."""
    print(f"{processor()}, one head, 1024 x 1024, bf16, median of {REPEATS}")
    print(f"{'case':24}{'run s':>9}{'call s':>9}{'instructions':>14}{'M/s':>8}{'of target':>11}")
    for name, head_dim, causal, options in CASES:
        run, call, instructions = measure(head_dim, causal, options)
        print(
            f"{name:24}{run:9.3f}{call:9.3f}{instructions:14,}{instructions / run / 1e6:8.2f}"
            f"{call / TARGET_SECONDS:11.2f}"
        )
    spent, count = reading()
    print(f"the PTX of d128, {count:,} instructions, is read in {spent:.2f} s")
    spent = profiling()
    print(
        f"a profile of {PROFILED_KEYS} keys: {spent:.2f} s of a core, "
        f"{spent / PROFILE_SECONDS:.2f} of the target"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of this process: {peak:.2f} GiB (torch included)")


if __name__ == "__main__":
    main()
