"""The arguments of a case's public call, feature by feature.

Memory that must not matter is NaN: rows of a cache after the used ones, pages that no table names,
keys after the last sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from fa4_cute import masks, score_mods
from testing.cases import BF16, FP8, FP16, Case

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
ROPE_COLUMNS = 64


@dataclass(eq=False)
class Arguments:
    """Arguments of a public call: q, k, v and the options, which a test may change."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> Tensors:
        """q, k and v."""
        return self.q, self.k, self.v


def arguments(case: Case, seed: int = 0, **options: Any) -> Arguments:
    """Return the arguments of ``case``, with further ``options``."""
    builder = Builder(case, seed)
    inputs = builder.inputs()
    return Arguments(*inputs, options={**builder.options, **options})


class Builder:
    """Makes the arguments of a case, feature by feature."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        """Add what the features of ``case`` add to the call."""
        self.case = case
        self.random = torch.Generator().manual_seed(seed)
        self.mask = masks.full()
        self.mods: list[score_mods.ScoreModifier] = []
        self.options: dict[str, Any] = {"pair_cta": True} if case.pair_cta else {}
        for name, add in FEATURES.items():
            if name in case.features:
                add(self)
        for name in ("num_qo", "num_splits", "softmax_scale", "arch"):
            if getattr(case, name) is not None:
                self.options[name] = getattr(case, name)
        if self.mask.plan != masks.full().plan:
            self.options["mask"] = self.mask
        if self.mods:
            self.options["score_mod"] = score_mods.chain(*self.mods)

    def normal(self, *shape: int) -> torch.Tensor:
        """Return the next normal deviates."""
        return torch.randn(shape, generator=self.random)

    def inputs(self) -> Tensors:
        """q, k and v, with NaN where nothing may be read."""
        case = self.case
        # Values that all operand types but float8 hold; float8 rounds them once more.
        stored = BF16 if case.dtype is FP8 else case.dtype
        queries = [q for q, _ in case.sequences]
        rows = [self.normal(n, case.heads, case.head_dim) * case.sharpness for n in queries]
        if "ragged" in case.features:
            self.options["cu_seqlens_q"] = offsets(queries)
        q = torch.cat(rows) if "ragged" in case.features else torch.stack(rows)
        k, v = self.keys()
        v = v[..., : case.head_dim_v or None].contiguous()
        if case.rope is not None:
            q, self.options["q_rope"] = split_off(q, case.head_dim_v, case.rope)
            k, self.options["k_rope"] = split_off(k, case.head_dim_v, case.rope)
        q, k, v = (x.to(stored) for x in (q, k, v))
        if "rope" in case.features:
            self.options["q_rope"] = self.rope(q)
            self.options["k_rope"] = self.rope(k[..., :1, :])
        if "tokens" in case.features:
            self.options["q_scale"], self.options["k_scale"] = map(self.scales, (q, k))
        return tuple(x.to(FP8) for x in (q, k, v)) if case.is_fp8 else (q, k, v)

    def rope(self, operand: torch.Tensor) -> torch.Tensor:
        """Rope columns for the heads of ``operand``, in the other type; NaN where it is."""
        made = self.normal(*operand.shape[:-1], ROPE_COLUMNS)
        other = FP16 if operand.dtype is BF16 else BF16
        return made.to(other).masked_fill(operand.isnan().any(-1, keepdim=True), math.nan)

    def scales(self, operand: torch.Tensor) -> torch.Tensor:
        """A scale per token and head, NaN where the operand is; some are negative."""
        made = torch.rand(operand.shape[:-1], generator=self.random) + 0.5
        made = made * torch.where(torch.rand(made.shape, generator=self.random) < 0.1, -1.0, 1.0)
        return made.masked_fill(operand.isnan().any(-1), math.nan)

    def keys(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V where the features want them."""
        case = self.case
        lengths = [k for _, k in case.sequences]
        made = [[self.normal(n, case.kv_heads, case.head_dim) for n in lengths] for _ in "kv"]
        if case.growth:
            made[0] = [x * (1 + case.growth * torch.arange(len(x))[:, None, None]) for x in made[0]]
        if case.page_size:
            self.options["seqused_k"] = ints(lengths)
            return self.paged(made, lengths)
        if "cache" in case.features:
            self.options["seqused_k"] = ints(lengths)
            room = max(lengths) + 9
            return tuple(torch.stack([extended(x, room) for x in part]) for part in made)
        if "ragged" in case.features:
            self.options["cu_seqlens_k"] = offsets(lengths)
            total = sum(lengths) + 5
            return tuple(extended(torch.cat(part), total) for part in made)
        return tuple(torch.stack(part) for part in made)

    def paged(
        self, made: list[list[torch.Tensor]], lengths: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Deal the keys out to pages in random order; tables are longer than needed."""
        size = self.case.page_size
        counts = [-(-n // size) for n in lengths]
        order = torch.randperm(sum(counts) + 2, generator=self.random).tolist()
        shape = (len(order), size, self.case.kv_heads, self.case.head_dim)
        pages = [torch.full(shape, math.nan) for _ in "kv"]
        table = torch.full((len(lengths), max(counts) + 1), -7, dtype=torch.int32)
        for number, length in enumerate(lengths):
            for i in range(counts[number]):
                page = table[number, i] = order.pop()
                part = slice(i * size, min(length, (i + 1) * size))
                for tensor, rows in zip(pages, made, strict=True):
                    tensor[page, : part.stop - part.start] = rows[number][part]
        self.options["page_table"] = table
        return pages[0], pages[1]

    def also(self, mask: masks.AttentionMask) -> None:
        """Hide what ``mask`` hides as well."""
        self.mask = self.mask & mask

    def set(self, **options: Any) -> None:
        """Add options of the call."""
        self.options.update(options)

    @property
    def longest(self) -> tuple[int, int]:
        """Most queries and most keys of a sequence."""
        return max(q for q, _ in self.case.sequences), max(k for _, k in self.case.sequences)

    def bias(self) -> torch.Tensor:
        """A bias with gaps; its element type goes by the longest sequences."""
        queries, keys = self.longest
        made = self.normal(len(self.case.lengths), self.case.heads, queries, keys)
        stored = (torch.float32, BF16, FP16)[(queries + keys) % 3]
        return made.masked_fill(made < -2, -math.inf).to(stored)


def split_off(
    operand: torch.Tensor, columns: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first ``columns`` columns, and the others as a tensor of ``dtype``."""
    return operand[..., :columns].contiguous(), operand[..., columns:].to(dtype).contiguous()


def extended(rows: torch.Tensor, total: int) -> torch.Tensor:
    """``rows`` with NaN rows after them."""
    stale = rows.new_full((total - rows.shape[0], *rows.shape[1:]), math.nan)
    return torch.cat([rows, stale])


def ints(values: Sequence[int]) -> torch.Tensor:
    """Return 32-bit integers."""
    return torch.tensor(values, dtype=torch.int32)


def offsets(lengths: Sequence[int]) -> torch.Tensor:
    """Return where packed sequences start, and where the last one ends."""
    found = [0]
    for length in lengths:
        found.append(found[-1] + length)
    assert [b - a for a, b in pairwise(found)] == list(lengths)
    return ints(found)


def relative(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    """Read a slope per head, as ALiBi does, and a table of rank 2."""
    return score + aux[0][head] * (kv_idx - q_idx) - aux[1][batch, kv_idx]


def _function(b: Builder) -> None:
    slopes = b.normal(b.case.heads) / 100
    table = b.normal(b.longest[1], len(b.case.lengths)).t()
    b.mods.append(score_mods.function(relative, (slopes, table)))


FEATURES: dict[str, Callable[[Builder], None]] = {
    "causal": lambda b: b.set(causal=True),
    "window": lambda b: b.set(window_size=b.case.window),
    "chunked": lambda b: b.also(masks.chunked(70)),
    "padding": lambda b: b.also(masks.padding(ints([k - k // 10 for _, k in b.case.sequences]))),
    "bias": lambda b: b.also(masks.bias(b.bias())),
    "union": lambda b: b.also(masks.chunked_causal(48) | masks.sliding_window(9, 9)),
    "softcap": lambda b: b.set(softcap=2.0),
    "alibi": lambda b: b.mods.append(score_mods.alibi(torch.linspace(0.02, 0.5, b.case.heads))),
    "function": _function,
    "sink": lambda b: b.set(sink=b.normal(b.case.heads)),
    "ragged": lambda b: None,
    "cache": lambda b: None,
    "page16": lambda b: None,
    "page64": lambda b: None,
    "page256": lambda b: None,
    "split": lambda b: b.set(num_splits=3),
    "cluster": lambda b: b.set(num_splits=2, split="cluster"),
    "last": lambda b: b.set(num_splits=3, split="last"),
    "persistent": lambda b: b.set(scheduler="persistent"),
    "dynamic": lambda b: b.set(scheduler="dynamic"),
    "stream_k": lambda b: b.set(scheduler="stream_k"),
    "fp8": lambda b: b.set(q_scale=0.5, k_scale=1.5, v_scale=0.25),
    "tokens": lambda b: None,
    "rope": lambda b: None,
}
"""Every feature, and what it adds to the call; where sequences lie is decided by ``inputs``."""
