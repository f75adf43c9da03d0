"""Whole calls with any set of features: their arguments; ``feature_run`` runs them.

A case is a set of names from :data:`FEATURES` and shapes. Memory that must not matter is NaN: rows
of a cache behind the used ones, pages that no table names, keys after the last sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from fa4_cute import masks, score_mods

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Kernel(NamedTuple):
    """A kernel, as a head dim and the number of Q tiles per CTA lead to it."""

    head_dim: int
    num_qo: int | None
    pair_cta: bool = False


KERNELS = {
    "two Q tiles": Kernel(64, 2),
    "one Q tile": Kernel(64, 1),
    "two Q tiles per CTA of a pair": Kernel(128, None, True),
    "CTA pair": Kernel(256, None),
}


@dataclass(frozen=True)
class FeatureCase:
    """Features and shapes of one call.

    Attributes:
        features: names from :data:`FEATURES`.
        head_dim, dtype, heads, kv_heads: as usual.
        lengths: queries and keys of every sequence; without ``ragged`` all have as many queries as
            the first, and without a cache as many keys.
        num_qo, pair_cta: as in the call.
        head_dim_v: that of v where it is smaller, and rope columns of q and k lie beyond.
    """

    features: frozenset[str]
    head_dim: int = 64
    dtype: torch.dtype = torch.bfloat16
    heads: int = 4
    kv_heads: int = 2
    lengths: tuple[tuple[int, int], ...] = ((40, 200), (3, 133), (0, 20), (37, 17))
    num_qo: int | None = None
    pair_cta: bool = False
    head_dim_v: int = 0

    @classmethod
    def of(cls, features: Iterable[str], kernel: str) -> FeatureCase:
        """Return the usual case for one of :data:`KERNELS`."""
        head_dim, num_qo, pair_cta = KERNELS[kernel]
        return cls(frozenset(features), head_dim, num_qo=num_qo, pair_cta=pair_cta)

    def __str__(self) -> str:
        kind = "bf16" if self.dtype is torch.bfloat16 else "fp16"
        tiles = "-pair" if self.pair_cta else "" if self.num_qo is None else f"-{self.num_qo}q"
        tiles = f"v{self.head_dim_v}{tiles}" if self.head_dim_v else tiles
        return f"d{self.head_dim}{tiles}-{kind}-{'+'.join(sorted(self.features)) or 'plain'}"

    @property
    def is_fp8(self) -> bool:
        return bool(self.features & {"fp8", "tokens"})

    @property
    def page_size(self) -> int:
        sizes = [int(name[4:]) for name in self.features if name.startswith("page")]
        return sizes[0] if sizes else 0

    @property
    def sequences(self) -> tuple[tuple[int, int], ...]:
        """Queries and keys of every sequence, as they come out of the features."""
        queries, keys = self.lengths[0]
        ragged = "ragged" in self.features
        own_keys = ragged or "cache" in self.features or self.page_size
        return tuple((q if ragged else queries, k if own_keys else keys) for q, k in self.lengths)


class Builder:
    """Makes the arguments of a case, feature by feature."""

    def __init__(self, case: FeatureCase, seed: int = 0) -> None:
        self.case = case
        self.random = torch.Generator().manual_seed(seed)
        self.mask = masks.full()
        self.mods: list[score_mods.ScoreModifier] = []
        self.options: dict[str, Any] = {"pair_cta": True} if case.pair_cta else {}
        for name, add in FEATURES.items():
            if name in case.features:
                add(self)
        if self.mask.plan != masks.full().plan:
            self.options["mask"] = self.mask
        if self.mods:
            self.options["score_mod"] = score_mods.chain(*self.mods)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.random)

    def inputs(self) -> Tensors:
        """q, k and v, with NaN where nothing may be read."""
        case = self.case
        queries = [q for q, _ in case.sequences]
        rows = [self.normal(n, case.heads, case.head_dim).to(case.dtype) for n in queries]
        if "ragged" in case.features:
            self.options["cu_seqlens_q"] = offsets(queries)
        q = torch.cat(rows) if "ragged" in case.features else torch.stack(rows)
        k, v = self.keys()
        made = (q, k, v[..., : case.head_dim_v or None].contiguous())
        if "rope" in case.features:
            self.options["q_rope"] = self.rope(made[0])
            self.options["k_rope"] = self.rope(made[1][..., :1, :])
        if "tokens" in case.features:
            self.options["q_scale"], self.options["k_scale"] = map(self.scales, made[:2])
        if case.is_fp8:
            made = tuple(tensor.to(torch.float8_e4m3fn) for tensor in made)
        return made

    def rope(self, operand: torch.Tensor) -> torch.Tensor:
        """Rope columns for the heads of ``operand``, in the other type; NaN where it is."""
        other = torch.float16 if self.case.dtype is torch.bfloat16 else torch.bfloat16
        made = self.normal(*operand.shape[:-1], ROPE_COLUMNS).to(other)
        return made.masked_fill(operand.isnan().any(-1, keepdim=True), math.nan)

    def scales(self, operand: torch.Tensor) -> torch.Tensor:
        """A scale per token and head, NaN where the operand is; some are negative."""
        made = torch.rand(operand.shape[:-1], generator=self.random) + 0.5
        made = made * torch.where(torch.rand(made.shape, generator=self.random) < 0.1, -1.0, 1.0)
        return made.masked_fill(operand.isnan().any(-1), math.nan)

    def keys(self) -> tuple[torch.Tensor, torch.Tensor]:
        case = self.case
        lengths = [k for _, k in case.sequences]
        made = [
            [self.normal(n, case.kv_heads, case.head_dim).to(case.dtype) for n in lengths]
            for _ in "kv"
        ]
        if case.page_size:
            self.options["seqused_k"] = ints(lengths)
            return self.paged(made, lengths)
        if "cache" in case.features:
            self.options["seqused_k"] = ints(lengths)
            room = max(lengths) + 9
            return tuple(torch.stack([extended(x, room) for x in part]) for part in made)  # type: ignore[return-value]
        if "ragged" in case.features:
            self.options["cu_seqlens_k"] = offsets(lengths)
            total = sum(lengths) + 5
            return tuple(extended(torch.cat(part), total) for part in made)  # type: ignore[return-value]
        return tuple(torch.stack(part) for part in made)  # type: ignore[return-value]

    def paged(
        self, made: list[list[torch.Tensor]], lengths: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Deal the keys out to pages in random order; tables are longer than needed."""
        size = self.case.page_size
        counts = [-(-n // size) for n in lengths]
        order = torch.randperm(sum(counts) + 2, generator=self.random).tolist()
        shape = (len(order), size, self.case.kv_heads, self.case.head_dim)
        pages = [torch.full(shape, math.nan, dtype=self.case.dtype) for _ in "kv"]
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
        self.mask = self.mask & mask

    def set(self, **options: Any) -> None:
        self.options.update(options)

    @property
    def longest(self) -> tuple[int, int]:
        return max(q for q, _ in self.case.sequences), max(k for _, k in self.case.sequences)

    def bias(self) -> torch.Tensor:
        """A bias with gaps; only its first query dimension is one for all."""
        queries, keys = self.longest
        made = self.normal(len(self.case.lengths), self.case.heads, queries, keys)
        return made.masked_fill(made < -2, -math.inf)


def extended(rows: torch.Tensor, total: int) -> torch.Tensor:
    """``rows`` with NaN rows behind them."""
    stale = rows.new_full((total - rows.shape[0], *rows.shape[1:]), math.nan)
    return torch.cat([rows, stale])


def ints(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def offsets(lengths: Sequence[int]) -> torch.Tensor:
    found = [0]
    for length in lengths:
        found.append(found[-1] + length)
    assert [b - a for a, b in pairwise(found)] == list(lengths)
    return ints(found)


def relative(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score + aux[0][head] * (kv_idx - q_idx) - aux[1][batch, kv_idx]


def _function(b: Builder) -> None:
    slopes = b.normal(b.case.heads) / 100
    table = b.normal(b.longest[1], len(b.case.lengths)).t()
    b.mods.append(score_mods.function(relative, (slopes, table)))


FEATURES: dict[str, Callable[[Builder], None]] = {
    "causal": lambda b: b.set(causal=True),
    "window": lambda b: b.set(window_size=(60, 10)),
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
    "persistent": lambda b: b.set(scheduler="persistent"),
    "fp8": lambda b: b.set(q_scale=0.5, k_scale=1.5, v_scale=0.25),
    "tokens": lambda b: None,
    "rope": lambda b: None,
}
"""Every feature, and what it adds to the call; where sequences lie is decided by ``inputs``."""


PLACES = ("cache", "page16", "page64", "page256")
"""Where keys lie: at most one of these in a case."""


LARGEST_IN_CLUSTER = 192
ROPE_COLUMNS = 64
BESIDE_ROPE = (64, 128)
"""Head dims that columns of a type of their own can follow: whole chunks of swizzled columns."""


def is_possible(
    features: Iterable[str], head_dim: int = 64, num_qo: int | None = None, pair_cta: bool = False
) -> bool:
    """Whether the features can be asked for together.

    A cluster shares the keys of a single Q tile, and its CTAs leave together, after one query tile.
    Rope columns are not for the kernel above head dim 192.
    """
    chosen = {*features}
    if "cluster" in chosen:
        serves = num_qo != 2 and not pair_cta and head_dim <= LARGEST_IN_CLUSTER
        if not serves or chosen & {"split", "persistent"}:
            return False
    if "rope" in chosen and head_dim not in BESIDE_ROPE:
        return False
    return len(chosen & {*PLACES}) <= 1
