"""Which columns of S a softmax thread holds in registers, and in which order it reads them.

A thread owns one row of a key tile. It needs every score twice: for the maximum, and then for the
exponential. Up to 128 scores stay in registers in between. Of wider tiles only the first half does:
the rest is read for the maximum first, dropped, and read again when its turn comes::

    columns    0 ...            resident ...            bn
    loads          3, 4 ..      0, 1, 2 ..
    batches    0        1       2            3
    P          |b0|b1|b2|b3|    overwrites the low half of the columns, batch by batch

Reading again is safe because P of a batch lies in columns that were read before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..config.tile_config import RESIDENT_COLUMNS

LOAD_COLUMNS: Final = 32
"""Columns per load for the maximum: the width of one visibility test."""


@dataclass(frozen=True)
class ColumnPlan:
    """Loads and batches of one row of ``bn`` scores.

    Raises:
        ValueError: when the columns do not divide into whole batches and loads.
    """

    bn: int
    num_batches: int

    def __post_init__(self) -> None:
        """Refuse a tile that does not come out even."""
        if self.bn % self.num_batches or self.resident % LOAD_COLUMNS or self.bn % LOAD_COLUMNS:
            raise ValueError(
                f"bn={self.bn} does not divide into {self.num_batches} batches and loads of "
                f"{LOAD_COLUMNS} columns; use a multiple of {2 * LOAD_COLUMNS}"
            )

    @property
    def batches(self) -> tuple[range, ...]:
        """Columns of each batch of exponentials."""
        width = self.bn // self.num_batches
        return tuple(range(i * width, (i + 1) * width) for i in range(self.num_batches))

    @property
    def resident(self) -> int:
        """Columns kept in registers: all, or the first half."""
        return self.bn if self.bn <= RESIDENT_COLUMNS else self.bn // 2

    @property
    def loads(self) -> tuple[range, ...]:
        """Loads for the maximum, resident columns last: each is reduced while the next runs."""
        starts = (
            *range(self.resident, self.bn, LOAD_COLUMNS),
            *range(0, self.resident, LOAD_COLUMNS),
        )
        return tuple(range(start, start + LOAD_COLUMNS) for start in starts)

    def is_resident(self, batch: int) -> bool:
        """Whether the scores of ``batch`` are still in registers at its exponentials."""
        return self.batches[batch].start < self.resident
