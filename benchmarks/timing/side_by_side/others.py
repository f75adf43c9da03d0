"""Attention of Modular, of CUTLASS and of Gluon: none of it is here. TIRx's is in `tirx`.

Modular's of PyPI `max-core` are built by `benchmarks.originals.programs`; CUTLASS's is the kernel
of example 77 in a checkout that ``SM100SIM_CUTLASS`` names, built by nvcc: programs that launch on
the stand-in of the driver. Gluon's is the example of a checkout that ``SM100SIM_GLUON`` names, on
the Triton of its time, which PYTHONPATH names.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

import sm100sim.triton
from benchmarks.foreign.cutlass_examples import CHECKOUT_VARIABLE
from benchmarks.foreign.torch_on_host import cuda_tensors_on_host
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.tensors import Tensors
from benchmarks.originals.inputs import WRITERS, save
from benchmarks.originals.programs import FOLDER, built, installed
from sm100sim.command.program import run_program
from sm100sim.crew.recording import recording
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions, run_options
from sm100sim.run import before_launch
from testing.arguments import Arguments

Hear = Callable[[LaunchRequest], Any]
RELEASE: Final = "26.7"
MODULAR_DIMS: Final = (64, 128, 256, 512)
CUTLASS_DIMS: Final = (64, 128)
LATENT: Final = (576, 512)
"""Columns of the keys of latent attention, the first of which are the values."""
SOURCE: Final = Path(__file__).with_name("cutlass_fmha.cu")
EXAMPLE: Final = "examples/77_blackwell_fmha"
INCLUDED: Final = ("include", "tools/util/include", "examples/common", EXAMPLE)
GLUON: Final = "SM100SIM_GLUON"
"""The checkout of triton-lang/Triton-to-tile-IR that has Gluon's attention."""
GLUON_EXAMPLE: Final = "python/examples/gluon/01-attention-forward.py"
GLUON_RELEASE: Final = "3.6."
GLUON_DIMS: Final = (64, 128)
STUB: Final = "".join(
    f"int {name}(void) {{ return 1; }}\n" for name in ("cuGetErrorString", "cuTensorMapEncodeTiled")
)
"""What it calls of the driver; the simulator brings the one that runs."""


@contextmanager
def heard_by(hear: Hear) -> Iterator[None]:
    """Tell ``hear`` of this thread's launches, but for those that it makes itself; then they run,
    unrecorded."""
    busy: list[bool] = []

    def seen(request: LaunchRequest, given: RunOptions) -> tuple[LaunchRequest, RunOptions]:
        if not busy:
            busy.append(True)
            hear(request)
            busy.clear()
        return request, given

    with before_launch(seen), run_options(mode="fast", checks=0), recording([], others=False):
        yield


def launched(words: Sequence[str], hear: Hear, having: str = "tcgen05.mma") -> None:
    """Run a program; launches whose PTX has ``having`` are heard, and then one cluster runs.

    Raises:
        ValueError: the program fails. Exception: what stopped ``hear``.
    """
    busy: list[bool] = []
    stopped: list[Exception] = []

    def seen(request: LaunchRequest, given: RunOptions) -> tuple[LaunchRequest, RunOptions]:
        if busy or having not in request.ptx:
            return request, given
        busy.append(True)
        try:
            hear(request)
        except Exception as error:  # the program only learns that its launch failed
            stopped.append(error)
            raise
        busy.clear()
        return replace(request, grid=request.cluster), given

    with before_launch(seen, everywhere=True), run_options(everywhere=True, mode="fast", checks=0):
        ended = run_program(words)
    if stopped:
        raise stopped[0]
    if ended:
        raise ValueError(f"{Path(words[0]).name}: exit code {ended}")


def modular(problem: Problem, tensors: Tensors, hear: Hear) -> None:
    """Attention of Modular's public entry points, as they choose for the problem.

    Raises:
        NotImplementedError: no program here asks for it. ValueError: it fails.
    """
    p, scale = problem, repr(problem.head_dim**-0.5)
    sizes = [str(size) for size in (p.batch, p.seqlen_q, p.seqlen_k)]
    latent = (p.head_dim, p.head_dim_v) == LATENT
    if p.packed or (not latent and p.head_dim not in MODULAR_DIMS):
        raise NotImplementedError(
            "it has 64, 128, 256 and 512; at 192/128 positions are the same for all heads, "
            "another problem; packed sequences over pages"
        )
    if not installed(RELEASE):
        raise FileNotFoundError("max-core: python -m benchmarks.originals --install")
    heads = {"heads": p.heads, "kv_heads": p.heads_kv}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if latent:
            save(folder, q=tensors["q"][:, 0], cache=tensors["k"][:, :, 0])
            program, sizes = built(RELEASE, "decode", {"heads": p.heads}), [sizes[0], sizes[2]]
        elif p.page:
            sizes = WRITERS["paged"](folder, of_pages(problem, tensors))
            program = built(RELEASE, "paged", {"depth": p.head_dim, **heads, "page": p.page})
        else:
            save(folder, **{tensor: tensors[tensor] for tensor in "qkv"})
            defines = {"depth": p.head_dim, **heads, "mask": int(not p.causal)}
            if p.dtype == "fp8":
                defines["fp8"] = 1
            program = built(RELEASE, "dense", defines)
        # Decoding over pages may split the keys: then a second launch adds the parts.
        launched([str(program), name, *sizes, scale], hear, "" if p.page else "tcgen05.mma")


def of_pages(problem: Problem, tensors: Tensors) -> Arguments:
    """The arguments of a decoding step over pages, one query a sequence."""
    options = {
        "cu_seqlens_q": torch.arange(problem.batch + 1, dtype=torch.int32),
        "seqused_k": tensors["lengths"], "page_table": tensors["table"],
        "sink": torch.zeros(problem.heads),
    }  # fmt: skip
    return Arguments(tensors["q"][:, 0], tensors["k"], tensors["v"], options)


def cutlass(problem: Problem, tensors: Tensors, hear: Hear) -> None:
    """Attention by the kernel of CUTLASS's example 77.

    Raises:
        NotImplementedError: it has no kernel for the problem. ValueError: it fails.
    """
    p = problem
    if p.page or p.seqlen_q != p.seqlen_k or p.head_dim != p.head_dim_v or (
        p.head_dim not in CUTLASS_DIMS
    ):  # fmt: skip
        raise NotImplementedError("example 77 has as many queries as keys, no pages, 64 and 128")
    element = "float_e4m3_t" if p.dtype == "fp8" else "bfloat16_t"
    program = _built(
        {"DIM": p.head_dim, "CAUSAL": int(p.causal), "PACKED": int(p.packed), "ELEMENT": element}
    )
    lengths = tensors["starts"].diff().tolist() if p.packed else [p.seqlen_k] * p.batch
    launched([str(program), *map(str, (p.heads, p.heads_kv, *lengths))], hear)


def gluon(problem: Problem, tensors: Tensors, hear: Hear, sms: int) -> None:
    """Attention of Gluon's example on a GPU of ``sms`` SMs.

    Raises:
        NotImplementedError: it has no kernel for the problem. FileNotFoundError: no checkout is
            named. ValueError: another release of Triton.
    """
    p = problem
    if p.page or p.packed or p.dtype != "bf16" or p.head_dim != p.head_dim_v or (
        p.head_dim not in GLUON_DIMS
    ):  # fmt: skip
        raise NotImplementedError("its tests have 16-bit numbers, no pages or packing, 64 and 128")
    sm100sim.triton.activate(sm_count=sms)
    try:
        with cuda_tensors_on_host(sms, claim_cuda=True), heard_by(hear):
            q, k, v = (tensors[name].transpose(1, 2).contiguous() for name in "qkv")
            gluon_example().attention_forward(q, k, v, p.causal, p.head_dim**-0.5)
    finally:
        sm100sim.triton.deactivate()


@cache
def gluon_example() -> ModuleType:
    """Gluon's example as a module.

    Raises:
        FileNotFoundError: no checkout is named. ValueError: another release of Triton.
    """
    checkout = os.environ.get(GLUON)
    if checkout is None:
        raise FileNotFoundError(f"{GLUON} names no checkout of triton-lang/Triton-to-tile-IR")
    triton = import_module("triton")
    if not triton.__version__.startswith(GLUON_RELEASE):
        raise ValueError(f"triton {triton.__version__}: its example needs {GLUON_RELEASE}0")
    spec = spec_from_file_location("gluon_attention", Path(checkout, GLUON_EXAMPLE))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
        compile_program(
            program, SOURCE, *(f"-I{Path(checkout, folder)}" for folder in INCLUDED),
            *(f"-D{name}={value}" for name, value in defines.items()),
        )  # fmt: skip
    return program


def compile_program(program: Path, source: Path, *options: str, arch: str = "100a") -> None:
    """Make a program of a CUDA source by nvcc, with the PTX alone in it.

    Raises:
        subprocess.CalledProcessError: nvcc refuses it.
    """
    program.parent.mkdir(parents=True, exist_ok=True)
    driver = program.parent / "libcuda.so"
    subprocess.run(
        ["cc", "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", "-", "-o", str(driver)],
        input=STUB.encode(), check=True,
    )  # fmt: skip
    unfinished = program.with_suffix(".unfinished")
    subprocess.run(
        ["nvcc", "-O3", "-std=c++17", "--expt-relaxed-constexpr", "--no-compress",
         "-gencode", f"arch=compute_{arch},code=compute_{arch}", "-cudart", "shared", *options,
         str(source), f"-L{driver.parent}", "-lcuda", "-o", str(unfinished)],
        check=True,
    )  # fmt: skip
    unfinished.rename(program)
