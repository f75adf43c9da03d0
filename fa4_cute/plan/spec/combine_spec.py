"""``CombineSpec``: the kernel that puts the partial results of split keys together.

Every split of a query tile writes its own normalised O in float32 and its log-sum-exp. The combine
kernel weighs them: a warp per (query, head) row (``docs/sources.md`` section 9). Results of whole
calls over different keys, whose O has the element type, are put together in the same way.
A row of more columns than a warp's lanes take at a time has a warp for each of its parts: one warp
for two of them waits for the loads of one after those of the other.
Partial O is (split, row, column); row ``r`` is head ``r % heads`` of query ``r // heads``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..facts.dtypes import DType
from ..facts.hardware import SM100A, WARP_THREADS, ceil_div
from .params import KernelParams, lay_out

COLUMNS_PER_LANE: Final = 4
"""Columns a lane takes at a time: 16 bytes of a split's O in float32."""
MAX_SPLITS: Final = 256
"""Most splits of one row."""
FIRST: Final = 4
"""Splits whose O is loaded before their weights are known."""
ABREAST: Final = 16
"""Further splits whose partial results are loaded at the same time: many where the rules split by
themselves, since a step of decoding waits for each of these loads otherwise."""

CALLS_ABREAST: Final = 4
"""The most of them for results of whole calls: those are few, and of many rows."""

_PARAMS: Final = lay_out(
    ("partial_o", "u64"),
    ("partial_lse", "u64"),
    ("o", "u64"),
    ("lse", "u64"),
    ("num_rows", "u64"),
    ("num_splits", "u32"),
    ("num_q_heads", "u32"),
    ("num_queries", "u32"),
)


@dataclass(frozen=True)
class CombineSpec:
    """Static choices of one combine kernel.

    Args:
        dtype: element type of O.
        depth: columns of O, a multiple of 8.
        return_lse: write the log-sum-exp of every row, (sequences, heads, num_queries).
        arch: architecture that the kernel is compiled for.
        of_calls: partial O has the element type of O, not float32.

    Raises:
        ValueError: when the columns of a row are no whole 16 bytes.
    """

    dtype: DType
    depth: int
    return_lse: bool = False
    arch: str = SM100A
    of_calls: bool = False

    def __post_init__(self) -> None:
        """Refuse rows that 16-byte accesses do not cover."""
        if self.depth < 1 or self.depth % (2 * COLUMNS_PER_LANE):
            raise ValueError(f"depth={self.depth}: must be a positive multiple of 8")

    @property
    def name(self) -> str:
        """Entry name of the kernel."""
        lse = "_lse" if self.return_lse else ""
        calls = "_calls" if self.of_calls else ""
        return f"fa4_combine_{self.dtype.value}_d{self.depth}{lse}{calls}"

    @property
    def params(self) -> KernelParams:
        """The parameter list; ``num_queries`` is the queries between two heads of ``lse``."""
        return _PARAMS

    @property
    def ptx_type(self) -> str:
        """PTX name of the element type in conversions."""
        return self.dtype.ptx_name

    @property
    def partial_bytes(self) -> int:
        """Bytes of an element of partial O."""
        return self.dtype.size if self.of_calls else DType.FP32.size

    @property
    def num_threads(self) -> int:
        """Threads per CTA: four warps."""
        return 4 * WARP_THREADS

    @property
    def cluster_size(self) -> int:
        """CTAs per cluster."""
        return 1

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory per CTA."""
        return 0

    @property
    def columns_per_step(self) -> int:
        """Columns that a warp takes at a time."""
        return WARP_THREADS * COLUMNS_PER_LANE

    @property
    def abreast(self) -> int:
        """Splits that a warp loads at the same time."""
        return CALLS_ABREAST if self.of_calls else ABREAST

    @property
    def warps_per_row(self) -> int:
        """Warps that a row has: one for each part of its columns."""
        return ceil_div(self.depth, self.columns_per_step)

    def num_blocks(self, num_rows: int) -> int:
        """Return the CTAs for ``num_rows`` rows."""
        return ceil_div(num_rows * self.warps_per_row * WARP_THREADS, self.num_threads)


def rounds_of_loads(num_splits: int) -> int:
    """Return how often a warp waits for partial results after those of the first splits."""
    return ceil_div(max(0, num_splits - FIRST), ABREAST)
