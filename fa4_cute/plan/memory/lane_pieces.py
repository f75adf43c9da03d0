"""``LanePieces``: how the lanes of a load warp copy a key tile over small pages, 16 bytes each.

A tile lies in shared memory as boxes leave it: rows of one chunk, whose units of 16 bytes are
swizzled. A lane has one unit of the rows of one page, and copies row after row, so that it looks up
one page for a tile::

    lane    0 1 2 3   4 5 6 7   ..   28 29 30 31        rows of 64 bytes, pages of 16
    page       0         1      ..        7
    row     0, 1, ..  1, 0, ..  ..   1, 0, ..           step by step

Pages lie whole patterns of the swizzle apart, and so at the same banks: of two rows that meet all
of them together every other page has the second first. PTX ISA, "Swizzling modes". The arithmetic
serves integers and registers alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..facts.hardware import UNIT_BYTES, WARP_THREADS, SwizzleMode

BANK_ROW_BYTES: Final = 128
"""Bytes of all banks, after which a unit is exchanged with another."""


@dataclass(frozen=True)
class LanePieces:
    """What each lane of a warp copies of a tile whose rows are one chunk.

    Args:
        rows: keys of the tile.
        page_rows: those of a page.
        swizzle: of the tile's memory; its span is a row.

    Raises:
        ValueError: when the units of a row of every page are not as many as a warp has lanes, or a
            page is no whole patterns of the swizzle.
    """

    rows: int
    page_rows: int
    swizzle: SwizzleMode

    def __post_init__(self) -> None:
        """Refuse what lanes do not divide."""
        lanes = self.rows // self.page_rows * self.units
        if self.rows % self.page_rows or lanes != WARP_THREADS:
            raise ValueError(
                f"rows={self.rows}, page_rows={self.page_rows}: {lanes} units of a row of every "
                f"page; a warp has {WARP_THREADS} lanes"
            )
        if self.page_bytes % self.swizzle.pattern_bytes:
            raise ValueError(
                f"page_rows={self.page_rows}: a page of {self.page_bytes} bytes is no whole "
                f"patterns of {self.swizzle.pattern_bytes}"
            )

    @property
    def units(self) -> int:
        """Units of a row."""
        return self.swizzle.bytes // UNIT_BYTES

    @property
    def page_bytes(self) -> int:
        """Bytes of a page in the tile's memory."""
        return self.page_rows * self.swizzle.bytes

    @property
    def steps(self) -> range:
        """The copies of a lane: as many as a page has rows."""
        return range(self.page_rows)

    def page(self, lane: Any) -> Any:
        """Return which page of the tile a lane copies."""
        return lane // self.units

    def unit(self, lane: Any) -> Any:
        """Return which unit of its rows it copies."""
        return lane % self.units

    @property
    def rows_in_turn(self) -> int:
        """Rows that meet all banks together, which pages take in different orders."""
        return BANK_ROW_BYTES // self.swizzle.bytes

    def row(self, lane: Any, step: int) -> Any:
        """Return the row of its page that a lane copies in a step."""
        return self._first(step) + self._within(lane, step)

    def offset(self, lane: Any, step: int) -> Any:
        """Return where in the tile's memory it puts the unit of a step."""
        pair = self._first(step) * self.swizzle.bytes
        turn = pair // BANK_ROW_BYTES % self.units
        start = self.page(lane) * self.page_bytes + (self.unit(lane) ^ turn) * UNIT_BYTES
        return start + self._within(lane, step) * self.swizzle.bytes + pair

    def _first(self, step: int) -> int:
        return step - step % self.rows_in_turn

    def _within(self, lane: Any, step: int) -> Any:
        return self.page(lane) % self.rows_in_turn ^ step % self.rows_in_turn
