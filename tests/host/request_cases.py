"""Calls that are right, to be spoiled one argument at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.request import Request, request

BATCH, HEADS, DIM = 2, 4, 64
QUERIES, KEYS, PAGE = 5, 40, 16


def ints(*values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def half(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def dense() -> dict[str, Any]:
    kv = half(BATCH, KEYS, 2, DIM)
    return {"q": half(BATCH, QUERIES, HEADS, DIM), "k": kv, "v": kv}


def varlen() -> dict[str, Any]:
    kv = half(50, 2, DIM)
    offsets = {"cu_seqlens_q": ints(0, 3, 8), "cu_seqlens_k": ints(0, 20, 50)}
    return {"q": half(8, HEADS, DIM), "k": kv, "v": kv, **offsets}


def paged() -> dict[str, Any]:
    kv = half(6, PAGE, 2, DIM)
    table = {"page_table": ints([0, 5, -7], [2, 99, 99]), "seqused_k": ints(32, 16)}
    return {"q": half(BATCH, QUERIES, HEADS, DIM), "k": kv, "v": kv, **table}


def asked(**arguments: Any) -> Request:
    q, k, v = (arguments.pop(name) for name in "qkv")
    return request((q, k, v), *options_and_batch(arguments))


def refused(call: dict[str, Any], error: type[Exception], *words: str, **changes: Any) -> None:
    with pytest.raises(error) as caught:
        asked(**{**call, **changes})
    for word in words:
        assert word in str(caught.value)
