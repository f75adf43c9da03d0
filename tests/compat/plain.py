"""Attention as flash-attn's documentation states it, in float64, for one call at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

BF16 = torch.bfloat16
TOLERANCE = 0.02
"""Largest difference to O of the order of 1 that rounding P and O to bfloat16 explains."""


@dataclass
class Stated:
    """Arguments of flash-attn that change the result, with its defaults."""

    softmax_scale: float | None = None
    causal: bool = False
    window_size: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    alibi_slopes: torch.Tensor | None = None
    attention_chunk: int = 0
    s_aux: torch.Tensor | None = None


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **arguments: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """O (rows, heads, columns) and LSE (heads, rows) of one sequence, q (rows, heads, columns)."""
    stated = Stated(**arguments)
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double(), v.double()
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scale = stated.softmax_scale or 1 / math.sqrt(q.shape[-1])
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    if stated.softcap:
        scores = stated.softcap * torch.tanh(scores / stated.softcap)
    row = torch.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
    key = torch.arange(k.shape[0])[None]
    if stated.alibi_slopes is not None:
        scores = scores - stated.alibi_slopes.double()[:, None, None] * (row - key).abs()
    left, right = stated.window_size
    shown = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool)
    shown &= (key <= row) if stated.causal else shown
    shown &= (key >= row - left) if left >= 0 else shown
    shown &= (key <= row + right) if right >= 0 else shown
    if stated.attention_chunk:
        shown &= key // stated.attention_chunk == row // stated.attention_chunk
    scores = scores.masked_fill(~shown, -math.inf)
    if stated.s_aux is not None:
        sink = stated.s_aux.double()[:, None, None].expand(-1, q.shape[0], 1)
        weights = torch.cat((scores, sink), -1)
        lse = weights.logsumexp(-1)
    else:
        lse = scores.logsumexp(-1)
    weights = torch.nan_to_num(torch.exp(scores - lse[..., None]))
    return torch.einsum("hij,jhd->ihd", weights, v), lse


Results = tuple[torch.Tensor, torch.Tensor]


def agree(out: torch.Tensor, lse: torch.Tensor | None, exact: Results) -> None:
    """Compare one sequence, O (rows, heads, columns), LSE (heads, rows)."""
    torch.testing.assert_close(out.double(), exact[0], atol=TOLERANCE, rtol=TOLERANCE)
    if lse is not None:
        torch.testing.assert_close(lse.double(), exact[1], atol=1e-3, rtol=1e-3)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal deviates in bfloat16."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(BF16)


def offsets(lengths: list[int]) -> torch.Tensor:
    """First row of each sequence, and their sum."""
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0).int()


def parts(packed: torch.Tensor, starts: torch.Tensor) -> list[torch.Tensor]:
    """The sequences of a packed tensor."""
    return [packed[a:b] for a, b in pairwise(starts.tolist())]
