"""Who computes a problem: this package, torch's backends, recorded and Triton kernels.

A runner takes a problem and its tensors and gives a function that writes ``tensors["out"]``, or
raises with the reason why it cannot.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.hopper.times.launcher import Launcher
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.recorded import load
from benchmarks.hopper.times.tensors import visible

Tensors = dict[str, torch.Tensor]
Call = Callable[[], Any]
Runner = Callable[[Problem, Tensors], Call]
OURS = "fa4_cute"
RECORDED = "FA4"
"""Its launches come from a record, so that its own Python does not run."""
TRITON = "Triton"
TUNED_DIMS, TUNED_LENGTHS = (64, 128), (1024, 4096, 16384)
"""What Triton's tutorial is asked for: it compiles and tries 28 kernels for each."""


class NotOffered(Exception):
    """The runner has nothing for the problem; the message says what is missing."""


def ours(problem: Problem, tensors: Tensors) -> Call:
    """``fa4_cute.flash_attn``, or ``flash_attn_varlen`` for packed sequences."""
    fa4_cute = importlib.import_module("fa4_cute")
    p, t = problem, tensors
    options: dict[str, Any] = {"causal": p.causal, "out": t["out"], "unchecked": True}
    if p.window is not None:
        options["window_size"] = (p.window, 0)
    if p.softcap:
        options["softcap"] = p.softcap
    if p.added == "alibi":
        options["score_mod"] = fa4_cute.score_mods.alibi(t["slopes"])
    if p.added == "bias":
        options["mask"] = fa4_cute.masks.bias(t["bias"])
    if p.sink:
        options["sink"] = t["sink"]
    if p.page:
        options |= {"page_table": t["table"], "seqused_k": t["lengths"]}
    if p.packed:
        options |= {"cu_seqlens_q": t["starts"], "cu_seqlens_k": t["starts"]}
        options |= {"max_seqlen_q": p.seqlen_q, "max_seqlen_k": p.seqlen_k}
        return partial(fa4_cute.flash_attn_varlen, t["q"], t["k"], t["v"], **options)
    return partial(fa4_cute.flash_attn, t["q"], t["k"], t["v"], **options)


def _sdpa(backend: SDPBackend, problem: Problem, tensors: Tensors) -> Call:
    """``scaled_dot_product_attention`` by one backend, on the same memory."""
    if problem.dtype != "bf16" or problem.window is not None or problem.page or problem.packed:
        raise NotOffered("scaled_dot_product_attention has no fp8, window, pages or packed rows")
    if problem.softcap or problem.sink or problem.added == "alibi":
        raise NotOffered("scaled_dot_product_attention has no softcap, slopes or sinks")
    if problem.causal and problem.seqlen_q != problem.seqlen_k:
        raise NotOffered("its causal mask is aligned to the top left")
    q, k, v = (tensors[name].transpose(1, 2) for name in ("q", "k", "v"))
    options: dict[str, Any] = {"enable_gqa": problem.heads != problem.heads_kv}
    if problem.added:
        # A causal mask is asked for in the tensor: there are no two masks at once.
        rows = torch.arange(problem.seqlen_q, device=q.device)
        hidden = ~visible(problem, rows)
        options["attn_mask"] = tensors["bias"].masked_fill(hidden, -math.inf)
    else:
        options["is_causal"] = problem.causal

    def call() -> torch.Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    tensors["out"] = call().transpose(1, 2)
    return call


def torch_varlen(problem: Problem, tensors: Tensors) -> Call:
    """FlashAttention-2 as torch offers it for packed sequences, which may have a window."""
    p, t = problem, tensors
    if not p.packed and p.window is None:
        raise NotOffered("only for packed sequences and windows")
    if p.softcap or p.sink or p.added:
        raise NotOffered("varlen_attn has no softcap, sinks, slopes or biases")
    try:
        varlen = importlib.import_module("torch.nn.attention.varlen").varlen_attn
    except (ImportError, AttributeError) as reason:
        raise NotOffered(f"torch {torch.__version__} has no varlen_attn") from reason
    left = -1 if p.window is None else p.window
    options: dict[str, Any] = {"window_size": (left, 0 if p.causal else -1)}
    if "window_size" not in inspect.signature(varlen).parameters:
        if p.window is not None:
            raise NotOffered(f"varlen_attn of torch {torch.__version__} has no window")
        options = {"is_causal": p.causal}
    q, k, v = (t[name].reshape(-1, *t[name].shape[-2:]) for name in ("q", "k", "v"))
    starts = (torch.arange(p.batch + 1, device=q.device) * p.seqlen_q).int()

    def call() -> torch.Tensor:
        found: torch.Tensor = varlen(q, k, v, starts, starts, p.seqlen_q, p.seqlen_k, **options)
        return found

    tensors["out"] = call().reshape(t["out"].shape)
    return call


def flex(problem: Problem, tensors: Tensors) -> Call:
    """torch's FlexAttention, compiled, where a function changes scores."""
    p, t = problem, tensors
    if not p.added and not p.softcap:
        raise NotOffered("asked where a function changes scores")
    module = importlib.import_module("torch.nn.attention.flex_attention")

    cap = p.softcap
    slopes, bias = (t.get(name, torch.empty(0)) for name in ("slopes", "bias"))

    def capped(score: Any, batch: Any, head: Any, row: Any, key: Any) -> Any:
        return cap * torch.tanh(score / cap)

    def sloped(score: Any, batch: Any, head: Any, row: Any, key: Any) -> Any:
        return score - slopes[head] * (row - key).abs()

    def biased(score: Any, batch: Any, head: Any, row: Any, key: Any) -> Any:
        return score + bias[0, head, row, key]

    changed = capped if cap else {"alibi": sloped, "bias": biased}[p.added]
    q, k, v = (t[name].transpose(1, 2) for name in ("q", "k", "v"))
    blocks = None
    if p.causal:
        sizes = (None, None, p.seqlen_q, p.seqlen_k)
        blocks = module.create_block_mask(lambda b, h, row, key: row >= key, *sizes)
    # Else the compiler gives up after eight problems, and the call runs uncompiled.
    torch._dynamo.reset()
    compiled = torch.compile(module.flex_attention, dynamic=False)

    def call() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = compiled(q, k, v, score_mod=changed, block_mask=blocks)
        return found

    tensors["out"] = call().transpose(1, 2)
    return call


class RecordedRunner:
    """Kernels that were compiled and whose launches were recorded elsewhere (`record_fa4.py`)."""

    def __init__(self, folder: Path) -> None:
        """Read the folder's launches."""
        self._launches = load(folder)
        self._folder = folder
        self._launcher: Launcher | None = None

    def __call__(self, problem: Problem, tensors: Tensors) -> Call:
        """The launch of the problem's name."""
        launch = self._launches.get(problem.name)
        if launch is None:
            raise NotOffered("no launch was recorded")
        self._launcher = self._launcher or Launcher(self._folder)
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        run = self._launcher.prepared(launch, addresses)

        def call() -> torch.Tensor:
            """The launch names its tensors by address only: this keeps them."""
            run(torch.cuda.current_stream().cuda_stream)
            return tensors["out"]

        return call


def triton_tutorial(file: Path) -> Runner:
    """The attention of Triton's tutorial: ``attention(q, k, v, causal, scale)`` of a module.

    It takes float16, (batch, heads, seqlen, head_dim) without gaps. All heads are those of one
    sequence for it: it finds the rows of a later sequence in the wrong place.
    """
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(problem: Problem, tensors: Tensors) -> Call:
        p = problem
        if p.group != "full" or p.head_dim not in TUNED_DIMS or p.seqlen_k not in TUNED_LENGTHS:
            raise NotOffered("asked for dense bf16 of some head dims and lengths only")
        heads = [tensors[name].half().transpose(1, 2).contiguous() for name in ("q", "k", "v")]
        q, k, v = (x.flatten(0, 1)[None] for x in heads)

        def call() -> torch.Tensor:
            found: torch.Tensor = module.attention(q, k, v, p.causal, p.head_dim**-0.5)
            return found

        tensors["out"] = call().view(heads[0].shape).transpose(1, 2)
        return call

    return run


def runners(folder: Path | None, tutorial: Path | None = None) -> Mapping[str, Runner]:
    """All runners by name; `folder` holds recorded launches, `tutorial` is Triton's."""
    found: dict[str, Runner] = {
        OURS: ours,
        "cuDNN": partial(_sdpa, SDPBackend.CUDNN_ATTENTION),
        "FA2": partial(_sdpa, SDPBackend.FLASH_ATTENTION),
        "efficient": partial(_sdpa, SDPBackend.EFFICIENT_ATTENTION),
        "FA2 varlen": torch_varlen,
        "Flex": flex,
    }
    if folder is not None:
        found[RECORDED] = RecordedRunner(folder)
    if tutorial is not None:
        found[TRITON] = triton_tutorial(tutorial)
    return found
