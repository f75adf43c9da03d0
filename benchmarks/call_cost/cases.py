"""The calls that are measured, each with small tensors on a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


def paged(where: str = "cpu", *, unchecked: bool = True) -> Callable[[], Any]:
    """A decode step over pages; its table is looked at unless ``unchecked``."""
    q = half(4, 1, 8, 64, where=where)
    k, v = half(16, 64, 2, 64, where=where), half(16, 64, 2, 64, where=where)
    table, used = ints([[0, 1], [2, 3], [4, 5], [6, 7]], where), ints([100, 3, 64, 128], where)
    return lambda: fa4_cute.flash_attn(
        q, k, v, page_table=table, seqused_k=used, causal=True, softmax_scale=0.2,
        unchecked=unchecked,
    )  # fmt: skip


def varlen(where: str = "cpu", *, unchecked: bool = True) -> Callable[[], Any]:
    """Packed sequences; their lengths are looked at unless ``unchecked``."""
    q, k, v = half(96, 8, 64, where=where), *(half(96, 2, 64, where=where) for _ in "kv")
    starts = ints([0, 32, 96], where)
    return lambda: fa4_cute.flash_attn_varlen(
        q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=64, max_seqlen_k=64,
        causal=True, unchecked=unchecked,
    )  # fmt: skip


def worst(where: str = "cpu", *, unchecked: bool = True, packed: bool = False) -> Callable[[], Any]:
    """Every feature that goes with the others: the most arguments, tensors and launches.

    The results go to memory of the caller's: to see that it lies apart from each of the tensors
    takes longer than to allocate it. Keys lie in pages, or are ``packed``: then every call lays out
    their scales.
    """
    fp8 = torch.float8_e4m3fn
    q, rope_q = half(8, 8, 64, where=where).to(fp8), half(8, 8, 64, where=where)
    rows = (96,) if packed else (16, 64)
    k, v = (half(*rows, 2, 64, where=where).to(fp8) for _ in "kv")
    rope_k, k_scale = half(*rows, 1, 64, where=where), torch.ones(*rows, 2, device=where)
    sequences: dict[str, Any] = {"cu_seqlens_q": ints([0, 1, 3, 8], where)}
    if packed:
        sequences |= {"cu_seqlens_k": ints([0, 30, 60, 96], where)}
    else:
        k_scale = k_scale.mT.contiguous().mT
        sequences |= {"page_table": ints([[0, 1], [2, 3], [4, 5]], where)}
        sequences |= {"seqused_k": ints([100, 3, 128], where)}
    q_scale = torch.ones(8, 8, device=where)
    sink = torch.zeros(8, device=where)
    one, other = (torch.zeros(1, 8, 1, 128, device=where) for _ in range(2))
    mask = masks.padding(ints([90, 90, 90], where)) & masks.bias(one) & masks.chunked(64)
    mask |= masks.bias(other)
    out, lse = half(8, 8, 64, where=where), torch.zeros(8, 8, device=where)
    slopes = score_mods.alibi(torch.ones(8, device=where))
    return partial(
        fa4_cute.flash_attn_varlen, q, k, v, **sequences, max_seqlen_q=8, max_seqlen_k=128,
        causal=True, softmax_scale=0.1, return_lse=True, mask=mask, window_size=(64, 0),
        score_mod=slopes, softcap=20.0, sink=sink, num_splits=2, split="workspace",
        q_scale=q_scale, k_scale=k_scale, v_scale=0.5, q_rope=rope_q, k_rope=rope_k,
        unchecked=unchecked, out=out, lse=lse,
    )  # fmt: skip


def boolean_mask(where: str = "cpu") -> Callable[[], Any]:
    """A tensor of 16,384 booleans as the mask, of which every call makes a bias."""
    q, k, v = (half(2, 32, 8, 64, where=where) for _ in "qkv")
    visible = torch.ones(2, 8, 32, 32, dtype=torch.bool, device=where)
    return lambda: fa4_cute.flash_attn(q, k, v, mask=visible)


def function(where: str = "cpu") -> Callable[[], Any]:
    """A Python function over the scores, with a tensor of its own."""
    q, k, v = (half(2, 32, 8, 64, where=where) for _ in "qkv")
    slopes = torch.ones(8, device=where)

    def code(score: Any, b: Any, h: Any, i: Any, j: Any, aux: Any) -> Any:
        return score + aux[0][h]

    return lambda: fa4_cute.flash_attn(q, k, v, score_mod=code, aux_tensors=(slopes,))


def unaligned(where: str = "cpu") -> Callable[[], Any]:
    """Rows of q, k and v that start where no tensor map can: every call copies them."""
    q, k, v = (half(2, 32, 8, 65, where=where)[..., :64] for _ in "qkv")
    return lambda: fa4_cute.flash_attn(q, k, v)


Case = Callable[..., Callable[[], Any]]
CALLS: dict[str, Case] = {"dense": dense, "varlen": varlen, "paged": paged, "worst": worst}
"""Calls whose values are not looked at, of tensors that the kernel reads as they are."""
FURTHER: dict[str, Case] = {
    "varlen, checked": partial(varlen, unchecked=False),
    "paged, checked": partial(paged, unchecked=False),
    "worst, checked": partial(worst, unchecked=False),
    "worst, packed": partial(worst, packed=True),
    "both": partial(worst, unchecked=False, packed=True),
    "boolean mask": boolean_mask,
    "function": function,
    "unaligned": unaligned,
}
"""Calls whose values are looked at, which waits for a device, or of which torch converts a part."""
