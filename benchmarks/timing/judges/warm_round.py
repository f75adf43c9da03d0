"""Cases whose tensors lie in the L2 when they begin, as where a kernel follows its own producer.

The other rounds begin with nothing in the L2, and all predictions for a B200 but for steps of
decoding begin with everything there. Kernels are those of the other rounds; their problems are so
small that an H200's L2 keeps what they read, and a run of the same call goes before each that is
measured. Chosen before any was predicted, and predicted before any was measured
(`warm_predicted.json`, then `warm_measured.json`); none was left out.

    CUTE_DSL_ARCH=sm_90a ... python -m benchmarks.timing.judges.predictions warm_predicted.json \\
        --warm
    python -m benchmarks.timing.cycles warm_measured.json --judges FOLDER --warm
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.timing.judges.cases import (
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
from benchmarks.timing.judges.problems import Attention, LayerNorm, Product, Softmax

PREDICTED: Final = Path(__file__).with_name("warm_predicted.json")
MEASURED: Final = PREDICTED.with_name("warm_measured.json")


@dataclass(frozen=True)
class Few(Attention):
    """Attention of so few tokens that Q, K, V and O together are 17 MB.

    Attributes:
        tokens: of all sequences.
    """

    tokens: int = 1024

    @property
    def name(self) -> str:
        """Sizes, mask and tokens."""
        return f"{super().name}, {self.tokens} tokens"

    @property
    def batch(self) -> int:
        """Sequences."""
        return self.tokens // self.length


CUBE: Final = Product(2048, 2048, 2048)


def _products() -> Iterator[Case]:
    for family, rows, columns, x, y in (
        (DENSE, 128, 128, 1, 1), (DENSE, 128, 256, 1, 1), (DENSE, 128, 128, 2, 1),
        (PERSISTENT, 128, 128, 1, 1), (PERSISTENT, 128, 256, 1, 1), (QUACK, 128, 128, 1, 1),
        (QUACK, 128, 192, 1, 1), (QUACK, 128, 256, 1, 1),
    ):  # fmt: skip
        yield clustered(family, CUBE, rows, columns, x, y)
    for family, rows, columns, stages, warps in (
        (COPIED, 64, 128, 4, 4), (COPIED, 128, 128, 3, 8), (COPIED, 128, 256, 3, 8),
        (POINTED, 64, 64, 4, 4), (POINTED, 128, 128, 3, 8),
    ):  # fmt: skip
        yield staged(family, CUBE, (rows, columns), stages, warps)


def _attention() -> Iterator[Case]:
    for length, dim, causal, warps in (
        (1024, 64, False, 4), (1024, 128, False, 8), (1024, 128, True, 8),
    ):  # fmt: skip
        problem = Few(length, dim, causal, by_head=True)
        yield staged(TRITON_ATTENTION, problem, (128, 64), 3, warps)
    for dim, keys, persistent in ((64, 128, False), (128, 128, True), (256, 64, False)):
        yield fmha(Few(1024, dim), 64, keys, persistent=persistent)
    for length, dim, causal, variants in (
        (1024, 64, False, ("as chosen",)),
        (1024, 128, False, ("as chosen", "one tile a CTA", "two consumers", "64 keys")),
        (512, 128, False, ("as chosen",)), (1024, 128, True, ("as chosen",)),
        (1024, 256, False, ("as chosen",)), (1024, 256, True, ("as chosen",)),
    ):  # fmt: skip
        for variant in variants:
            yield Case(OURS, Few(length, dim, causal), variant)


def _rows() -> Iterator[Case]:
    yield Case(TRITON_SOFTMAX, Softmax(2048, 2048), "4 warps", {"warps": 4})
    yield Case(TRITON_NORM, LayerNorm(2048, 2048), "4 warps", {"warps": 4})
    yield Case(NORM, LayerNorm(2048, 2048), "128 threads", {"threads": 128})


WARM: Final = (*_products(), *_attention(), *_rows())
"""Cases of this round, in the order in which they are asked."""
