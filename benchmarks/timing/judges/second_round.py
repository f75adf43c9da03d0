"""Cases of a second round: the same programs on problems and with choices that no chip had run.

Chosen before any was predicted, and predicted before any was measured, by a machine whose rules and
values were those of its commit. None was left out afterwards. What the first round measured by
another name is not among them. Each ladder has the kinds of choices that the first round's has,
whether or not the machine was right there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.timing.judges.cases import (
    CASES,
    COPIED,
    DENSE,
    NORM,
    OURS,
    PERSISTENT,
    POINTED,
    QUACK,
    TRITON_ATTENTION,
    TRITON_NORM,
    TRITON_SOFTMAX,
    Case,
    clustered,
    fmha,
    staged,
)
from benchmarks.timing.judges.problems import Attention, LayerNorm, Paged, Product, Softmax

WIDE: Final = Product(3072, 6144, 2048)
TALL: Final = Product(6144, 2048, 3072)
DEEP: Final = Product(2048, 4096, 6144)
SEQUENCES: Final = {
    "full-d64-k8192-b2-h32_32", "full-d96-k8192-b2-h21_21", "full-d128-k8192-b2-h16_16",
    "full-d192_128-k8192-b2-h10_10", "full-d256-k8192-b2-h8_8",
}  # fmt: skip
"""Problems of `benchmarks.hopper.times.problems` that are of this round."""


def _products() -> Iterator[Case]:
    asked = (
        *((DENSE, WIDE, *c) for c in ((64, 128, 1, 1), (128, 128, 1, 1), (128, 256, 1, 1),
                                      (128, 128, 1, 2), (128, 256, 2, 1))),
        *((PERSISTENT, TALL, *c) for c in ((128, 128, 1, 1), (128, 256, 1, 1), (128, 128, 2, 1),
                                           (128, 256, 1, 2))),
        *((QUACK, DEEP, *c) for c in ((128, 128, 1, 1), (128, 192, 1, 1), (128, 256, 1, 1),
                                      (256, 128, 1, 1), (128, 256, 2, 1))),
    )  # fmt: skip
    for family, problem, rows, columns, x, y in asked:
        yield clustered(family, problem, rows, columns, x, y)


def _triton_products() -> Iterator[Case]:
    for family, problem, *choice in (
        (COPIED, DEEP, 64, 128, 4, 4), (COPIED, DEEP, 128, 128, 2, 8),
        (COPIED, DEEP, 128, 128, 4, 4), (COPIED, DEEP, 128, 256, 3, 8),
        (COPIED, DEEP, 256, 128, 3, 8), (POINTED, WIDE, 64, 128, 3, 4),
        (POINTED, WIDE, 128, 64, 4, 4), (POINTED, WIDE, 128, 128, 3, 8),
        (POINTED, WIDE, 128, 256, 3, 8),
    ):  # fmt: skip
        rows, columns, stages, warps = choice
        yield staged(family, problem, (rows, columns), stages, warps)


def _attention() -> Iterator[Case]:
    for length, dim, causal, rows, keys, stages, warps in (
        (4096, 64, False, 128, 64, 3, 4), (1024, 128, False, 128, 64, 3, 8),
        (4096, 128, False, 64, 64, 3, 4), (4096, 128, False, 128, 64, 2, 8),
        (4096, 128, False, 128, 64, 3, 8), (1024, 64, True, 128, 64, 3, 4),
    ):  # fmt: skip
        problem = Attention(length, dim, causal, by_head=True)
        yield staged(TRITON_ATTENTION, problem, (rows, keys), stages, warps)
    for length, dim, rows, keys, persistent in (
        (2048, 64, 64, 128, False), (1024, 128, 64, 128, False), (4096, 128, 64, 128, True),
        (2048, 256, 64, 64, False),
    ):  # fmt: skip
        yield fmha(Attention(length, dim), rows, keys, persistent=persistent)


def _rows() -> Iterator[Case]:
    for rows, columns, warps in ((16384, 2048, 4), (4096, 16384, 16)):
        yield Case(TRITON_SOFTMAX, Softmax(rows, columns), f"{warps} warps", {"warps": warps})
        yield Case(TRITON_NORM, LayerNorm(rows, columns), f"{warps} warps", {"warps": warps})
    for rows, columns, threads in ((16384, 1024, 128), (4096, 8192, 256)):
        yield Case(NORM, LayerNorm(rows, columns), f"{threads} threads", {"threads": threads})


def _ours() -> Iterator[Case]:
    variants: dict[Attention, tuple[str, ...]] = {
        Attention(2048, 64): ("as chosen", "one tile a CTA", "fewer consumers", "64 keys"),
        Attention(1024, 128): ("two consumers", "one consumer", "64 keys", "48 keys"),
        Attention(2048, 256): ("any time", "32 keys", "48 keys"),
    }
    for problem, names in variants.items():
        for name in names:
            yield Case(OURS, problem, name)
    for dim, page, queries in ((64, 64, 2048), (128, 128, 512)):
        yield Case(OURS, Paged(8192, dim, True, page=page, queries=queries), "as chosen")


SECOND: Final = (*_products(), *_triton_products(), *_attention(), *_rows(), *_ours())
"""Cases of this round, in the order in which they are asked."""
EVERY: Final = (*CASES, *SECOND)
"""Those of the first rounds, too."""
NAMES: Final = SEQUENCES | {case.name for case in SECOND}
