"""Attention of Modular and of CUTLASS: programs that launch on the stand-in of the driver.

Modular's of PyPI `max-core` are built by `benchmarks.originals.programs`; CUTLASS's is the kernel
of example 77 in a checkout that ``SM100SIM_CUTLASS`` names, built by nvcc. Neither is here.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.foreign.cutlass_examples import CHECKOUT_VARIABLE
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.tensors import Tensors
from benchmarks.originals.inputs import save
from benchmarks.originals.programs import FOLDER, built, installed
from sm100sim.command.program import run_program
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions, run_options
from sm100sim.run import before_launch

Hear = Callable[[LaunchRequest], Any]
RELEASE: Final = "26.7"
MODULAR_DIMS: Final = (64, 128, 256, 512)
CUTLASS_DIMS: Final = (64, 128)
LATENT: Final = (576, 512)
"""Columns of the keys of latent attention, the first of which are the values."""
SOURCE: Final = Path(__file__).with_name("cutlass_fmha.cu")
EXAMPLE: Final = "examples/77_blackwell_fmha"
INCLUDED: Final = ("include", "tools/util/include", "examples/common", EXAMPLE)
STUB: Final = "".join(
    f"int {name}(void) {{ return 1; }}\n" for name in ("cuGetErrorString", "cuTensorMapEncodeTiled")
)
"""What it calls of the driver; the simulator brings the one that runs."""


def launched(words: Sequence[str], hear: Hear) -> None:
    """Run a program; of its launches those with MMAs are heard, and then one cluster runs.

    Raises:
        ValueError: the program fails.
    """
    busy: list[bool] = []

    def seen(request: LaunchRequest, given: RunOptions) -> tuple[LaunchRequest, RunOptions]:
        if busy or "tcgen05.mma" not in request.ptx:
            return request, given
        busy.append(True)
        hear(request)
        busy.clear()
        return replace(request, grid=request.cluster), given

    with before_launch(seen, everywhere=True), run_options(everywhere=True, mode="fast", checks=0):
        ended = run_program(words)
    if ended:
        raise ValueError(f"{Path(words[0]).name}: exit code {ended}")


def modular(problem: Problem, tensors: Tensors, hear: Hear) -> None:
    """Attention of Modular's public entry points, as they choose for the problem.

    Raises:
        NotImplementedError: no program here asks for it. ValueError: it fails.
    """
    p, scale = problem, repr(problem.head_dim**-0.5)
    sizes: tuple[int, ...] = (p.batch, p.seqlen_q, p.seqlen_k)
    latent = (p.head_dim, p.head_dim_v) == LATENT
    if p.page or p.packed or (not latent and p.head_dim not in MODULAR_DIMS):
        raise NotImplementedError("asked for without pages and packing at 64, 128, 256, 512, MLA")
    if not installed(RELEASE):
        raise FileNotFoundError("max-core: python -m benchmarks.originals --install")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if latent:
            save(folder, q=tensors["q"][:, 0], cache=tensors["k"][:, :, 0])
            program, sizes = built(RELEASE, "decode", {"heads": p.heads}), (p.batch, p.seqlen_k)
        else:
            save(folder, **{tensor: tensors[tensor] for tensor in "qkv"})
            defines = {"depth": p.head_dim, "heads": p.heads, "kv_heads": p.heads_kv,
                       "mask": int(not p.causal)}  # fmt: skip
            if p.dtype == "fp8":
                defines["fp8"] = 1
            program = built(RELEASE, "dense", defines)
        launched([str(program), name, *map(str, sizes), scale], hear)


def cutlass(problem: Problem, tensors: Tensors, hear: Hear) -> None:
    """Attention by the kernel of CUTLASS's example 77.

    Raises:
        NotImplementedError: it has no kernel for the problem. ValueError: it fails.
    """
    p = problem
    if p.page or p.seqlen_q != p.seqlen_k or p.head_dim != p.head_dim_v or (
        p.head_dim not in CUTLASS_DIMS
    ):  # fmt: skip
        raise NotImplementedError("asked for as many queries as keys, without pages, at 64 and 128")
    element = "float_e4m3_t" if p.dtype == "fp8" else "bfloat16_t"
    program = _built(
        {"DIM": p.head_dim, "CAUSAL": int(p.causal), "PACKED": int(p.packed), "ELEMENT": element}
    )
    lengths = tensors["starts"].diff().tolist() if p.packed else [p.seqlen_k] * p.batch
    launched([str(program), *map(str, (p.heads, p.heads_kv, *lengths))], hear)


def _built(defines: Mapping[str, object]) -> Path:
    """CUTLASS's program, compiled if it is not there: a minute of one core.

    Raises:
        FileNotFoundError: no checkout is named. subprocess.CalledProcessError: nvcc refuses it.
    """
    checkout = os.environ.get(CHECKOUT_VARIABLE)
    if checkout is None:
        raise FileNotFoundError(f"{CHECKOUT_VARIABLE} names no checkout of NVIDIA/cutlass")
    program = FOLDER / "cutlass" / "-".join(map(str, ("fmha", *defines.values())))
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        driver = program.parent / "libcuda.so"
        subprocess.run(
            ["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", str(driver)],
            input=STUB.encode(), check=True,
        )  # fmt: skip
        unfinished = program.with_suffix(".unfinished")
        subprocess.run(
            ["nvcc", "-O3", "-std=c++17", "--expt-relaxed-constexpr", "--no-compress",
             "-gencode", "arch=compute_100a,code=compute_100a", "-cudart", "shared",
             *(f"-I{Path(checkout, folder)}" for folder in INCLUDED),
             *(f"-D{name}={value}" for name, value in defines.items()), str(SOURCE),
             f"-L{driver.parent}", "-lcuda", "-o", str(unfinished)],
            check=True,
        )  # fmt: skip
        unfinished.rename(program)
    return program
