"""``ReduceScatterPlan``: how the CTAs of a cluster put the partitions of a query tile together.

Partition ``p`` of the key tiles is computed by CTA ``p`` of the cluster. Each CTA normalises its
own O and deposits it in its shared memory, with the maximum and the sum of every row; then CTA
``p`` adds up the columns of band ``p``, over all CTAs, and stores them. The memory is that of the Q
tile and the K/V ring, which are free by then::

    0                     partial O        f32 [columns / 4][row][4]
    row_values_offset     (top, sum)       f32 [row][2]
    output_offset         band of O        [block][row][block_columns], swizzled, 16 bits

The order [columns / 4][row][4] makes the 16 bytes of neighbouring threads neighbours, without bank
conflicts where they are written and in whole lines where another CTA reads them.

Bands are whole blocks, one TMA box each. A block is one swizzle span of O: the widest that keeps
the largest band smallest, but no less than the 32 bytes of a sector of global memory. Where the
columns do not suffice, the last CTAs have less to add up, or nothing.

A warp says "published" for its 32 rows with one arrival per CTA, after a warp barrier that orders
the stores of all its lanes before it: P arrivals a warp instead of P a thread.

Source: ``docs/sources.md`` section 9 with two differences: both softmax warp groups
take part, and blocks are as narrow as the cluster is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..facts.dtypes import DType
from ..facts.hardware import UNIT_BYTES, VECTOR_COLUMNS, SwizzleMode, align_up, ceil_div

MAX_CLUSTER: Final = 8
"""CTAs of a cluster that every device of compute capability 9.0 and later can hold (CUDA
programming guide, "Thread Block Clusters")."""
PIECE_COLUMNS: Final = 32
"""Columns that a thread takes out of Tensor Memory at a time."""
ROW_VALUES: Final = 2
"""Numbers per row besides O: what its sum is relative to, and the sum."""
SOFTMAX_GROUPS: Final = 2
"""Warp groups that share the columns of a CTA and of its band."""
_BLOCK_SWIZZLES: Final = (SwizzleMode.B128, SwizzleMode.B64, SwizzleMode.B32)


@dataclass(frozen=True)
class ReduceScatterPlan:
    """Offsets, bands and counts of one configuration.

    All offsets are bytes from the start of the stage, ``SM100AttentionSMem.reduce_scatter_smem``.

    Args:
        num_partitions: CTAs of the cluster.
        rows: rows of the Q tile.
        depth: columns of O.
        dtype: element type of O.

    Raises:
        ValueError: when this is no cluster.
    """

    num_partitions: int
    rows: int
    depth: int
    dtype: DType

    def __post_init__(self) -> None:
        """Refuse what is no cluster."""
        if not 2 <= self.num_partitions <= MAX_CLUSTER:
            raise ValueError(
                f"num_partitions={self.num_partitions}: a cluster has 2 to {MAX_CLUSTER} CTAs"
            )

    # Bands of columns ------------------------------------------------------------------------

    @property
    def swizzle(self) -> SwizzleMode:
        """Swizzle of a block of O; its span is the block's width."""
        return min(_BLOCK_SWIZZLES, key=lambda swizzle: (self._band(swizzle), -swizzle.bytes))

    @property
    def block_columns(self) -> int:
        """Columns of a block."""
        return self.swizzle.bytes // self.dtype.size

    @property
    def band_columns(self) -> int:
        """Columns of a band, of which the last bands may have fewer."""
        return self._band(self.swizzle)

    @property
    def blocks(self) -> range:
        """Starts of the blocks of a band, relative to its first column."""
        return range(0, self.band_columns, self.block_columns)

    @property
    def unit_columns(self) -> int:
        """Columns that a thread packs at a time."""
        return UNIT_BYTES // self.dtype.size

    def units(self, group: int) -> range:
        """Return the starts, within the band, of the units that softmax group ``group`` adds up."""
        return _share(range(0, self.band_columns, self.unit_columns), group)

    def band_start(self, rank: Any) -> Any:
        """Return the first column of the band of CTA ``rank``, an integer or a register."""
        return rank * self.band_columns

    @property
    def block_end(self) -> int:
        """One past the last column of the blocks that hold real columns: padding is packed too."""
        return align_up(self.depth, self.block_columns)

    def _band(self, swizzle: SwizzleMode) -> int:
        width = swizzle.bytes // self.dtype.size
        return ceil_div(ceil_div(self.depth, width), self.num_partitions) * width

    # Stage -----------------------------------------------------------------------------------

    @property
    def staged_columns(self) -> int:
        """Columns of O that a CTA deposits: whole pieces and whole blocks."""
        return align_up(self.block_end, PIECE_COLUMNS)

    def pieces(self, group: int | None) -> range:
        """Return the starts of the pieces of O that softmax group ``group`` deposits; None: all."""
        whole = range(0, self.staged_columns, PIECE_COLUMNS)
        return whole if group is None else _share(whole, group)

    def partial_offset(self, column: Any) -> Any:
        """Return where four columns of O from ``column`` on lie; add ``row_stride`` per row."""
        return column // VECTOR_COLUMNS * (self.rows * self.row_stride)

    @property
    def row_stride(self) -> int:
        """Bytes between four columns of a row and those of the next row."""
        return VECTOR_COLUMNS * DType.FP32.size

    @property
    def row_values_offset(self) -> int:
        """Where the two numbers of row 0 lie."""
        return self.rows * self.staged_columns * DType.FP32.size

    @property
    def row_values_stride(self) -> int:
        """Bytes between the numbers of a row and those of the next one."""
        return ROW_VALUES * DType.FP32.size

    @property
    def output_offset(self) -> int:
        """Where the packed band starts, on the pattern of its swizzle."""
        end = self.row_values_offset + self.rows * self.row_values_stride
        return align_up(end, self.swizzle.pattern_bytes)

    @property
    def block_bytes(self) -> int:
        """Bytes of a packed block: those of its TMA box."""
        return self.rows * self.swizzle.bytes

    @property
    def size(self) -> int:
        """Bytes of the stage."""
        return self.output_offset + len(self.blocks) * self.block_bytes

    @property
    def remote_bytes(self) -> int:
        """Bytes that a CTA reads of the others: its band, and each group the rows' numbers."""
        of_row = self.band_columns * DType.FP32.size + SOFTMAX_GROUPS * self.row_values_stride
        return (self.num_partitions - 1) * self.rows * of_row


def _share(whole: range, group: int) -> range:
    middle = ceil_div(len(whole), SOFTMAX_GROUPS)
    return whole[middle:] if group else whole[:middle]
