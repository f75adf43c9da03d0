"""Launches of the cases that judge the machine: recorded for a GPU, or traced. No GPU needed.

    CUTE_DSL_ARCH=sm_90a SM100SIM_CUTLASS=CHECKOUT \\
        python -m benchmarks.timing.judges.launches FOLDER [--only REGEX]

Kernels are those of this package, of Triton, and of the Hopper examples of a checkout of
NVIDIA/cutlass. `benchmarks.timing.cycles --judges FOLDER` makes the launches on a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Final
from unittest import mock

import torch

import sm100sim
from benchmarks.foreign.torch_on_host import cuda_tensors_on_host
from benchmarks.hopper.times.record_fa4 import (
    ALIGNMENT,
    APART,
    overheard,
    recorded,
    side_of,
)
from benchmarks.hopper.times.recorded import Recorded, save
from benchmarks.timing.attention_traces import busiest, persistent
from benchmarks.timing.gemms import Gemm
from benchmarks.timing.judges import our_variants
from benchmarks.timing.judges.cases import INTEGERS, OURS, QUACK, Case
from benchmarks.timing.judges.our_variants import CAPABILITY, SMS
from benchmarks.timing.judges.problems import Attention, Bags, Paged, Product
from benchmarks.timing.judges.second_round import EVERY
from benchmarks.timing.judges.warm_round import WARM
from sm100sim.crew.recording import recording
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.run import run
from sm100sim.timing.records import Extent, LaunchTrace, SassKernel
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.tools import assembled
from sm100sim.timing.sass.trace import traced

ARCH: Final = "sm_90a"
BAGS_APART: Final = 4
"""CTAs whose bags have other rows; more of them are like these."""
Tensors = dict[str, torch.Tensor]


def tensors_of(case: Case, apart: int) -> Tensors:
    """Tensors of a case, `apart` bytes between them; what is not written lies untouched."""
    spans, at = {}, 0
    for name, shape in case.shapes().items():
        size = prod(shape) * case.dtype(name).itemsize
        spans[name] = (at, at + size)
        at += -(-size // ALIGNMENT) * ALIGNMENT + apart
    arena = torch.empty(at + ALIGNMENT, dtype=torch.uint8)
    start = -arena.data_ptr() % ALIGNMENT
    return {
        name: arena[start + first : start + last].view(case.dtype(name)).view(case.shapes()[name])
        for name, (first, last) in spans.items()
    }


def _triton(case: Case, t: Tensors) -> list[LaunchRequest]:
    from benchmarks.timing.judges.triton_programs import PROGRAMS
    from sm100sim.triton import launcher

    heard: list[LaunchRequest] = []

    def hear(request: LaunchRequest, *_: Any) -> Any:
        heard.append(request)

    clock = mock.patch("sm100sim.triton.clock.Clock.add")
    with mock.patch.object(launcher, "run", hear), clock:
        PROGRAMS[case.family](case, t)
    return heard


def triton_ptxas() -> str:
    """The assembler that Triton takes for Hopper; of its options only -O decides here."""
    from triton.backends.nvidia.compiler import get_ptxas

    return str(get_ptxas(CAPABILITY).path)


def _quack(case: Case, t: Tensors) -> tuple[LaunchRequest, bytes]:
    from benchmarks.timing.record_gemm import launches_of

    problem = case.problem
    if not isinstance(problem, Product):
        raise ValueError(f"{case.name}: not a product")
    with launches_of(Gemm(problem.m, problem.n, problem.k, **case.options), t) as (request, found):
        CUBINS.update(found)
    return request, CUBINS[request.ptx]


def heard(case: Case, t: Tensors) -> tuple[LaunchRequest, bytes]:
    """The launch that a case asks for, which is not made, and its cubin.

    Raises:
        Exception: what the program raises for a problem that it does not have.
        ValueError: it asks for another number of launches than one.
    """
    if case.family == OURS:
        found, cubins = our_variants.recorded(case, t, ())
        return found.request, cubins[found.request.ptx]
    if case.family.startswith("Triton"):
        (request,) = _triton(case, t)
        return request, assembled(request.ptx, ARCH, ptxas=triton_ptxas())
    if case.family == QUACK:
        return _quack(case, t)
    from benchmarks.timing.judges.cutlass_programs import PROGRAMS

    with cuda_tensors_on_host(SMS), overheard() as (requests, cubins):
        PROGRAMS[case.family](case, t)
    if len(requests) != 1:
        raise ValueError(f"{case.name}: {len(requests)} launches; one can be recorded")
    CUBINS.update(cubins)
    return requests[0], CUBINS[requests[0].ptx]


CUBINS: Final[dict[str, bytes]] = {}
"""What the DSL compiled, by PTX: once for each kernel, whoever asks."""


def record(case: Case) -> tuple[Recorded, str, bytes]:
    """What to store of a case: the launch, its image's name, and the image."""
    sides = []
    for apart in APART:
        t = tensors_of(case, apart)
        request, cubin = heard(case, t)
        sides.append(side_of(request, t))
    image = hashlib.sha256(cubin).hexdigest()[:16] + ".cubin"
    return recorded(request, image, *sides), image, cubin


def period(case: Case, request: LaunchRequest) -> tuple[int, int]:
    """How far apart clusters lie that differ, and how many of them differ: those of a head.

    A mask makes them differ, and rows of queries that are no multiple of a CTA's: this package's
    last CTA of a head has fewer. Query tiles lie along the grid's first axis; over pages, where the
    heads that share keys are rows of one, along the second. Of persistent ones, as many as the SMs
    hold, the busiest of four stands for all.
    """
    problem = case.problem
    if isinstance(problem, Bags):
        return 1, BAGS_APART
    across = request.grid[0] // request.cluster[0]
    if isinstance(problem, Paged):
        return across, request.grid[1] // request.cluster[1]
    unlike = isinstance(problem, Attention) and (
        problem.causal or (case.family == OURS and problem.length % request.grid[0] > 0)
    )
    return 1, across if unlike else 1


def code_of(case: Case, request: LaunchRequest, cubin: bytes) -> SassKernel:
    """The machine code that a case launches.

    Raises:
        ValueError: no assembler here makes it.
    """
    if case.family.startswith("Triton"):
        return compiled(request.ptx, ARCH, request.kernel, ptxas=triton_ptxas())
    from benchmarks.timing.attention_traces import code_of as any_of

    return any_of(cubin, request.ptx, ARCH, request.kernel)[0]


def trace_of(case: Case) -> LaunchTrace:
    """What the clusters of a case execute, each of those that differ with those that it is like.

    Raises:
        Unmatched: no way through the machine code agrees with what a warp did.
    """
    t = tensors_of(case, 0)
    fill(case, t)
    request, cubin = heard(case, t)
    return traced_of(case, request, t, code_of(case, request, cubin))


def fill(case: Case, t: Tensors) -> None:
    """Put normal numbers into Q, K and V; what a product takes does not depend on its numbers.

    Page tables, lengths and names of rows are those of the measured launch.
    """
    for name in INTEGERS:
        if name in t:
            t[name].copy_(case.integers(name))
    if isinstance(case.problem, Attention):
        torch.manual_seed(1)
        for name in "qkv":
            t[name].normal_()


def traced_of(case: Case, request: LaunchRequest, t: Tensors, kernel: SassKernel) -> LaunchTrace:
    """What the clusters of a case's launch execute, of this machine code.

    Raises:
        Unmatched: as `trace_of`.
    """
    if prod(request.grid) <= SMS:
        count = prod(request.grid) // prod(request.cluster)
        launch = busiest(traced(kernel, executed(request, persistent(count))))
    else:
        step, apart = period(case, request)
        clusters = range(0, step * apart, step)
        launch = alike(traced(kernel, executed(request, clusters)), apart, step)
    return replace(launch, tensors=tuple(sorted(extents(t), key=lambda extent: extent.address)))


def extents(t: Tensors) -> Iterator[Extent]:
    """Where tensors lie: kernels that take pointers tell nobody."""
    for tensor in t.values():
        yield Extent(tensor.data_ptr(), tensor.nbytes, tensor.nbytes)


def executed(request: LaunchRequest, clusters: Sequence[int]) -> Any:
    """The recording of some clusters of a launch; the others are not executed."""
    with recording(clusters, others=False) as launches:
        run(request, RunOptions(mode="fast"))
    return launches[0]


def alike(launch: LaunchTrace, apart: int, step: int = 1) -> LaunchTrace:
    """Return a launch whose clusters repeat themselves after so many, of which `step` are alike."""
    every = range(prod(launch.grid) // prod(launch.cluster))
    traces = tuple(
        replace(
            trace,
            clusters=tuple(
                k for first in trace.clusters for k in every if k // step % apart == first // step
            ),
        )
        for trace in launch.traces
    )
    return replace(launch, traces=traces)


def begin() -> None:
    """Put a virtual Hopper GPU in the device's place, for the CuTe DSL and for Triton."""
    warnings.simplefilter("ignore")
    sm100sim.activate(sm_count=SMS)
    from sm100sim.triton import activate

    activate(capability=CAPABILITY, sm_count=SMS)


def asked_for(
    told: str | None, offered: Sequence[Case] = (*EVERY, *WARM)
) -> tuple[Path, list[Case]]:
    """Return the folder and the cases of the command line, whose help says what ``told`` says."""
    parser = argparse.ArgumentParser(description=(told or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="regular expression over names of cases")
    asked = parser.parse_args()
    return asked.folder, [case for case in offered if re.search(asked.only, case.name)]


def main() -> None:
    """Record the cases and say what could not be."""
    folder, cases = asked_for(__doc__)
    begin()
    launches, images = {}, {}
    for case in cases:
        try:
            launches[case.name], image, images[image] = record(case)
        except Exception as error:  # the others are recorded
            print(f"{case.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    save(folder, launches, images)
    size = sum(map(len, images.values()))
    print(f"{len(launches)} launches, {len(images)} cubins, {size:,} bytes")


if __name__ == "__main__":
    main()
