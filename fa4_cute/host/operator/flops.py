"""Floating-point operations of a call, as ``torch.utils.flop_counter`` counts those of SDPA.

Counted are the two products, ``2 * queries * keys * head_dim`` each and per query head. Softmax,
masks and modifiers count nothing, and a masked score counts like any other: a causal call counts as
much as a full one, as in torch. Sequences of ragged batches count with their own lengths, keys of a
cache with those that are used; where values cannot be read, with the most there can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from .schema import NAMESPACE, WRITTEN, bound


def register() -> None:
    """Let FlopCounterMode count calls of the operator, whichever overload."""
    flop_registry[getattr(torch.ops, NAMESPACE).attention] = _count


def _count(*args: Any, out_val: Any = None, **_: Any) -> int:
    """Return the operations of a call of the operator with these arguments."""
    # Only the overload "into" returns nothing; what it writes comes first.
    values = bound(args[len(WRITTEN) :] if out_val is None else args)
    q, v, rope = values["q"], values["v"], values["q_rope"]
    depth = q.shape[-1] + v.shape[-1] + (0 if rope is None else rope.shape[-1])
    pairs = zip(_queries(values), _keys(values), strict=True)
    return sum(2 * queries * keys * q.shape[-2] * depth for queries, keys in pairs)


def _queries(values: dict[str, Any]) -> Sequence[int]:
    q, starts = values["q"], values["cu_seqlens_q"]
    if starts is None:
        return [q.shape[1]] * q.shape[0]
    return _lengths(starts, q.shape[0], values["max_seqlen_q"])


def _keys(values: dict[str, Any]) -> Sequence[int]:
    k, starts, used, table = (
        values[name] for name in ("k", "cu_seqlens_k", "seqused_k", "page_table")
    )
    if used is not None:
        most = k.shape[0] if starts is not None else k.shape[1]
        room = most if table is None else table.shape[1] * k.shape[1]
        read = _values(used)
        return [room] * used.shape[0] if read is None else read
    if starts is None:
        return [k.shape[1]] * k.shape[0]
    return _lengths(starts, k.shape[0], values["max_seqlen_k"])


def _lengths(starts: Any, total: int, longest: int | None) -> Sequence[int]:
    read = _values(starts)
    if read is None:
        return [total if longest is None else longest] * (starts.shape[0] - 1)
    return [end - start for start, end in pairwise(read)]


def _values(tensor: Any) -> list[int] | None:
    """Return the values of ``tensor``, or None where it has none."""
    if type(tensor) is not torch.Tensor or tensor.is_meta:
        return None
    found: list[int] = tensor.tolist()
    return found
