"""Records launches of quack's GEMM for Hopper where the CuTe DSL is; no GPU needed.

    CUTE_DSL_ARCH=sm_90a python -m benchmarks.timing.record_gemm FOLDER

As `benchmarks.hopper.times.record_fa4`: PyPI ``quack-kernels`` is asked as on a GPU of 132 SMs, and
what would be launched is kept. `benchmarks.timing.cycles` makes the launches on a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Final

import torch

import sm100sim
from benchmarks.foreign.torch_on_host import cuda_tensors_on_host
from benchmarks.hopper.times.record_fa4 import ALIGNMENT, APART, SMS, overheard, recorded, side_of
from benchmarks.hopper.times.recorded import Recorded, save
from benchmarks.timing.gemms import LADDER, Gemm
from sm100sim.launch_request import LaunchRequest

ELEMENT: Final = 2
Tensors = dict[str, torch.Tensor]


def untouched(gemm: Gemm, apart: int) -> Tensors:
    """Tensors in memory that is not written, `apart` bytes between them."""
    spans, at = {}, 0
    for name, shape in gemm.shapes().items():
        spans[name] = (at, at + prod(shape) * ELEMENT)
        at += -(-prod(shape) * ELEMENT // ALIGNMENT) * ALIGNMENT + apart
    arena = torch.empty(at + ALIGNMENT, dtype=torch.uint8)
    start = -arena.data_ptr() % ALIGNMENT
    return {
        name: arena[start + first : start + last].view(torch.bfloat16).view(gemm.shapes()[name])
        for name, (first, last) in spans.items()
    }


@contextmanager
def launches_of(gemm: Gemm, tensors: Tensors) -> Iterator[tuple[LaunchRequest, dict[str, bytes]]]:
    """The launch that quack asks for, which is not made, and cubins by PTX.

    Raises:
        ValueError: it asks for another number of launches than one.
    """
    os.environ["QUACK_CACHE_ENABLED"] = "0"  # its cached objects come without PTX
    from quack.gemm import gemm as quack_gemm

    a, b, out = (tensors[name] for name in ("a", "b", "out"))
    with cuda_tensors_on_host(SMS, claim_cuda=True), overheard() as (requests, cubins):
        quack_gemm(a, b, out, None, None, *gemm.tile, *gemm.cluster, pingpong=gemm.pingpong)
    if len(requests) != 1:
        raise ValueError(f"{gemm.name}: {len(requests)} launches; one can be recorded")
    yield requests[0], cubins


def record(gemm: Gemm, cubins: dict[str, bytes]) -> tuple[Recorded, str, bytes]:
    """What to store: the launch, its image's name, and the image. `cubins` are kept by PTX."""
    sides = []
    for apart in APART:
        tensors = untouched(gemm, apart)
        with launches_of(gemm, tensors) as (request, found):
            cubins |= found
            sides.append(side_of(request, tensors))
    cubin = cubins[request.ptx]
    image = hashlib.sha256(cubin).hexdigest()[:16] + ".cubin"
    return recorded(request, image, *sides), image, cubin


def main() -> None:
    """Record the ladder and say what could not be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    warnings.simplefilter("ignore")
    sm100sim.activate(sm_count=SMS)
    launches, images, cubins = {}, {}, dict[str, bytes]()
    for gemm in LADDER:
        try:
            launches[gemm.name], image, images[image] = record(gemm, cubins)
        except Exception as error:  # the others are recorded
            print(f"{gemm.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    save(folder, launches, images)
    size = sum(map(len, images.values()))
    print(f"{len(launches)} launches, {len(images)} cubins, {size:,} bytes")


if __name__ == "__main__":
    main()
