"""``torch.ops.fa4_cute.attention``: the call as one opaque operator for ``torch.compile``.

It carries calls that are plain (``Options.is_plain`` and ``Batch.is_plain``); others break the
graph. Outside of ``torch.compile`` it is not used; dispatching it costs more than the rest of the
host's work.
"""

from __future__ import annotations

import torch

from ..ask.arguments import Options
from .compute import compute

compute_apart = torch.compiler.disable(compute)
"""The call for what the operator has no arguments for; it breaks the graph in two."""


@torch.library.custom_op("fa4_cute::attention", mutates_args=())  # type: ignore[untyped-decorator]
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    softmax_scale: float | None,
    return_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O and LSE (empty unless ``return_lse``); arguments and errors as ``flash_attn``."""
    out, lse = compute((q, k, v), Options(causal, softmax_scale, return_lse))
    return out, torch.empty(0, dtype=torch.float32, device=q.device) if lse is None else lse


@attention.register_fake  # type: ignore[untyped-decorator]
def _shapes(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    softmax_scale: float | None,
    return_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, seqlen, heads, _ = q.shape
    dtype = torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype
    out = q.new_empty((batch, seqlen, heads, v.shape[3]), dtype=dtype)
    rows = (batch, heads, seqlen) if return_lse else (0,)
    return out, q.new_empty(rows, dtype=torch.float32)
