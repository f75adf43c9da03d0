"""Attention whose sequences lie on several ranks of ``torch.distributed``.

Example, on every rank::

    from fa4_cute import distributed

    q, k, v = (distributed.shard(x) for x in (q, k, v))
    out = distributed.context_parallel_attn(q, k, v, causal=True)
    whole = distributed.unshard(out)
"""

from __future__ import annotations

from .interface import context_parallel_attn, context_parallel_attn_varlen
from .sharding import shard, unshard

__all__ = ["context_parallel_attn", "context_parallel_attn_varlen", "shard", "unshard"]
