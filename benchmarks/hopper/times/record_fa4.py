"""Records the launches of FlashAttention-4's Hopper kernel, where the CuTe DSL is; no GPU needed.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.hopper.times.record_fa4 FOLDER [--only REGEX]

PyPI ``flash-attn-4`` is asked for each problem as on a GPU of 132 SMs. The simulator's runtime
hands over what would be launched, and nothing is executed. Tensors are addresses only: memory that
is never touched.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch

import sm100sim
from benchmarks.foreign.torch_on_host import cuda_tensors_on_host
from benchmarks.hopper.times.problems import TABLE, Problem
from benchmarks.hopper.times.recorded import Recorded, Side, places_of, save
from benchmarks.hopper.times.tensors import dtype_of, shapes
from sm100sim.host.activation import runtime
from sm100sim.launch_request import LaunchRequest

SMS: Final = 132
"""Streaming multiprocessors of an H100 SXM and an H200."""
ALIGNMENT: Final = 1024
COMPUTED: Final = {"slopes"}
"""Tensors that its kernels compute instead."""
APART: Final = (0, 4096)
"""Bytes between two tensors, of the two recordings of a problem."""
MAP_BYTES, MAP_NEEDED = 128, 64
"""Of a tensor map; what follows is private to the driver and may be anything."""
Tensors = dict[str, torch.Tensor]


def untouched(problem: Problem, apart: int) -> Tensors:
    """Tensors of the problem's shapes in memory that is not written, `apart` bytes between them."""
    found: Tensors = {}
    places = {}
    at = 0
    for name, shape in shapes(problem).items():
        size = math.prod(shape) * dtype_of(problem, name).itemsize
        places[name] = (at, at + size)
        at += -(-size // ALIGNMENT) * ALIGNMENT + apart
    arena = torch.empty(at + ALIGNMENT, dtype=torch.uint8)
    start = -arena.data_ptr() % ALIGNMENT
    for name, (first, last) in places.items():
        part = arena[start + first : start + last].view(dtype_of(problem, name))
        found[name] = part.view(shapes(problem)[name])
    return found


def ask(problem: Problem, tensors: Tensors, **more: Any) -> None:
    """Call the package's forward function, with ``more`` of its options."""
    from flash_attn.cute.interface import _flash_attn_fwd

    # It imports the DSL, which comes after the simulator's runtime.
    from benchmarks.hopper.times import fa4_functions

    p, t = problem, tensors
    options: dict[str, Any] = {"causal": p.causal, "out": t["out"], **more}
    if p.window is not None:
        options |= {"causal": False, "window_size_left": p.window, "window_size_right": 0}
    if p.softcap:
        options["softcap"] = p.softcap
    if p.sink:
        options["learnable_sink"] = t["sink"]
    if p.added == "alibi":
        options["score_mod"] = fa4_functions.alibi_of(p.heads)
    if p.added == "bias":
        options |= {"score_mod": fa4_functions.add_bias, "aux_tensors": [t["bias"]]}
    if p.page:
        options |= {"page_table": t["table"], "seqused_k": t["lengths"]}
    if p.packed:
        options |= {"cu_seqlens_q": t["starts"], "cu_seqlens_k": t["starts"]}
        options |= {"max_seqlen_q": p.seqlen_q, "max_seqlen_k": p.seqlen_k}
    _flash_attn_fwd(t["q"], t["k"], t["v"], **options)


@contextmanager
def overheard() -> Iterator[tuple[list[LaunchRequest], dict[str, bytes]]]:
    """Launches that the body asks for, which are not made, and cubin by PTX."""
    requests: list[LaunchRequest] = []
    cubins: dict[str, bytes] = {}
    catalogue, launcher = runtime().catalogue, runtime().launcher
    add = catalogue.add

    def remember(cubin: bytes, ptx: str) -> None:
        cubins[ptx] = cubin
        add(cubin, ptx)

    def hear(request: LaunchRequest) -> Any:
        requests.append(request)
        return SimpleNamespace(instructions=0, findings=())

    catalogue.add = remember  # type: ignore[method-assign]  # for the recording only
    runtime().launcher = hear
    try:
        yield requests, cubins
    finally:
        catalogue.add = add  # type: ignore[method-assign]  # for the recording only
        runtime().launcher = launcher


def side_of(request: LaunchRequest, tensors: Tensors) -> Side:
    """Parameters with what a tensor map needs of its bytes, and addresses."""
    params = tuple(
        raw[:MAP_NEEDED] + bytes(MAP_NEEDED) if len(raw) == MAP_BYTES else raw
        for raw in map(bytes, request.params)
    )
    return params, {name: tensor.data_ptr() for name, tensor in tensors.items()}


def recorded(request: LaunchRequest, image: str, first: Side, second: Side) -> Recorded:
    """What to store of a launch.

    Raises:
        ValueError: a parameter moves with no tensor, or a tensor is in no parameter.
    """
    places = places_of(first, second)
    missing = first[1].keys() - {place.tensor for place in places} - COMPUTED
    if missing:
        raise ValueError(f"no parameter has the address of {', '.join(sorted(missing))}")
    return Recorded(
        request.kernel, image, request.grid, request.block, request.cluster, request.smem_bytes,
        first[0], tuple(places),
    )  # fmt: skip


class Recorder:
    """Launches by problem, and the images that they need.

    Attributes:
        ptx: PTX of each image, for whoever runs it on the simulator.
    """

    def __init__(self) -> None:
        """Nothing recorded."""
        self.launches: dict[str, Recorded] = {}
        self.images: dict[str, bytes] = {}
        self.ptx: dict[str, str] = {}
        self._cubins: dict[str, bytes] = {}

    def add(self, problem: Problem) -> None:
        """Record a problem.

        Raises:
            Exception: what the package raises for a problem that it does not have.
            ValueError: it makes another number of launches than one.
        """
        sides = []
        for apart in APART:
            tensors = untouched(problem, apart)
            with cuda_tensors_on_host(SMS, claim_cuda=True), overheard() as (requests, cubins):
                ask(problem, tensors)
            self._cubins |= cubins
            if len(requests) != 1:
                raise ValueError(f"{len(requests)} launches; one can be recorded")
            (request,) = requests
            sides.append(side_of(request, tensors))
        cubin = self._cubins[request.ptx]
        image = hashlib.sha256(cubin).hexdigest()[:16] + ".cubin"
        self.launches[problem.name] = recorded(request, image, *sides)
        self.images[image] = cubin
        self.ptx[image] = request.ptx


def main() -> None:
    """Record the table and say what could not be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="regular expression over problem names")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sm100sim.activate(sm_count=SMS)
    recorder = Recorder()
    for problem in TABLE:
        if re.search(arguments.only, problem.name):
            try:
                recorder.add(problem)
            except Exception as error:
                print(f"{problem.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    save(arguments.folder, recorder.launches, recorder.images)
    size = sum(map(len, recorder.images.values()))
    print(f"{len(recorder.launches)} launches, {len(recorder.images)} cubins, {size:,} bytes")


if __name__ == "__main__":
    main()
