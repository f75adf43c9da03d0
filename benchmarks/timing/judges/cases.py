"""What is asked of the kernels that judge the machine. Needs torch only, as a GPU's side does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

Shapes = dict[str, tuple[int, ...]]
Tensors = Mapping[str, torch.Tensor]
TOKENS: Final = 16384
HIDDEN: Final = 2048
"""Rows of all sequences of a batch, and columns of all its heads."""
EPSILON: Final = 1e-5
ROUNDED: Final = 1e-2
"""Relative error that roundings to float16 or bfloat16 may make."""
WRITTEN: Final = ("out", "lse")


def error_of(out: torch.Tensor, expected: torch.Tensor) -> float:
    """How far a result is from what it should be, as a share of that; compare with `ROUNDED`."""
    return float((out.float() - expected).norm() / expected.norm())


@dataclass(frozen=True)
class Product:
    """out = a b' in float16 with sums in float32: a is (m, k), b (n, k), out (m, n)."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """Sizes."""
        return f"{self.m}x{self.n}x{self.k}"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {"a": (self.m, self.k), "b": (self.n, self.k), "out": (self.m, self.n)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["a"].float() @ t["b"].float().T


@dataclass(frozen=True)
class Attention:
    """Attention of all keys, or of those up to the query's own place where `causal`.

    Attributes:
        by_head: the rows of a head lie together: (batch, heads, length, dim); else (batch, length,
            heads, dim).
    """

    length: int
    dim: int
    causal: bool = False
    by_head: bool = False

    @property
    def name(self) -> str:
        """Sizes and mask."""
        return f"d{self.dim}-{self.length}" + "-causal" * self.causal

    @property
    def batch(self) -> int:
        """Sequences."""
        return TOKENS // self.length

    @property
    def heads(self) -> int:
        """Heads of queries, keys and values."""
        return HIDDEN // self.dim

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        middle = (self.heads, self.length) if self.by_head else (self.length, self.heads)
        return dict.fromkeys(("q", "k", "v", "out"), (self.batch, *middle, self.dim))

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        q, k, v = (t[n].float() if self.by_head else t[n].float().transpose(1, 2) for n in "qkv")
        scores = q @ k.mT * self.dim**-0.5
        if self.causal:
            later = torch.ones(self.length, self.length, device=q.device, dtype=torch.bool)
            scores.masked_fill_(later.triu(1), -torch.inf)
        found = scores.softmax(-1) @ v
        return found if self.by_head else found.transpose(1, 2)


@dataclass(frozen=True)
class Softmax:
    """Each row of x, exponentiated and divided by its sum."""

    rows: int
    columns: int

    @property
    def name(self) -> str:
        """Sizes."""
        return f"{self.rows}x{self.columns}"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return dict.fromkeys(("x", "out"), (self.rows, self.columns))

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["x"].float().softmax(-1)


@dataclass(frozen=True)
class LayerNorm(Softmax):
    """Each row of x less its mean, over its deviation, times `weight` and with `bias` added."""

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {**super().shapes(), "weight": (self.columns,), "bias": (self.columns,)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        x, weight, bias = (t[name].float() for name in ("x", "weight", "bias"))
        normed = torch.nn.functional.layer_norm
        found: torch.Tensor = normed(x, x.shape[-1:], weight, bias, EPSILON)
        return found


Problem = Product | Attention | Softmax


@dataclass(frozen=True)
class Case:
    """A problem for a kernel.

    Attributes:
        family: whose kernel. problem: what it computes. variant: its choices, as a name.
        options: the choices, for the family's program.
    """

    family: str
    problem: Problem
    variant: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def ladder(self) -> str:
        """Cases of one ladder are variants of one problem."""
        return f"{self.family} {self.problem.name}"

    @property
    def name(self) -> str:
        """Unique."""
        return f"{self.ladder} {self.variant}".strip()

    def shapes(self) -> Shapes:
        """Shape by tensor: those of the problem, and what the family's kernel writes besides."""
        found = self.problem.shapes()
        return {**found, "lse": (*found["q"][:-1], 1)} if self.family == FMHA else found

    def dtype(self, name: str) -> torch.dtype:
        """Type of a tensor."""
        if name == "lse":
            return torch.float32
        return torch.bfloat16 if self.family in (OURS, QUACK, FA4) else torch.float16

    def drawn(self, device: str = "cuda") -> dict[str, torch.Tensor]:
        """The tensors with normal numbers, the same each time; what is written has none yet."""
        torch.manual_seed(1)
        return {
            name: torch.full(shape, float("nan"), device=device, dtype=self.dtype(name))
            if name in WRITTEN
            else torch.randn(shape, device=device, dtype=self.dtype(name))
            for name, shape in self.shapes().items()
        }


DENSE, PERSISTENT = "CUTLASS dense GEMM", "CUTLASS persistent GEMM"
FMHA, NORM = "CUTLASS attention", "CUTLASS layer norm"
COPIED, POINTED = "Triton GEMM, boxes", "Triton GEMM, pointers"
TRITON_ATTENTION, TRITON_SOFTMAX = "Triton attention", "Triton softmax"
TRITON_NORM, OURS, QUACK, FA4 = "Triton layer norm", "fa4_cute", "quack", "FA4"
CUBE: Final = Product(4096, 4096, 4096)


def _products(family: str, *choices: tuple[Product, tuple[int, ...]]) -> Iterator[Case]:
    for problem, (rows, columns, x, y) in choices:
        options = {"tile": (rows, columns), "cluster": (x, y)}
        yield Case(family, problem, f"{rows} × {columns}, cluster {x} × {y}", options)


def _triton_products() -> Iterator[Case]:
    choices = (
        (COPIED, 64, 128, 3, 4), (COPIED, 128, 128, 2, 4), (COPIED, 128, 128, 3, 4),
        (COPIED, 128, 128, 3, 8), (COPIED, 128, 256, 3, 8), (COPIED, 128, 256, 4, 8),
        (POINTED, 64, 64, 3, 4), (POINTED, 128, 128, 2, 4), (POINTED, 128, 128, 3, 8),
        (POINTED, 128, 256, 3, 8),
    )  # fmt: skip
    for family, rows, columns, stages, warps in choices:
        options = {"tile": (rows, columns), "stages": stages, "warps": warps}
        yield Case(family, CUBE, f"{rows} × {columns}, {stages} stages, {warps} warps", options)


def _triton_attention() -> Iterator[Case]:
    choices = (
        (1024, 64, False, 128, 64, 3, 4), (2048, 64, False, 128, 128, 2, 8),
        (2048, 128, False, 128, 64, 2, 4), (2048, 128, False, 128, 64, 2, 8),
        (2048, 128, False, 128, 64, 3, 8), (2048, 128, False, 128, 128, 2, 8),
        (2048, 128, False, 64, 64, 3, 4), (1024, 128, True, 128, 64, 3, 8),
    )  # fmt: skip
    for length, dim, causal, rows, keys, stages, warps in choices:
        problem = Attention(length, dim, causal, by_head=True)
        options = {"tile": (rows, keys), "stages": stages, "warps": warps}
        variant = f"{rows} × {keys}, {stages} stages, {warps} warps"
        yield Case(TRITON_ATTENTION, problem, variant, options)


def _rows() -> Iterator[Case]:
    for columns, warps in ((1024, 4), (4096, 4), (4096, 8), (8192, 16)):
        asked = {"warps": warps}
        yield Case(TRITON_SOFTMAX, Softmax(8192, columns), f"{warps} warps", asked)
        yield Case(TRITON_NORM, LayerNorm(8192, columns), f"{warps} warps", asked)
    for columns, threads in ((2048, 128), (4096, 128), (4096, 256), (8192, 256)):
        asked = {"threads": threads}
        yield Case(NORM, LayerNorm(8192, columns), f"{threads} threads", asked)


def _cutlass_attention() -> Iterator[Case]:
    choices = (
        (1024, 64, 64, 128, False), (2048, 64, 64, 128, True), (2048, 128, 64, 64, False),
        (2048, 128, 64, 128, False), (2048, 128, 64, 128, True), (1024, 256, 64, 64, False),
    )  # fmt: skip
    for length, dim, rows, keys, persistent in choices:
        options = {"tile": (rows, keys), "persistent": persistent}
        variant = f"{rows} × {keys}" + ", persistent" * persistent
        yield Case(FMHA, Attention(length, dim), variant, options)


def _ours() -> Iterator[Case]:
    names = {
        Attention(1024, 64): ("as chosen", "one tile a CTA", "fewer consumers", "2 stages",
                              "64 keys"),
        Attention(4096, 64): ("as chosen", "one tile a CTA"),
        Attention(2048, 128): ("as chosen", "two consumers", "one consumer", "persistent",
                               "48 keys", "64 keys", "96 keys persistent", "64 keys, 2 stages",
                               "two consumers, 208 registers"),
        Attention(1024, 256): ("as chosen", "any time", "32 keys", "48 keys", "208 registers"),
    }  # fmt: skip
    for problem, variants in names.items():
        for variant in variants:
            yield Case(OURS, problem, variant)


CASES: Final = (
    *_products(DENSE, (CUBE, (64, 128, 1, 1)), (CUBE, (128, 128, 1, 1)), (CUBE, (128, 256, 1, 1)),
               (CUBE, (128, 128, 2, 1)), (CUBE, (128, 256, 2, 1)),
               (Product(8192, 8192, 2048), (128, 256, 2, 1))),
    *_products(PERSISTENT, (CUBE, (64, 128, 1, 1)), (CUBE, (128, 128, 1, 1)),
               (CUBE, (128, 256, 1, 1)), (CUBE, (128, 128, 2, 1)), (CUBE, (128, 256, 2, 1))),
    *_cutlass_attention(), *_triton_products(), *_triton_attention(), *_rows(), *_ours(),
)  # fmt: skip
"""All cases, in the order in which they are asked."""
