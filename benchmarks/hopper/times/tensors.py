"""Tensors of a problem, and how far a result is from the exact one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from benchmarks.hopper.times.problems import Problem

ROWS: Final = 64
"""Queries whose results are compared, at either end of a sequence."""
Tensors = Mapping[str, torch.Tensor]


def shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    """Shapes of q, k, v and out; of the page table where there is one."""
    p = problem
    batch = () if p.packed else (p.batch,)
    tokens = p.batch if p.packed else 1
    found = {
        "q": (*batch, tokens * p.seqlen_q, p.heads, p.head_dim),
        "k": (*batch, tokens * p.seqlen_k, p.heads_kv, p.head_dim),
        "v": (*batch, tokens * p.seqlen_k, p.heads_kv, p.head_dim_v),
        "out": (*batch, tokens * p.seqlen_q, p.heads, p.head_dim_v),
    }
    if p.page:
        per_sequence = -(-p.seqlen_k // p.page)
        pool = (p.batch * per_sequence, p.page, p.heads_kv)
        found |= {"k": (*pool, p.head_dim), "v": (*pool, p.head_dim_v)}
        found |= {"table": (p.batch, per_sequence), "lengths": (p.batch,)}
    if p.packed:
        found["starts"] = (p.batch + 1,)
    if p.added == "alibi":
        found["slopes"] = (p.heads,)
    if p.added == "bias":
        found["bias"] = (1, p.heads, p.seqlen_q, p.seqlen_k)
    if p.sink:
        found["sink"] = (p.heads,)
    return found


def dtype_of(problem: Problem, name: str) -> torch.dtype:
    """Element type of a tensor of the problem."""
    if name in ("table", "lengths", "starts"):
        return torch.int32
    if name in ("slopes", "sink"):
        return torch.float32
    fp8 = problem.dtype == "fp8" and name in ("q", "k", "v")
    return torch.float8_e4m3fn if fp8 else torch.bfloat16


def make(problem: Problem, device: str) -> dict[str, torch.Tensor]:
    """Standard normal q, k and v; a result full of NaN; pages in random order."""
    p, found = problem, {}
    generator = torch.Generator(device).manual_seed(p.seqlen_k + p.head_dim)
    for name, shape in shapes(p).items():
        dtype = dtype_of(p, name)
        if name in ("q", "k", "v", "bias", "sink"):
            plain = torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16)
            found[name] = plain.to(dtype)
        elif name == "out":
            found[name] = torch.full(shape, math.nan, dtype=dtype, device=device)
        elif name == "slopes":
            found[name] = torch.exp2(-8 * torch.arange(1, p.heads + 1, device=device) / p.heads)
    if p.page:
        rows, columns = shapes(p)["table"]
        order = torch.randperm(rows * columns, generator=generator, device=device)
        found["table"] = order.reshape(rows, columns).int()
        found["lengths"] = torch.full((p.batch,), p.seqlen_k, dtype=torch.int32, device=device)
    if p.packed:
        starts = torch.arange(p.batch + 1, device=device) * p.seqlen_q
        found["starts"] = starts.int()
    return found


def of_cache(problem: Problem, lengths: Sequence[int], device: str) -> dict[str, torch.Tensor]:
    """Tensors of a step of decoding with no more pages than its sequences have keys for.

    Where a sequence has none, the table names the first page. The problem's length is the longest.
    """
    pages = [-(-n // problem.page) for n in lengths]
    found = make(replace(problem, batch=1, seqlen_k=sum(pages) * problem.page), device)
    own = found["table"][0].split(pages)
    few = make(replace(problem, seqlen_k=problem.page), device)
    return found | {
        "q": few["q"], "out": few["out"],
        "lengths": torch.tensor(lengths, dtype=torch.int32, device=device),
        "table": torch.nn.utils.rnn.pad_sequence(own, batch_first=True),
    }  # fmt: skip


def last_sequence(problem: Problem, tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """q, k, v and out of the last sequence, (tokens, heads, columns) each."""
    p = problem
    if p.packed:
        counts = (p.seqlen_q, p.seqlen_k, p.seqlen_k, p.seqlen_q)
        pairs = zip(("q", "k", "v", "out"), counts, strict=True)
        return tuple(tensors[name][-count:] for name, count in pairs)
    if p.page:
        pages = tensors["table"][-1].long()
        k, v = (tensors[name][pages].flatten(0, 1)[: p.seqlen_k] for name in ("k", "v"))
        return tensors["q"][-1], k, v, tensors["out"][-1]
    return tuple(tensors[name][-1] for name in ("q", "k", "v", "out"))


def error(problem: Problem, tensors: Tensors) -> float:
    """Largest relative error (Frobenius norm) of the first and the last rows of the last sequence.

    Infinite where something is not a number. The reference is float64 arithmetic on the same
    rounded inputs.
    """
    p = problem
    q, k, v, out = last_sequence(p, tensors)
    group = p.heads // p.heads_kv
    keys, values = (x.double().repeat_interleave(group, 1).transpose(0, 1) for x in (k, v))
    worst = 0.0
    for first in sorted({0, max(0, p.seqlen_q - ROWS)}):
        rows = torch.arange(first, min(first + ROWS, p.seqlen_q), device=q.device)
        scores = q[rows].double().transpose(0, 1) @ keys.transpose(1, 2) / math.sqrt(p.head_dim)
        if p.softcap:
            scores = p.softcap * (scores / p.softcap).tanh()
        scores = scores + added(p, tensors, rows)
        scores = scores.masked_fill(~visible(p, rows), -math.inf)
        if p.sink:
            sinks = tensors["sink"].double()[:, None, None].expand(-1, len(rows), -1)
            scores = torch.cat([scores, sinks], -1)
        weights = scores.softmax(-1)[..., : p.seqlen_k]
        expected = (weights @ values).transpose(0, 1)
        difference = (out[rows].double() - expected).norm() / expected.norm()
        worst = max(worst, float(difference.nan_to_num(nan=math.inf)))
    return worst


def added(problem: Problem, tensors: Tensors, rows: torch.Tensor) -> Any:
    """What is added to the scores of these queries: (heads, rows, seqlen_k), or 0."""
    if problem.added == "bias":
        return tensors["bias"][0, :, rows].double()
    if problem.added == "alibi":
        place = rows + problem.seqlen_k - problem.seqlen_q
        distance = (place[:, None] - torch.arange(problem.seqlen_k, device=rows.device)).abs()
        return -tensors["slopes"].double()[:, None, None] * distance
    return 0.0


def visible(problem: Problem, rows: torch.Tensor) -> Any:
    """Which keys these queries see, (rows, seqlen_k)."""
    place = (rows + problem.seqlen_k - problem.seqlen_q)[:, None]
    keys = torch.arange(problem.seqlen_k, device=rows.device)[None]
    seen = (keys <= place) if problem.causal else torch.ones_like(keys + place, dtype=torch.bool)
    return seen if problem.window is None else seen & (keys >= place - problem.window)
