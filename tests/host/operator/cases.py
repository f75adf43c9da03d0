"""Calls with every feature, small; together they give every argument of both public functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import fa4_cute
from fa4_cute import masks, score_mods

HEADS, KV_HEADS, DEPTH = 4, 2, 16
QUERIES, KEYS, BATCH = 5, 20, 2
PAGE = 16


class Case(NamedTuple):
    """A function of tensors that calls attention, and its tensors."""

    call: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]


def normal(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def integers(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def relative(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score + aux[0][head] * (kv_idx - q_idx)


INPUTS = (
    normal(BATCH, QUERIES, HEADS, DEPTH),
    normal(BATCH, KEYS, KV_HEADS, DEPTH),
    normal(BATCH, KEYS, KV_HEADS, DEPTH) + 1,
)
FP8 = tuple(t.to(torch.float8_e4m3fn) for t in INPUTS)
SLOPES = normal(HEADS, dtype=torch.float32)
LENGTHS = integers(3, 20)
PACKED = (normal(7, HEADS, DEPTH), normal(11, KV_HEADS, DEPTH), normal(11, KV_HEADS, DEPTH))
STARTS = (integers(0, 3, 7), integers(0, 5, 11))
POOL = (normal(6, PAGE, KV_HEADS, DEPTH), normal(6, PAGE, KV_HEADS, DEPTH) - 1)
TABLE = integers([5, 0, 2], [1, 3, 4])
ROPE = tuple(t[..., :8].bfloat16() for t in INPUTS[:2])
RELATIVE = score_mods.function(relative, (SLOPES,))
attn, varlen = fa4_cute.flash_attn, fa4_cute.flash_attn_varlen


def _window_or_chunk(q: Any, k: Any, v: Any) -> Any:
    return attn(q, k, v, mask=masks.sliding_window(3, 0) | masks.chunked(4), return_lse=True)


def _padding_and_bias(q: Any, k: Any, v: Any, lengths: Any, bias: Any) -> Any:
    return attn(q, k, v, mask=masks.padding(lengths) & masks.bias(bias) & masks.causal())


def _packed(q: Any, k: Any, v: Any, starts: Any, starts_k: Any) -> Any:
    return varlen(q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts_k, causal=True, return_lse=True)


def _unchecked(q: Any, k: Any, v: Any, starts: Any, starts_k: Any) -> Any:
    return varlen(
        q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts_k, max_seqlen_q=4, max_seqlen_k=6,
        unchecked=True,
    )  # fmt: skip


def _split(q: Any, k: Any, v: Any) -> Any:
    return attn(q, k, v, num_splits=2, split="workspace", scheduler="tile", num_qo=1)


CASES = {
    "plain": Case(lambda q, k, v: attn(q, k, v, causal=True, return_lse=True), INPUTS),
    "scale": Case(lambda q, k, v: attn(q, k, v, softmax_scale=0.5), INPUTS),
    "masks": Case(_window_or_chunk, INPUTS),
    "padding, bias": Case(
        _padding_and_bias,
        (*INPUTS, LENGTHS, normal(1, HEADS, QUERIES, KEYS, dtype=torch.float32)),
    ),
    "window": Case(lambda q, k, v: attn(q, k, v, window_size=(3, None)), INPUTS),
    "softcap": Case(lambda q, k, v: attn(q, k, v, softcap=2.0), INPUTS),
    "alibi": Case(
        lambda q, k, v, s: attn(q, k, v, score_mod=score_mods.alibi(s)), (*INPUTS, SLOPES)
    ),
    "function": Case(lambda q, k, v: attn(q, k, v, score_mod=RELATIVE), INPUTS),
    "sink": Case(lambda q, k, v, s: attn(q, k, v, sink=s, return_lse=True), (*INPUTS, SLOPES)),
    "cache": Case(lambda q, k, v, n: attn(q, k, v, seqused_k=n), (*INPUTS, LENGTHS)),
    "packed": Case(_packed, (*PACKED, *STARTS)),
    "unchecked": Case(_unchecked, (*PACKED, *STARTS)),
    "pages": Case(
        lambda q, k, v, t, n: attn(q, k, v, page_table=t, seqused_k=n),
        (INPUTS[0], *POOL, TABLE, LENGTHS),
    ),
    "fp8": Case(
        lambda q, k, v, s: attn(q, k, v, q_scale=2.0, k_scale=s, v_scale=0.5),
        (*FP8, torch.tensor(1.5)),
    ),
    "fp8 tokens": Case(
        lambda q, k, v, s: attn(q, k, v, q_scale=s),
        (*FP8, normal(BATCH, QUERIES, HEADS, dtype=torch.float32)),
    ),
    "rope": Case(lambda q, k, v, a, b: attn(q, k, v, q_rope=a, k_rope=b), (*INPUTS, *ROPE)),
    "splits": Case(_split, INPUTS),
    "hopper": Case(lambda q, k, v: attn(q, k, v, arch="sm_90a"), INPUTS),
    "pairs": Case(
        lambda q, k, v: attn(q, k, v, pair_cta=True),
        tuple(normal(1, 4, 2, 128) for _ in range(3)),
    ),
}
