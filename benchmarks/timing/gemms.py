"""GEMMs of quack that are recorded, timed and predicted: a problem in several tiles, and others.

CTAs are persistent and taken to be alike: the first cluster is executed, which has as many tiles as
any. No GPU is needed for that, and no compiler for the problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sm100sim.timing.records import LaunchTrace

ARCH: Final = "sm_90a"
NINE: Final = 0.9
"""The part of cases that the stated error holds for."""
PAIRS_AT_LEAST: Final = 2


@dataclass(frozen=True)
class Gemm:
    """D = A B' in bf16 with sums in f32: A is (m, k), B (n, k), all rows contiguous.

    Attributes:
        tile, cluster: rows and columns of D of a CTA, and CTAs of a cluster.
        pingpong: two warp groups take turns with whole tiles.
    """

    m: int
    n: int
    k: int
    tile: tuple[int, int]
    cluster: tuple[int, int] = (1, 1)
    pingpong: bool = False

    @property
    def name(self) -> str:
        """Unique: sizes, tile, cluster."""
        turns = "-pingpong" if self.pingpong else ""
        (rows, columns), (x, y) = self.tile, self.cluster
        return f"gemm-{self.m}x{self.n}x{self.k}-tile{rows}x{columns}-cluster{x}x{y}{turns}"

    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shape by tensor."""
        return {"a": (self.m, self.k), "b": (self.n, self.k), "out": (self.m, self.n)}


LADDER: Final = (
    Gemm(4096, 4096, 4096, (128, 64)),
    Gemm(4096, 4096, 4096, (128, 128)),
    Gemm(4096, 4096, 4096, (128, 128), pingpong=True),
    Gemm(4096, 4096, 4096, (128, 192)),
    Gemm(4096, 4096, 4096, (128, 256)),
    Gemm(4096, 4096, 4096, (256, 128)),
    Gemm(4096, 4096, 4096, (128, 256), (2, 1)),
    Gemm(4096, 4096, 1024, (128, 256), (2, 1)),
    Gemm(2048, 2048, 8192, (128, 128), (2, 1)),
    Gemm(8192, 8192, 2048, (128, 256), (2, 1)),
)
"""One problem in tiles of growing size, and other shapes."""


def trace_of(gemm: Gemm, cubins: dict[str, bytes]) -> LaunchTrace:
    """What the CTAs of a GEMM execute; cubins are kept by PTX, since quack compiles a kernel once.

    Raises:
        ValueError: no assembler here makes the machine code that quack launches.
        Unmatched: no way through the machine code agrees with what a warp did.
    """
    from benchmarks.timing.attention_traces import code_of
    from benchmarks.timing.record_gemm import launches_of, untouched
    from sm100sim.crew.recording import recording
    from sm100sim.options import RunOptions
    from sm100sim.run import run
    from sm100sim.timing.sass.trace import traced

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
