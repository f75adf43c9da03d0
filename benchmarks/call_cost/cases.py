"""The calls that are measured, each with small tensors on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import fa4_cute
from fa4_cute import masks, score_mods


def half(*shape: int, where: str = "cpu") -> torch.Tensor:
    """Return zeros in bfloat16."""
    return torch.zeros(shape, dtype=torch.bfloat16, device=where)


def ints(values: Any, where: str = "cpu") -> torch.Tensor:
    """Return 32-bit integers."""
    return torch.tensor(values, dtype=torch.int32, device=where)


def dense(where: str = "cpu") -> Callable[[], Any]:
    """Causal attention of two sequences."""
    q, k, v = half(2, 32, 8, 64, where=where), *(half(2, 32, 2, 64, where=where) for _ in "kv")
    return lambda: fa4_cute.flash_attn(q, k, v, causal=True)


def paged(where: str = "cpu") -> Callable[[], Any]:
    """A decode step over pages, whose table is not looked at."""
    q = half(4, 1, 8, 64, where=where)
    k, v = half(16, 64, 2, 64, where=where), half(16, 64, 2, 64, where=where)
    table, used = ints([[0, 1], [2, 3], [4, 5], [6, 7]], where), ints([100, 3, 64, 128], where)
    return lambda: fa4_cute.flash_attn(
        q, k, v, page_table=table, seqused_k=used, causal=True, softmax_scale=0.2, unchecked=True
    )


def varlen(where: str = "cpu") -> Callable[[], Any]:
    """Packed sequences, whose lengths are not looked at."""
    q, k, v = half(96, 8, 64, where=where), *(half(96, 2, 64, where=where) for _ in "kv")
    starts = ints([0, 32, 96], where)
    return lambda: fa4_cute.flash_attn_varlen(
        q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=64, max_seqlen_k=64,
        causal=True, unchecked=True,
    )  # fmt: skip


def worst(where: str = "cpu") -> Callable[[], Any]:
    """Every feature that goes with the others: the most arguments, tensors and launches.

    The results go to memory of the caller's: to see that it lies apart from each of the tensors
    takes longer than to allocate it.
    """
    fp8 = torch.float8_e4m3fn
    q = half(8, 8, 64, where=where).to(fp8)
    k, v = (half(16, 64, 2, 64, where=where).to(fp8) for _ in "kv")
    rope_q, rope_k = half(8, 8, 64, where=where), half(16, 64, 1, 64, where=where)
    starts, table = ints([0, 1, 3, 8], where), ints([[0, 1], [2, 3], [4, 5]], where)
    used = ints([100, 3, 128], where)
    q_scale = torch.ones(8, 8, device=where)
    k_scale = torch.ones(16, 2, 64, device=where).transpose(1, 2)
    sink = torch.zeros(8, device=where)
    one, other = (torch.zeros(1, 8, 1, 128, device=where) for _ in range(2))
    mask = masks.padding(ints([90, 90, 90], where)) & masks.bias(one) & masks.chunked(64)
    mask |= masks.bias(other)
    out, lse = half(8, 8, 64, where=where), torch.zeros(8, 8, device=where)
    slopes = score_mods.alibi(torch.ones(8, device=where))
    return lambda: fa4_cute.flash_attn_varlen(
        q, k, v, cu_seqlens_q=starts, page_table=table, seqused_k=used, max_seqlen_q=8,
        max_seqlen_k=128, causal=True, softmax_scale=0.1, return_lse=True, mask=mask,
        window_size=(64, 0), score_mod=slopes, softcap=20.0, sink=sink, num_splits=2,
        split="workspace", q_scale=q_scale, k_scale=k_scale, v_scale=0.5, q_rope=rope_q,
        k_rope=rope_k, unchecked=True, out=out, lse=lse,
    )  # fmt: skip


CALLS: dict[str, Callable[..., Callable[[], Any]]] = {
    "dense": dense, "varlen": varlen, "paged": paged, "worst": worst,
}  # fmt: skip
