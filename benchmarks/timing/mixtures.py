"""Questions about exponentials, maxima and FMAs of a sub-partition, alone and beside products.

`benchmarks.timing.beside` asked for each kind on its own, and for what attention does with a score.
Here they are mixed in several proportions, none waits for another's result, and products go on for
as long. `benchmarks/timing/h200_mixtures.json` has the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, Final

from benchmarks.timing.beside import BEGIN, KEEP, beside_products
from benchmarks.timing.more_questions import CHAINS, products_beside
from benchmarks.timing.questions import Question

STEPS: Final = (2, 8)
"""With the most of a mixture and two warps 8 steps end before the products do."""
MIXTURES: Final = ((1, 1, 0), (1, 2, 0), (1, 4, 0), (1, 0, 2), (1, 2, 2), (0, 1, 1))
"""Exponentials, maxima and FMAs, in turn."""
PRODUCTS: Final = {
    "no products": None, "n64, A in registers": (64, True), "n128": (128, False),
    "n128, A in registers": (128, True), "n176": (176, False), "n256": (256, False),
}  # fmt: skip
OTHERS: Final = ".reg .f32 %g<32>; " + " ".join(
    f"add.rn.f32 %g{k}, %f0, 0f3F800000;" for k in range(32)
)
KEPT: Final = " ".join(
    f"add.rn.f32 %f{2 + k % CHAINS}, %f{2 + k % CHAINS}, %g{k};" for k in range(32)
)


def step(mixture: tuple[int, int, int]) -> str:
    """Sixteen times what a mixture says; each kind has registers of its own, that take turns."""
    exponentials, maxima, multiplied = mixture
    text, compared, summed = "", 0, 0
    for k in range(CHAINS):
        text += f"ex2.approx.ftz.f32 %f{2 + k}, %f{2 + k}; " * exponentials
        for _ in range(maxima):
            at = compared % 16
            text += f"max.f32 %g{at}, %g{at}, %g{(at + 5) % 16}; "
            compared += 1
        for _ in range(multiplied):
            at = summed % 16
            text += f"fma.rn.f32 %g{16 + at}, %g{16 + at}, %f0, %f0; "
            summed += 1
    return text


def _told(mixture: tuple[int, int, int]) -> str:
    exponentials, maxima, multiplied = mixture
    return f"{exponentials} exponentials, {maxima} maxima and {multiplied} FMAs in turn"


def name_of(mixture: tuple[int, int, int], groups: int, beside: str) -> str:
    """Unique."""
    return f"{_told(mixture)} of {groups} warps a sub-partition beside {beside}"


def _mixed(mixture: tuple[int, int, int], groups: int, beside: str) -> Question:
    return beside_products(
        name_of(mixture, groups, beside), step(mixture), groups, PRODUCTS[beside], BEGIN + OTHERS,
        KEPT + KEEP, STEPS,
    )  # fmt: skip


def _products(mixture: tuple[int, int, int], groups: int, shape: tuple[int, bool]) -> Question:
    return products_beside(
        shape, _told(mixture), step(mixture), groups, BEGIN + OTHERS, KEPT + KEEP
    )


MIXTURE_QUESTIONS: Final = (
    *(_mixed(mixture, groups, beside)
      for beside, mixture, groups in product(PRODUCTS, MIXTURES, (1, 2))
      if (beside, groups) != ("n256", 2)),
    *(_products(mixture, groups, shape)
      for shape, mixture, groups in product(
          ((64, True), (128, False), (128, True), (176, False)), MIXTURES, (1, 2))),
)  # fmt: skip
"""Registers of two such groups and of products with 256 columns do not fit an SM."""


def table(answers: Iterable[Mapping[str, Any]]) -> str:
    """Cycles of one turn of each mixture, of one warp and of two, beside each kind of products."""
    said = {entry["name"]: entry["one"] / CHAINS for entry in answers}
    lines = [
        "| exponentials, maxima, FMAs | " + " | ".join(PRODUCTS) + " |",
        "|---|" + "---|" * len(PRODUCTS),
    ]
    for mixture in MIXTURES:
        cells = []
        for beside in PRODUCTS:
            names = [name_of(mixture, groups, beside) for groups in (1, 2)]
            cells.append(", ".join(f"{said[name]:.1f}" for name in names if name in said))
        lines.append(f"| {', '.join(map(str, mixture))} | {' | '.join(cells)} |")
    return "\n".join(lines)
