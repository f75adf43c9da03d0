"""Traces of attention: what the warps of this package's kernels and FlashAttention-4's execute.

Needs the CuTe DSL, for FlashAttention-4 also `CUTE_DSL_ARCH`; no GPU. Of a launch only CTAs
that differ are executed: without a mask they are alike, with one those of a head differ, and heads
and sequences repeat them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import log2, prod
from pathlib import Path
from typing import Any, Final
from unittest import mock

import fa4_cute
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.record_fa4 import ask, overheard
from benchmarks.hopper.times.tensors import make
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.compile import cache
from fa4_cute.host.run import compute
from fa4_cute.host.run.launch import pack_launch
from fa4_cute.plan.launch.launch import plan_launch
from sm100sim.crew.recording import Recording, recording
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.run import run
from sm100sim.timing.records import LaunchTrace, SassKernel
from sm100sim.timing.sass.lines import compiled, of_cubin
from sm100sim.timing.sass.tools import tool
from sm100sim.timing.sass.trace import traced

L2_BYTES: Final = 50 << 20
ASSEMBLERS: Final = ("triton/backends/*/bin/ptxas*", "nvidia/*/bin/ptxas")
Grid = tuple[int, int, int]


class Tracer:
    """Makes traces for an architecture on GPUs of `sms` SMs; keeps the machine code it has seen."""

    def __init__(self, arch: str, sms: int, **options: Any) -> None:
        """Nothing seen; `ptx`: runner -> the module that it launched last.

        Args:
            arch: of the code. sms: of the GPU.
            options: of each call of this package, where its own choice is not wanted.
        """
        self.ptx: dict[str, str] = {}
        self._arch, self._sms, self._options = arch, sms, options
        self._cubins: dict[str, bytes] = {}
        self._kernels: dict[tuple[str, str], SassKernel] = {}
        self._assembler = ""

    def of(
        self,
        runner: str,
        problem: Problem,
        rewrite: Callable[[str], str] | None = None,
        ptxas: str = "",
    ) -> LaunchTrace:
        """Return the trace of a problem's launch by "fa4_cute" or "FA4".

        Args:
            runner: who launches. problem: what.
            rewrite: changes FlashAttention-4's PTX; the assembler that made the last cubin makes
                machine code of it.
            ptxas: path of an assembler that makes the machine code instead of the runner's.

        Raises:
            Exception: what the runner raises for a problem that it does not have.
            ValueError: no assembler here makes the machine code that the runner launches.
        """
        steps = self._ours(problem) if runner == "fa4_cute" else self._theirs(problem, rewrite)
        request = steps.request
        self.ptx[runner] = request.ptx
        key = (request.ptx, ptxas)
        if key not in self._kernels:
            self._kernels[key] = self._code(request, ptxas)
        return repeated(traced(self._kernels[key], steps), problem, self._sms)

    def _code(self, request: LaunchRequest, ptxas: str) -> SassKernel:
        if ptxas or request.ptx not in self._cubins:
            maker = ptxas or self._assembler or None
            return compiled(request.ptx, self._arch, request.kernel, ptxas=maker)
        cubin = self._cubins[request.ptx]
        found, self._assembler = code_of(cubin, request.ptx, self._arch, request.kernel)
        return found

    def _ours(self, problem: Problem) -> Recording:
        tensors = make(problem, "cpu")
        q, k, v = (tensors[name] for name in "qkv")
        few = partial(pack_launch, num_sms=self._sms)
        options = {"causal": problem.causal, "arch": self._arch, **self._options}
        asked = request((q, k, v), *options_and_batch(options)).problem
        spec = require(choose(asked)).spec
        plan = plan_launch(spec, asked.sizes, asked.scale, num_sms=self._sms)
        which = chosen(problem, plan.grid, self._sms, prod(plan.cluster))
        with (
            self._noted(),
            mock.patch.object(compute, "pack_launch", few),
            recording(which, others=False) as launches,
            fa4_cute.simulator_options(mode="fast", checks="none"),
        ):
            fa4_cute.flash_attn(q, k, v, out=tensors["out"], **options)
        (found,) = launches
        return found

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Keep the cubins of kernels that are asked for."""
        compile_: Callable[[Any], Any] = cache.compiled

        def noted(spec: Any) -> Any:
            artifact = compile_(spec)
            self._cubins[artifact.ptx] = artifact.cubin
            return artifact

        with mock.patch.object(cache, "compiled", noted):
            yield

    def _theirs(self, problem: Problem, rewrite: Callable[[str], str] | None) -> Recording:
        from benchmarks.foreign.torch_on_host import cuda_tensors_on_host

        tensors = make(problem, "cpu")
        with cuda_tensors_on_host(self._sms, claim_cuda=True), overheard() as (requests, cubins):
            ask(problem, tensors)
        self._cubins |= cubins
        (request,) = requests
        if rewrite is not None:
            request = replace(request, ptx=rewrite(request.ptx))
        which = chosen(problem, request.grid, self._sms, prod(request.cluster))
        with recording(which, others=False) as launches:
            run(request, RunOptions(mode="fast"))
        (found,) = launches
        return found


def assemblers() -> Sequence[str]:
    """The assemblers of this machine: of each Triton, of packages, and the path's."""
    found = [path for root in sys.path for kind in ASSEMBLERS for path in Path(root).glob(kind)]
    return [*sorted(map(str, found)), tool("ptxas")]


def code_of(cubin: bytes, ptx: str, arch: str, kernel: str) -> tuple[SassKernel, str]:
    """The machine code of a cubin that is launched, and the assembler here that makes it.

    Raises:
        ValueError: none does.
    """
    refused = []
    for ptxas in assemblers():
        try:
            return of_cubin(cubin, ptx, arch, kernel, ptxas=ptxas), ptxas
        except ValueError as error:
            refused.append(str(error))
    raise ValueError("; ".join(refused))


def chosen(problem: Problem, grid: Grid, sms: int, cluster: int = 1) -> Sequence[int]:
    """Clusters of so many CTAs to execute: one, those of a head, or four persistent ones.

    Without a mask clusters are alike.
    """
    if prod(grid) <= sms:
        return persistent(prod(grid) // cluster)
    if not problem.causal:
        return [0]
    if len(_beyond_one(grid)) > 1:
        return range(0, grid[0] * grid[1], grid[0])
    return [tile * section(problem) for tile in range(tiles(problem, grid))]


def persistent(clusters: int) -> list[int]:
    """Clusters of which the busiest stands for all, where they take tiles in turn.

    This package's go backwards every other time, so the first or the last one has as many tiles as
    any. Where a head's tiles divide the clusters, those two have all of its short last tiles (a
    quarter less work than the mean at head dim 64 with 1,024 keys), and their neighbours none.
    """
    return sorted({0, 1, clusters - 2, clusters - 1} & {*range(clusters)})


def _beyond_one(grid: Grid) -> list[int]:
    return [extent for extent in grid if extent > 1]


def tiles(problem: Problem, grid: Grid) -> int:
    """Query tiles of a head in a launch that is not persistent."""
    return prod(grid) // (problem.batch * problem.heads)


def section(problem: Problem) -> int:
    """Heads whose longest tiles come first, then their second longest: FlashAttention-4's order.

    As many heads, a power of two, as have their keys and values in 50 MiB of L2; the recorded
    launches confirm it.
    """
    head = problem.seqlen_k * (problem.head_dim + problem.head_dim_v) * 2
    return min(1 << int(log2(max(L2_BYTES // head, 1))), problem.batch * problem.heads)


def place(problem: Problem, grid: Grid, number: int) -> int:
    """The executed cluster that one is like, where they are not persistent."""
    if not problem.causal:
        return 0
    if len(_beyond_one(grid)) > 1:
        return number // grid[0] % grid[1] * grid[0]  # heads of a section, query tiles, the rest
    heads, of_a_head = section(problem), tiles(problem, grid)
    which, inside = divmod(number, heads * of_a_head)
    # The last section has the heads that are left: 16 of 80 where whole ones have 32.
    here = min(heads, problem.batch * problem.heads - which * heads)
    return inside // here * heads


def repeated(launch: LaunchTrace, problem: Problem, sms: int) -> LaunchTrace:
    """Return a launch whose traces stand for all clusters."""
    if prod(launch.grid) <= sms:
        return busiest(launch)
    like: dict[int, list[int]] = {}
    for number in range(prod(launch.grid) // prod(launch.cluster)):
        like.setdefault(place(problem, launch.grid, number), []).append(number)
    traces = [
        replace(trace, clusters=tuple(n for first in trace.clusters for n in like.get(first, ())))
        for trace in launch.traces
    ]
    return replace(launch, traces=tuple(trace for trace in traces if trace.clusters))


def busiest(launch: LaunchTrace) -> LaunchTrace:
    """Return a launch whose clusters are all like the one that executes most."""
    most = max(launch.traces, key=lambda trace: trace.instructions)
    every = range(prod(launch.grid) // prod(launch.cluster))
    return replace(launch, traces=(replace(most, clusters=tuple(every)),))
