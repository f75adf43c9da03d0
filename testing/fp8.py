"""Plain float8 attention: what rounding P to e4m3 costs when nothing else goes wrong."""

from __future__ import annotations

import math

import torch

from testing.arguments import Arguments
from testing.reference.fp8 import LIFT


def emulated(given: Arguments) -> torch.Tensor:
    """Return attention with P lifted and rounded to e4m3, relative to the true row maximum.

    Dense operands without scales, causal or full.
    """
    q, k, v = (x.double() for x in given.inputs)
    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    scale = given.options.get("softmax_scale") or 1 / math.sqrt(q.shape[-1])
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * scale
    if given.options.get("causal"):
        rows, columns = (torch.arange(x.shape[1]) for x in (q, k))
        hidden = columns[None] > rows[:, None] + len(columns) - len(rows)
        scores = scores.masked_fill(hidden, -math.inf)
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).min)
    weights = torch.exp(scores - top)
    rounded = (weights * 2.0**LIFT).float().to(torch.float8_e4m3fn).double() / 2.0**LIFT
    sums = weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return torch.einsum("bhqk,bkhd->bqhd", rounded / sums, v).bfloat16()


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the cosine of the angle between two results."""
    flat = [x.double().flatten() for x in (a, b)]
    return float(torch.nn.functional.cosine_similarity(*flat, 0))
