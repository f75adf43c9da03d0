"""``RowCopiesPlan``: how copies of a row put together what each has of O.

Where a query tile has few rows, the lanes of Tensor Memory hold copies of them, each with keys of
its own in every key tile, and so with a sum of its own::

    lanes     0-31      32-63     64-95     96-127          four copies of 32 rows
    keys      0-31      32-63     64-95     96-127          of a tile of 128
    O         sum over these keys, of key tile after key tile

At the end every copy adds up a share of the columns over all copies. It finds the others' in shared
memory, where each of them has left, for every share but its own, float32
[share][copy that left it][columns / 4][row][4]: 16 bytes of neighbouring threads are neighbours.
Both warp groups divide the columns if both have an O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..facts.dtypes import DType
from ..facts.hardware import OUTPUT_SWIZZLE, VECTOR_COLUMNS, align_up

ROW_COPIES: Final = (1, 2, 4)
"""Copies of the rows of a Q tile: the warps of a softmax group hold them, each in whole ones."""
KEYS_OF_COPIES: Final = 128
"""Keys of a tile that copies of the rows divide: each has whole K blocks of an MMA, and as many
scores as a load from Tensor Memory."""


@dataclass(frozen=True)
class RowCopiesPlan:
    """Shares and offsets of one configuration.

    Args:
        copies: copies of each row.
        rows: rows of one copy.
        columns: columns of O, padding included, of which both groups have whole shares.
    """

    copies: int
    rows: int
    columns: int

    @classmethod
    def of(cls, copies: int, rows: int, depth: int, operands: DType) -> RowCopiesPlan:
        """Return the plan of an O of ``depth`` columns, in the output type of ``operands``."""
        return cls(copies, rows, align_up(depth, OUTPUT_SWIZZLE.bytes // operands.output.size))

    def share(self, num_groups: int) -> int:
        """Return the columns that a copy adds up where ``num_groups`` warp groups divide them."""
        return self.columns // (self.copies * num_groups)

    @property
    def vector_bytes(self) -> int:
        """Bytes of four columns of all rows."""
        return self.rows * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of four columns of a row."""
        return VECTOR_COLUMNS * DType.FP32.size

    @property
    def size(self) -> int:
        """Bytes of what all copies leave: each all of its columns but its own share."""
        return (self.copies - 1) * self.columns * self.rows * DType.FP32.size

    def offset(self, share: Any, turn: int, num_groups: int) -> Any:
        """Return where a copy leaves its sums for a share, for row 0.

        Args:
            share: number of the share, over all groups; an integer or a register.
            turn: how many copies after it, in a ring, the one comes that adds the share up; from 1.
            num_groups: warp groups that divide the columns.
        """
        vectors = self.share(num_groups) // VECTOR_COLUMNS
        return (share * (self.copies - 1) + (turn - 1)) * (vectors * self.vector_bytes)
