"""The kernels whose waits are asked for. Needs torch only, as a GPU's side does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.timing.judges.cases import CASES, CUBE, FA4, OURS, QUACK, Case
from benchmarks.timing.judges.problems import Attention, Shapes


@dataclass(frozen=True)
class Uneven(Attention):
    """Attention whose values have `dim_v` columns."""

    dim_v: int = 0

    @property
    def name(self) -> str:
        """Sizes and mask."""
        return f"d{self.dim}_{self.dim_v}-{self.length}" + "-causal" * self.causal

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        lead = (self.batch, self.length, self.heads)
        columns = {"q": self.dim, "k": self.dim, "v": self.dim_v, "out": self.dim_v}
        return {name: (*lead, count) for name, count in columns.items()}


_NAMES: Final = (
    "Triton attention d128-2048 128 × 64, 2 stages, 4 warps",
    "Triton attention d128-2048 128 × 64, 2 stages, 8 warps",
    "Triton attention d128-2048 128 × 64, 3 stages, 8 warps",
    "Triton GEMM, boxes 4096x4096x4096 128 × 128, 2 stages, 4 warps",
    "Triton GEMM, boxes 4096x4096x4096 128 × 128, 3 stages, 4 warps",
    "Triton GEMM, pointers 4096x4096x4096 128 × 128, 2 stages, 4 warps",
    "Triton GEMM, pointers 4096x4096x4096 128 × 256, 3 stages, 8 warps",
    "fa4_cute d64-1024 fewer consumers",
    "Triton attention d64-2048 128 × 128, 2 stages, 8 warps",
    "fa4_cute d64-1024 one tile a CTA",
    "fa4_cute d64-1024 2 stages",
    "fa4_cute d64-1024 as chosen",
    "fa4_cute d64-1024 64 keys",
    "fa4_cute d128-2048 as chosen",
    "fa4_cute d128-2048 two consumers",
    "fa4_cute d128-2048 64 keys",
    "fa4_cute d128-2048 96 keys persistent",
    "fa4_cute d256-1024 as chosen",
)  # fmt: skip
"""Cases that are missed or out of order, and beside them some that are not."""
WAITED: Final = (
    *(case for case in CASES if case.name in _NAMES),
    *(Case(QUACK, CUBE, f"{rows} × {columns}", {"tile": (rows, columns)})
      for rows, columns in ((128, 64), (128, 128))),
    Case(OURS, Uneven(512, 192, dim_v=128), "as chosen"),
    Case(OURS, Uneven(1024, 192, dim_v=128), "as chosen"),
    Case(FA4, Uneven(2048, 192, causal=True, dim_v=128), "as shipped"),
    Case(FA4, Uneven(2048, 192, dim_v=128), "as shipped"),
)  # fmt: skip
"""quack's are among them as cases, which they are not in `CASES`: the ladder has them."""
