"""What is asked of the kernels that judge the machine. Needs torch only, as a GPU's side does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from benchmarks.timing.judges.problems import (
    Attention,
    Bags,
    Flagged,
    Hops,
    LayerNorm,
    Paged,
    Problem,
    Product,
    Shapes,
    Softmax,
    Taps,
    Transposed,
    Weighed,
)

ROUNDED: Final = 1e-2
"""Relative error that roundings to float16 or bfloat16 may make."""
WRITTEN: Final = ("out", "lse")
INTEGERS: Final = ("table", "lengths")


def error_of(out: torch.Tensor, expected: torch.Tensor) -> float:
    """How far a result is from what it should be, as a share of that; compare with `ROUNDED`."""
    return float((out.float() - expected).norm() / expected.norm())


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
        if name in INTEGERS:
            return torch.int32
        if name == "lse":
            return torch.float32
        return torch.bfloat16 if self.family in (OURS, QUACK, FA4) else torch.float16

    def drawn(self, device: str = "cuda") -> dict[str, torch.Tensor]:
        """The tensors with normal numbers, the same each time; what is written has none yet."""
        torch.manual_seed(1)
        return {name: self._drawn(name, shape, device) for name, shape in self.shapes().items()}

    def _drawn(self, name: str, shape: tuple[int, ...], device: str) -> torch.Tensor:
        if name in WRITTEN:
            return torch.full(shape, float("nan"), device=device, dtype=self.dtype(name))
        if name in INTEGERS:
            return self.integers(name).to(device)
        return torch.randn(shape, device=device, dtype=self.dtype(name))

    def integers(self, name: str) -> torch.Tensor:
        """Page tables and lengths, or rows that bags name: the same wherever they are made."""
        shape, drawn = self.shapes()[name], torch.Generator().manual_seed(2)
        if isinstance(self.problem, Bags):
            found = torch.randint(self.problem.rows, shape, generator=drawn)
        elif isinstance(self.problem, Hops):
            ways = self.problem.ways(drawn)
            found = torch.empty(shape)
            found[ways.ravel()] = ways.roll(-1, 1).ravel().float()
        elif isinstance(self.problem, Flagged):
            found = torch.zeros(shape)
        elif name == "table":
            found = torch.randperm(shape[0] * shape[1], generator=drawn).view(shape)
        else:
            assert isinstance(self.problem, Paged)
            found = torch.full(shape, self.problem.length)
        return found.int()


DENSE, PERSISTENT = "CUTLASS dense GEMM", "CUTLASS persistent GEMM"
FMHA, NORM = "CUTLASS attention", "CUTLASS layer norm"
COPIED, POINTED = "Triton GEMM, boxes", "Triton GEMM, pointers"
TRITON_ATTENTION, TRITON_SOFTMAX = "Triton attention", "Triton softmax"
TRITON_NORM, OURS, QUACK, FA4 = "Triton layer norm", "fa4_cute", "quack", "FA4"
TRITON_TAPS, TRITON_BAGS = "Triton taps", "Triton bags"
TRITON_LONG, TRITON_TURNED = "Triton softmax, in pieces", "Triton transposition"
TRITON_WEIGHED, TRITON_FLAGGED = "Triton matrix times vector", "Triton sums with flags"
TRITON_SUMS, TRITON_HOPS = "Triton sums, row by row", "Triton sums of rows that rows name"
LANES: Final = (
    TRITON_TAPS, TRITON_BAGS, TRITON_LONG, TRITON_TURNED, TRITON_WEIGHED, TRITON_FLAGGED,
    TRITON_SUMS, TRITON_HOPS,
)  # fmt: skip
"""Kernels of loads and arithmetic by lanes, whose loops have no barrier: judged apart."""
ROWS: Final = (TRITON_SOFTMAX, TRITON_NORM, NORM)
"""Others without MMAs, which read each row once."""
CUBE: Final = Product(4096, 4096, 4096)


def clustered(family: str, problem: Product, rows: int, columns: int, x: int, y: int) -> Case:
    """A product by tiles of so many rows and columns, by clusters of x times y CTAs."""
    options = {"tile": (rows, columns), "cluster": (x, y)}
    return Case(family, problem, f"{rows} × {columns}, cluster {x} × {y}", options)


def staged(family: str, problem: Problem, tile: tuple[int, int], stages: int, warps: int) -> Case:
    """A program of Triton's by tiles, with so many slots and warps."""
    options = {"tile": tile, "stages": stages, "warps": warps}
    return Case(family, problem, f"{tile[0]} × {tile[1]}, {stages} stages, {warps} warps", options)


def fmha(problem: Attention, rows: int, keys: int, *, persistent: bool) -> Case:
    """CUTLASS's attention by tiles of so many rows and keys."""
    variant = f"{rows} × {keys}" + ", persistent" * persistent
    return Case(FMHA, problem, variant, {"tile": (rows, keys), "persistent": persistent})


def _products(family: str, *choices: tuple[Product, tuple[int, ...]]) -> Iterator[Case]:
    for problem, (rows, columns, x, y) in choices:
        yield clustered(family, problem, rows, columns, x, y)


def _triton_products() -> Iterator[Case]:
    choices = (
        (COPIED, 64, 128, 3, 4), (COPIED, 128, 128, 2, 4), (COPIED, 128, 128, 3, 4),
        (COPIED, 128, 128, 3, 8), (COPIED, 128, 256, 3, 8), (COPIED, 128, 256, 4, 8),
        (POINTED, 64, 64, 3, 4), (POINTED, 128, 128, 2, 4), (POINTED, 128, 128, 3, 8),
        (POINTED, 128, 256, 3, 8),
    )  # fmt: skip
    for family, rows, columns, stages, warps in choices:
        yield staged(family, CUBE, (rows, columns), stages, warps)


def _triton_attention() -> Iterator[Case]:
    choices = (
        (1024, 64, False, 128, 64, 3, 4), (2048, 64, False, 128, 128, 2, 8),
        (2048, 128, False, 128, 64, 2, 4), (2048, 128, False, 128, 64, 2, 8),
        (2048, 128, False, 128, 64, 3, 8), (2048, 128, False, 128, 128, 2, 8),
        (2048, 128, False, 64, 64, 3, 4), (1024, 128, True, 128, 64, 3, 8),
    )  # fmt: skip
    for length, dim, causal, rows, keys, stages, warps in choices:
        problem = Attention(length, dim, causal, by_head=True)
        yield staged(TRITON_ATTENTION, problem, (rows, keys), stages, warps)


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
        yield fmha(Attention(length, dim), rows, keys, persistent=persistent)


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


def _near() -> Iterator[Case]:
    """What the L1 answers: page tables, neighbours, and rows that a CTA asks for again."""
    for dim, page in ((64, 16), (128, 16), (128, 64), (256, 16)):
        yield Case(OURS, Paged(4096, dim, True, page=page), "as chosen")
    for columns, taps, warps in ((4096, 8, 4), (4096, 32, 4), (8192, 16, 8)):
        yield Case(TRITON_TAPS, Taps(2048, columns, taps), f"{warps} warps", {"warps": warps})
    for rows, columns, warps in ((128, 128, 1), (512, 128, 4), (128, 512, 4)):
        problem = Bags(rows, columns, 32768, 32, 64)
        yield Case(TRITON_BAGS, problem, f"{warps} warps", {"warps": warps})


def _pieces() -> Iterator[Case]:
    """Loops over pieces of rows, which the L1 has when they come again, or their lines."""
    for columns, warps in ((8192, 4), (16384, 8), (32768, 8)):
        yield Case(TRITON_LONG, Softmax(4096, columns), f"{warps} warps", {"warps": warps})
    for columns, warps in ((4096, 4), (8192, 2)):
        yield Case(TRITON_WEIGHED, Weighed(8192, columns), f"{warps} warps", {"warps": warps})
        yield Case(TRITON_TURNED, Transposed(4096, columns), f"{warps} warps", {"warps": warps})
    for taps, warps in ((24, 2), (64, 4)):
        yield Case(TRITON_TAPS, Taps(1024, 4096, taps), f"{warps} warps", {"warps": warps})
    yield Case(TRITON_BAGS, Bags(256, 256, 16384, 20, 32), "2 warps", {"warps": 2})


def _flags() -> Iterator[Case]:
    """Fences behind a store, in a CTA an SM or four: each sum is counted with release."""
    for ctas, columns, warps, scope in (
        (132, 1024, 4, "gpu"), (132, 4096, 8, "gpu"), (132, 1024, 1, "gpu"), (528, 1024, 4, "gpu"),
        (132, 1024, 4, "sys"), (132, 1024, 4, "cta"),
    ):  # fmt: skip
        problem, options = Flagged(64 * ctas, columns, 64), {"warps": warps, "scope": scope}
        yield Case(TRITON_FLAGGED, problem, f"{warps} warps, scope {scope}", options)


def _awaited() -> Iterator[Case]:
    """Rows from memory that a CTA waits for one by one, those that come next or any."""
    for ctas, columns, warps in ((132, 512, 1), (132, 2048, 4), (132, 8192, 8), (264, 2048, 2)):
        problem, options = Flagged(32 * ctas, columns, 32), {"warps": warps, "scope": ""}
        yield Case(TRITON_SUMS, problem, f"{warps} warps", options)
    for ctas, columns, warps in ((132, 512, 1), (132, 1024, 4), (132, 4096, 4), (264, 2048, 4)):
        options = {"warps": warps}
        yield Case(TRITON_HOPS, Hops(64 * ctas, columns, 64), f"{warps} warps", options)


def _awaited_again() -> Iterator[Case]:
    """The same with other sizes, and more CTAs an SM, asked when their rule had been made."""
    for ctas, columns, warps, scope in (
        (132, 4096, 4, ""), (264, 8192, 8, ""), (396, 1024, 2, ""), (132, 2048, 2, "gpu"),
        (264, 1024, 4, "cta"),
    ):  # fmt: skip
        family = TRITON_FLAGGED if scope else TRITON_SUMS
        text = f"{warps} warps, scope {scope}" if scope else f"{warps} warps"
        problem = Flagged(48 * ctas, columns, 48)
        yield Case(family, problem, text, {"warps": warps, "scope": scope})
    for ctas, columns, warps in ((396, 1024, 1), (132, 8192, 8)):
        options = {"warps": warps}
        yield Case(TRITON_HOPS, Hops(48 * ctas, columns, 48), f"{warps} warps", options)
    yield Case(TRITON_WEIGHED, Weighed(8192, 2048), "8 warps", {"warps": 8})
    yield Case(TRITON_LONG, Softmax(2048, 16384), "4 warps", {"warps": 4})


CASES: Final = (
    *_products(DENSE, (CUBE, (64, 128, 1, 1)), (CUBE, (128, 128, 1, 1)), (CUBE, (128, 256, 1, 1)),
               (CUBE, (128, 128, 2, 1)), (CUBE, (128, 256, 2, 1)),
               (Product(8192, 8192, 2048), (128, 256, 2, 1))),
    *_products(PERSISTENT, (CUBE, (64, 128, 1, 1)), (CUBE, (128, 128, 1, 1)),
               (CUBE, (128, 256, 1, 1)), (CUBE, (128, 128, 2, 1)), (CUBE, (128, 256, 2, 1))),
    *_cutlass_attention(), *_triton_products(), *_triton_attention(), *_rows(), *_ours(), *_near(),
    *_pieces(), *_flags(), *_awaited(), *_awaited_again(),
)  # fmt: skip
"""All cases, in the order in which they are asked."""
