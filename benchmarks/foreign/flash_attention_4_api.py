"""The public functions of PyPI ``flash-attn-4``, called as a GPU program calls them.

The package picks tile sizes, pair-CTA instructions and schedulers itself; tensors only claim to be
CUDA tensors (torch_on_host.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.foreign.cases import Case, Outcome, normal
from benchmarks.foreign.torch_on_host import cuda_tensors_on_host
from testing.reference.exact import attention_float64

SOURCE = "PyPI flash-attn-4"
SM_COUNT = 4
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _inputs(shape: tuple[int, int, int, int, int], batch: int = 1) -> Tensors:
    seqlen_q, seqlen_k, heads, heads_kv, dim = shape
    return (
        normal(batch, seqlen_q, heads, dim, dtype=torch.bfloat16, seed=1),
        normal(batch, seqlen_k, heads_kv, dim, dtype=torch.bfloat16, seed=2),
        normal(batch, seqlen_k, heads_kv, dim, dtype=torch.bfloat16, seed=3),
    )


def _on_gpu(function: Callable[[], torch.Tensor]) -> torch.Tensor:
    with cuda_tensors_on_host(SM_COUNT, claim_cuda=True):
        return function()


def _function() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    from flash_attn.cute import flash_attn_func

    return flash_attn_func


def forward(shape: tuple[int, int, int, int, int], *, causal: bool = False) -> Outcome:
    """``flash_attn_func`` for (seqlen_q, seqlen_k, heads, heads_kv, head_dim)."""
    q, k, v = _inputs(shape, batch=2)
    out = _on_gpu(lambda: _function()(q, k, v, causal=causal)[0])
    return Outcome(out, attention_float64(q, k, v, causal=causal).out)


def sliding_window(left: int, right: int) -> Outcome:
    """``flash_attn_func`` with a window of keys around each query."""
    q, k, v = _inputs((384, 384, 1, 1, 128))
    out = _on_gpu(lambda: _function()(q, k, v, window_size=(left, right))[0])
    return Outcome(out, attention_float64(q, k, v, window_size=(left, right)).out)


def varlen(lengths: tuple[int, ...], *, causal: bool) -> Outcome:
    """``flash_attn_varlen_func`` on sequences packed one after the other."""
    from flash_attn.cute import flash_attn_varlen_func

    total = sum(lengths)
    q, k, v = (normal(total, 2, 128, dtype=torch.bfloat16, seed=seed) for seed in (4, 5, 6))
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    longest = max(lengths)
    out = _on_gpu(
        lambda: flash_attn_varlen_func(
            q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, max_seqlen_q=longest,
            max_seqlen_k=longest, causal=causal,
        )[0]
    )  # fmt: skip
    exact = attention_float64(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, causal=causal)
    return Outcome(out, exact.out)


def backward(head_dim: int, *, causal: bool) -> Outcome:
    """Gradients for q, k and v: what the package's autograd function calls, without autograd.

    Autograd runs backward functions in a thread of its own, where tensors do not claim anything.
    """
    from flash_attn.cute.interface import _flash_attn_bwd

    tensors = _inputs((256, 256, 1, 1, head_dim))
    gradient = normal(1, 256, 1, head_dim, dtype=torch.bfloat16, seed=7)

    def run() -> torch.Tensor:
        out, lse = _function()(*tensors, causal=causal, return_lse=True)[:2]
        return torch.stack(_flash_attn_bwd(*tensors, out, gradient, lse, causal=causal)[:3])

    actual = _on_gpu(run)
    exact = [t.double().requires_grad_() for t in tensors]
    q, k, v = (t.transpose(1, 2) for t in exact)
    out = scaled_dot_product_attention(q, k, v, is_causal=causal)
    out.transpose(1, 2).backward(gradient.double())
    return Outcome(actual, torch.stack([t.grad for t in exact if t.grad is not None]))


def _case(name: str, run: Callable[[], Outcome], tolerance: float = 5e-3) -> Case:
    return Case(f"fa4_api_{name}", SOURCE, tolerance, run)


CASES = [
    _case("d64", partial(forward, (256, 256, 2, 2, 64))),
    _case("d96", partial(forward, (256, 256, 1, 1, 96))),
    _case("d128", partial(forward, (512, 512, 2, 2, 128))),
    _case("d128_causal_gqa", partial(forward, (512, 512, 4, 2, 128), causal=True)),
    _case("d128_ragged", partial(forward, (333, 271, 2, 1, 128))),
    _case("d128_decode", partial(forward, (1, 500, 4, 1, 128))),
    _case("d256", partial(forward, (256, 256, 1, 1, 256))),
    _case("window", partial(sliding_window, 100, 20)),
    _case("varlen", partial(varlen, (200, 71, 256), causal=False)),
    _case("varlen_causal", partial(varlen, (200, 71, 256), causal=True)),
    _case("backward_d64", partial(backward, 64, causal=False), 1e-2),
    _case("backward_d128_causal", partial(backward, 128, causal=True), 1e-2),
]
