"""quack's GEMMs on the clocked machine.

CTAs are persistent and taken to be alike: the first cluster is executed, which has as many tiles as
any. No GPU is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import Final

from benchmarks.timing.gemms import Gemm
from sm100sim.crew.recording import recording
from sm100sim.options import RunOptions
from sm100sim.run import run
from sm100sim.timing.records import LaunchTrace
from sm100sim.timing.sass.trace import traced

ARCH: Final = "sm_90a"
NINE: Final = 0.9
"""The part of cases that the stated error holds for."""
PAIRS_AT_LEAST: Final = 2


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
            run(request, RunOptions(mode="fast"))
    launch = traced(kernel, launches[0])
    clusters = tuple(range(prod(launch.grid) // prod(launch.cluster)))
    return replace(launch, traces=(replace(launch.traces[0], clusters=clusters),))


def nine_of_ten(errors: Iterable[float]) -> float:
    """What nine of ten errors do not exceed; 0 of none."""
    ordered = sorted(errors)
    return ordered[ceil(NINE * len(ordered)) - 1] if ordered else 0.0


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
