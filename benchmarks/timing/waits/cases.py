"""The kernels whose waits are asked for. Needs torch only, as a GPU's side does."""

from __future__ import annotations

from typing import Final

from benchmarks.timing.judges.cases import CASES, CUBE, QUACK, Case

_NAMES: Final = (
    "Triton attention d128-2048 128 × 64, 2 stages, 4 warps",
    "Triton attention d128-2048 128 × 64, 2 stages, 8 warps",
    "Triton attention d128-2048 128 × 64, 3 stages, 8 warps",
    "Triton GEMM, boxes 4096x4096x4096 128 × 128, 2 stages, 4 warps",
    "Triton GEMM, boxes 4096x4096x4096 128 × 128, 3 stages, 4 warps",
    "Triton GEMM, pointers 4096x4096x4096 128 × 128, 2 stages, 4 warps",
    "Triton GEMM, pointers 4096x4096x4096 128 × 256, 3 stages, 8 warps",
    "fa4_cute d64-1024 fewer consumers",
    "fa4_cute d64-1024 one tile a CTA",
    "fa4_cute d64-1024 64 keys",
    "fa4_cute d128-2048 two consumers",
    "fa4_cute d256-1024 as chosen",
)  # fmt: skip
"""Cases that are missed or out of order, and beside them some that are not."""
WAITED: Final = (
    *(case for case in CASES if case.name in _NAMES),
    *(Case(QUACK, CUBE, f"{rows} × {columns}", {"tile": (rows, columns)})
      for rows, columns in ((128, 64), (128, 128))),
)  # fmt: skip
"""quack's are among them as cases, which they are not in `CASES`: the ladder has them."""
