"""GEMMs of quack that are recorded, timed and predicted: a problem in several tiles, and others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Gemm:
    """D = A B' in bf16 with sums in f32: A is (m, k), B (n, k), all rows contiguous.

    Attributes:
        tile, cluster: rows and columns of D of a CTA, and CTAs of a cluster.
        pingpong: two warp groups take turns with whole tiles.
    """

    m: int
    n: int
    k: int
    tile: tuple[int, int]
    cluster: tuple[int, int] = (1, 1)
    pingpong: bool = False

    @property
    def name(self) -> str:
        """Unique: sizes, tile, cluster."""
        turns = "-pingpong" if self.pingpong else ""
        (rows, columns), (x, y) = self.tile, self.cluster
        return f"gemm-{self.m}x{self.n}x{self.k}-tile{rows}x{columns}-cluster{x}x{y}{turns}"

    def shapes(self) -> dict[str, tuple[int, int]]:
        """Shape by tensor."""
        return {"a": (self.m, self.k), "b": (self.n, self.k), "out": (self.m, self.n)}


LADDER: Final = (
    Gemm(4096, 4096, 4096, (128, 64)),
    Gemm(4096, 4096, 4096, (128, 128)),
    Gemm(4096, 4096, 4096, (128, 128), pingpong=True),
    Gemm(4096, 4096, 4096, (128, 192)),
    Gemm(4096, 4096, 4096, (128, 256)),
    Gemm(4096, 4096, 4096, (256, 128)),
    Gemm(4096, 4096, 4096, (128, 256), (2, 1)),
    Gemm(4096, 4096, 1024, (128, 256), (2, 1)),
    Gemm(2048, 2048, 8192, (128, 128), (2, 1)),
    Gemm(8192, 8192, 2048, (128, 256), (2, 1)),
)
"""One problem in tiles of growing size, and other shapes."""
