"""One type of case for tests, benchmarks and examples: a whole call with any set of features.

A case is a set of names of features and shapes; ``testing.arguments`` makes the arguments of the
public call, and ``testing.runner`` makes the call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from fa4_cute.host.ask.problem import dtype_name
from fa4_cute.plan.facts.hardware import SM90A, TMEM_LANES
from fa4_cute.plan.facts.wgmma import WGMMA_ROWS
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH

Lengths = tuple[tuple[int, int], ...]
BF16, FP16, FP8 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
WINDOW = (60, 10)
CUT: Lengths = ((3, 2300), (1, 130), (0, 20), (4, 1000), (2, 0), (3, 3), (1, 513))
"""For stream-K: cut once or twice, whole, without a query, without a key."""


class Kernel(NamedTuple):
    """A kernel, as a head dim and the number of Q tiles per CTA lead to it."""

    head_dim: int
    num_qo: int | None
    pair_cta: bool = False
    arch: str | None = None


KERNELS = {
    "two Q tiles": Kernel(64, 2),
    "one Q tile": Kernel(64, 1),
    "two Q tiles per CTA of a pair": Kernel(128, None, True),
    "CTA pair": Kernel(256, None),
}
HOPPER_KERNELS = {
    "Hopper": Kernel(128, 2, arch=SM90A),
    "Hopper, few rows": Kernel(128, 1, arch=SM90A),
    "Hopper, wide": Kernel(256, 2, arch=SM90A),
}
NOT_ON_HOPPER = frozenset({"cluster", "last", "rope", "dynamic", "stream_k"})
"""Features that Hopper has not; stream-K it has, but with fewer queries than a case usually has."""


@dataclass(frozen=True)
class Case:
    """Features and shapes of one call.

    Attributes:
        features: names of ``testing.arguments.FEATURES``.
        head_dim, dtype, heads, kv_heads: as usual; float8 operands also come with the features
            "fp8" and "tokens", which add scales.
        lengths: queries and keys of every sequence; without ``ragged`` all have as many queries as
            the first, and without a cache as many keys.
        num_qo, pair_cta, num_splits, softmax_scale: as in the call.
        head_dim_v: that of v where it is smaller, and rope columns of q and k lie beyond.
        rope: element type of these columns where they are tensors of their own.
        growth: scores rise by it from key to key, so that the maximum moves in every tile.
        sharpness: factor of the queries, which also moves the maxima.
        arch: architecture of the kernel; None for that of the device.
        window: keys before and after the row's own that the feature "window" shows.
    """

    features: frozenset[str] = frozenset()
    head_dim: int = 64
    dtype: torch.dtype = BF16
    heads: int = 4
    kv_heads: int = 2
    lengths: Lengths = ((40, 200), (3, 133), (0, 20), (37, 17))
    num_qo: int | None = None
    pair_cta: bool = False
    head_dim_v: int = 0
    rope: torch.dtype | None = None
    num_splits: int | None = None
    softmax_scale: float | None = None
    growth: float = 0.0
    sharpness: float = 1.0
    arch: str | None = None
    window: tuple[int, int] = WINDOW

    @classmethod
    def of(cls, features: Iterable[str], kernel: str) -> Case:
        """Return the usual case for one of :data:`KERNELS` or :data:`HOPPER_KERNELS`."""
        found = (KERNELS | HOPPER_KERNELS)[kernel]
        return cls(frozenset(features), **found._asdict())

    @property
    def name(self) -> str:
        """Short and unique."""
        depth = f"d{self.head_dim}" + (f"/{self.head_dim_v}" if self.head_dim_v else "")
        parts = [dtype_name(self.dtype), depth, "+".join(sorted(self.features)) or "plain"]
        parts += [f"{self.num_qo}q"] if self.num_qo else []
        parts += ["pair"] * self.pair_cta
        parts += [f"window{self.window[0]}x{self.window[1]}"] if self.window != WINDOW else []
        parts += [self.arch] if self.arch else []
        parts += [f"{dtype_name(self.rope)}_rope"] if self.rope else []
        parts += [f"splits{self.num_splits}"] if (self.num_splits or 1) > 1 else []
        parts += [f"scale{self.softmax_scale}"] if self.softmax_scale is not None else []
        lengths = ",".join(f"{q}x{k}" for q, k in self.lengths)
        return " ".join([*parts, f"h{self.heads}/{self.kv_heads}", lengths])

    def __str__(self) -> str:
        """Return the name as one word."""
        return self.name.replace(" ", "-")

    @property
    def is_fp8(self) -> bool:
        """Whether the operands are float8."""
        return self.dtype is FP8 or bool(self.features & {"fp8", "tokens"})

    @property
    def page_size(self) -> int:
        """Keys of a page, 0 without pages."""
        sizes = [int(name[4:]) for name in self.features if name.startswith("page")]
        return sizes[0] if sizes else 0

    @property
    def sequences(self) -> Lengths:
        """Queries and keys of every sequence, as they come out of the features."""
        queries, keys = self.lengths[0]
        ragged = "ragged" in self.features
        own_keys = ragged or "cache" in self.features or self.page_size
        return tuple((q if ragged else queries, k if own_keys else keys) for q, k in self.lengths)


def dense(
    seqlen_q: int, seqlen_k: int, head_dim: int = 64, heads: int = 1, kv_heads: int = 1,
    *, batch: int = 1, causal: bool = False, **more: Any,
) -> Case:  # fmt: skip
    """Return a case without features but a mask: one kernel, whose keys are not split.

    Kernels with a choice take two Q tiles per CTA, unless ``more`` says otherwise.
    """
    given = {"num_splits": 1, **more}
    if head_dim < SMALLEST_DEPTH:
        given.setdefault("num_qo", None if given.get("pair_cta") else 2)
    return Case(
        frozenset({"causal"} if causal else ()), head_dim, heads=heads, kv_heads=kv_heads,
        lengths=((seqlen_q, seqlen_k),) * batch, **given,
    )  # fmt: skip


def featured(
    features: Iterable[str], head_dim: int, lengths: Lengths, heads: int, **more: Any
) -> Case:
    """Return a case with features, on one key/value head; float8 operands have scales."""
    scaled = {"fp8"} if more.get("dtype") is FP8 else set()
    return Case(
        frozenset({*features, *scaled}), head_dim, heads=heads, kv_heads=1, lengths=lengths, **more
    )


PLACES = ("cache", "page16", "page64", "page256")
"""Where keys lie: at most one of these in a case."""
SCHEDULERS = frozenset({"persistent", "dynamic", "stream_k"})


LARGEST_IN_CLUSTER = 192
"""Head dim up to which a cluster shares keys, or the last CTA of a query tile joins its splits."""
BESIDE_ROPE = (64, 128)
"""Head dims that columns of a type of their own can follow: whole chunks of swizzled columns."""


def fits_one_tile(case: Case) -> bool:
    """Whether the queries of every sequence fit one Q tile, with the heads of a group."""
    rows = max(queries for queries, _ in case.sequences) * (case.heads // case.kv_heads)
    return rows <= (WGMMA_ROWS if case.arch == SM90A else TMEM_LANES)


def is_possible(
    features: Iterable[str],
    head_dim: int = 64,
    num_qo: int | None = None,
    pair_cta: bool = False,
    arch: str | None = None,
) -> bool:
    """Whether the features can be asked for together.

    A cluster shares the keys of a single Q tile, and its CTAs leave together, after one query tile;
    the last CTA joins those of a single Q tile, and is not persistent either. Stream-K takes all
    queries of a sequence in a single Q tile (``fits_one_tile``).
    Rope columns are not for the kernel above head dim 192.
    """
    chosen = {*features}
    if arch == SM90A and chosen & NOT_ON_HOPPER:
        return False
    if of_one_tile := chosen & {"cluster", "last", "stream_k"}:
        fits = head_dim <= LARGEST_IN_CLUSTER or of_one_tile == {"stream_k"}
        serves = num_qo != 2 and not pair_cta and fits
        if not serves or len(of_one_tile | chosen & {"split", *SCHEDULERS}) > 1:
            return False
    if len(chosen & SCHEDULERS) > 1:
        return False
    if "rope" in chosen and head_dim not in BESIDE_ROPE:
        return False
    return len(chosen & {*PLACES}) <= 1
