"""Inputs of calls whose keys are split."""

from __future__ import annotations

import torch


def dense(
    batch: int, seqlen_q: int, seqlen_k: int, head_dim: int = 128
) -> tuple[torch.Tensor, ...]:
    """Return q with four heads, k and v with two, bfloat16."""
    generator = torch.Generator().manual_seed(batch + seqlen_k)
    shapes = (seqlen_q, 4), (seqlen_k, 2), (seqlen_k, 2)
    made = (torch.randn(batch, n, h, head_dim, generator=generator) for n, h in shapes)
    return tuple(x.bfloat16() for x in made)
