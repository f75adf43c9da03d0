"""Compiles the Hopper examples of NVIDIA/cutlass for a case and asks for its launch.

``SM100SIM_CUTLASS`` names a checkout (`benchmarks.foreign.cutlass_examples`); it is not here.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import ModuleType
from typing import Any

import torch

from benchmarks.foreign.cutlass_examples import CHECKOUT_VARIABLE, FOLDERS, checkout
from benchmarks.timing.judges.cases import DENSE, FMHA, NORM, PERSISTENT, Case
from benchmarks.timing.judges.problems import EPSILON, Attention, Tensors

FILES = {
    DENSE: "dense_gemm/dense_gemm.py", PERSISTENT: "dense_gemm/dense_gemm_persistent.py",
    FMHA: "attention/fmha.py", NORM: "cta_norm/cta_norm.py",
}  # fmt: skip
LOG2_E = 1.4426950408889634


@cache
def example(family: str) -> ModuleType:
    """The example of a family, as a module.

    Raises:
        FileNotFoundError: no checkout is named.
    """
    examples = checkout()
    if examples is None:
        raise FileNotFoundError(f"{CHECKOUT_VARIABLE} names no checkout of NVIDIA/cutlass")
    file = examples / FOLDERS["hopper"] / FILES[family]
    sys.path += [str(examples)]  # for the examples' own helpers
    spec = importlib.util.spec_from_file_location(f"cutlass_example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_compiled: dict[str, Any] = {}
"""Compiled kernels by the name of their case."""


def _call(case: Case, kernel: Any, arguments: tuple[Any, ...], static: int | None = None) -> None:
    """Compile once; `static`: an argument that is the compiler's only."""
    from cutlass import cute

    if case.name not in _compiled:
        _compiled[case.name] = cute.compile(kernel, *arguments)
    passed = [a for k, a in enumerate(arguments) if k != static]
    _compiled[case.name](*passed)


def _stream() -> Any:
    import cuda.bindings.driver as cuda

    return cuda.CUstream(0)


def _cute(tensor: torch.Tensor, leading: int) -> Any:
    from cutlass.cute.runtime import from_dlpack

    return from_dlpack(tensor, assumed_align=16).mark_layout_dynamic(leading_dim=leading)


def _product(case: Case, t: Tensors) -> None:
    import cutlass

    module, tile, cluster = example(case.family), case.options["tile"], case.options["cluster"]
    tensors = tuple(_cute(t[n][:, :, None], 1) for n in ("a", "b", "out"))
    if case.family == DENSE:
        kernel = module.HopperWgmmaGemmKernel(cutlass.Float32, tile, cluster)
        _call(case, kernel, (*tensors, _stream()))
        return
    kernel = module.HopperWgmmaGemmPersistentKernel(cutlass.Float32, tile, cluster, 1, True)
    clusters = cutlass.utils.HardwareInfo().get_max_active_clusters(cluster[0] * cluster[1])
    _call(case, kernel, (*tensors, clusters, _stream()), static=len(tensors))


def _attention(case: Case, t: Tensors) -> None:
    import cutlass

    p, module = case.problem, example(case.family)
    assert isinstance(p, Attention)
    rows = [t[n].permute(1, 3, 2, 0)[:, :, None] for n in ("q", "k", "v", "out")]
    sums = t["lse"].permute(1, 3, 2, 0)[:, :, None]
    mask = module.fmha_utils.MaskEnum.WINDOW_MASK
    kernel = module.HopperFusedMultiHeadAttentionForward(
        cutlass.Float32, cutlass.Float32, (*case.options["tile"], p.dim),
        case.options["persistent"], mask,
    )  # fmt: skip
    scale = p.dim**-0.5
    tensors = (*(_cute(r, 1) for r in rows), _cute(sums, 1))
    _call(case, kernel, (*tensors, scale * LOG2_E, scale, 1.0, None, None, _stream()))


def _layer_norm(case: Case, t: Tensors) -> None:
    from cutlass.cute.runtime import from_dlpack

    kernel = example(case.family).CtaNorm(t["x"].shape[1], "layer", case.options["threads"])
    named = ("out", "x", "weight", "bias")
    _call(case, kernel, (*(from_dlpack(t[n], assumed_align=16) for n in named), EPSILON))


PROGRAMS = {DENSE: _product, PERSISTENT: _product, FMHA: _attention, NORM: _layer_norm}
"""Asks for a case's launch, by family."""
