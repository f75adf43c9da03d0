"""Transposing V of fp8 operands in shared memory: who reads and writes which 16 bytes.

TMA writes V of a key tile with a key a row; wgmma takes fp8 only with the keys along a row. A warp
moves a block of 32 keys and 32 columns at a time, in two halves of 16 keys::

    ldmatrix.x4.trans   four 8 x 8 matrices of 16 bits, that is of two neighbouring columns:
                        matrix i: keys 8 (i % 2) .., columns 16 (i / 2) ..
                        lane t then has keys 2 (t % 4), + 1 of columns 2 (t / 4), + 1
    prmt                of keys .., + 8 one column's four bytes, the even or the odd column's
    stmatrix.x4         four matrices of 8 columns with 16 keys each

Four bytes of a lane are keys 2 q, 2 q + 1, 8 + 2 q, 8 + 2 q + 1: the order in which P has them
(``plan.facts.wgmma``). Matrix 0 has the even columns in its upper four rows and the odd ones
in the lower four, matrix 1 the others: then eight rows lie in different banks for every swizzle.

Methods take and return integers, or registers of a kernel. Sources: PTX ISA, "ldmatrix",
"stmatrix", "prmt"; swizzles: "Swizzling modes" of tensor copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..config.sm90_config import SM90Config
from ..facts.hardware import UNIT_BYTES, SwizzleMode
from ..facts.wgmma import KEY_STEP

BLOCK: Final = 32
"""Keys and columns that a warp moves at a time."""
HALVES: Final = BLOCK // KEY_STEP
EVEN_BYTES: Final = 0x6420
"""Selector of ``prmt``: the even column's bytes of two words, the first word's first."""
ODD_BYTES: Final = 0x7531
_LINE_BYTES: Final = 128
_MATRIX_ROWS: Final = 8
_LOWER_ROWS: Final = 4


@dataclass(frozen=True)
class ValueTranspose:
    """V of one key tile: a slot as it is loaded, and one as it is multiplied.

    Args:
        keys: keys of the tile.
        columns: bytes of a row, padding included.
        loaded: swizzle of the slot that TMA fills.
        stored: swizzle of the slot that wgmma reads.
    """

    keys: int
    columns: int
    loaded: SwizzleMode
    stored: SwizzleMode

    @classmethod
    def of(cls, config: SM90Config) -> ValueTranspose:
        """Return what goes with the tiles of ``config``."""
        columns = config.v_cols_per_cta() * config.qkv_dtype_size
        return cls(config.BN, columns, config.value_swizzle, config.transposed_swizzle)

    @property
    def num_blocks(self) -> int:
        """Blocks of a tile."""
        return self.keys // BLOCK * (self.columns // BLOCK)

    def source(self, lane: Any, block: Any, half: int) -> Any:
        """Return the byte of the loaded slot that ``lane`` names for one half of ``block``."""
        key_block, column_block = self._place(block)
        rows = SlotRows(self.loaded, self.keys)
        of_lane = rows.of_lane(lane % KEY_STEP, lane // KEY_STEP)
        first_key = key_block * BLOCK + half * KEY_STEP
        return rows.byte(of_lane, first_key, column_block * HALVES)

    def target(self, lane: Any, block: Any, half: int) -> Any:
        """Return the byte of the transposed slot that ``lane`` names for that half."""
        key_block, column_block = self._place(block)
        rows = SlotRows(self.stored, self.columns)
        row, matrix = lane % _MATRIX_ROWS, lane // _MATRIX_ROWS
        within = matrix // HALVES * KEY_STEP + row * 2 + self.is_odd(row, matrix)
        return rows.byte(
            rows.of_lane(within, 0), column_block * BLOCK, key_block * HALVES + half
        )

    def _place(self, block: Any) -> tuple[Any, Any]:
        of_keys = self.keys // BLOCK
        return block % of_keys, block // of_keys

    @staticmethod
    def is_odd(row: Any, matrix: Any) -> Any:
        """Return 1 where ``row`` of ``matrix`` is of an odd column."""
        return (matrix + row // _LOWER_ROWS) % 2


@dataclass(frozen=True)
class SlotRows:
    """Rows of a swizzled slot, chunk after chunk, and where their units of 16 bytes begin.

    A swizzle changes the unit by bits of the row (``exclusive or``), so that what a lane adds and
    what a block adds are found apart: that of the lane once.

    Args:
        swizzle: its span is the width of a chunk.
        num_rows: rows of the slot.
    """

    swizzle: SwizzleMode
    num_rows: int

    @property
    def units(self) -> int:
        """Units of a row of a chunk."""
        return self.swizzle.bytes // UNIT_BYTES

    def of_lane(self, row: Any, unit: Any) -> Any:
        """Return the place of ``unit``, 0 or 1, of ``row``, below 32, from that of a block on."""
        line = row * self.swizzle.bytes // _LINE_BYTES % self.units
        return row * self.swizzle.bytes + (unit ^ line) * UNIT_BYTES

    def byte(self, of_lane: Any, first_row: Any, first_unit: Any) -> Any:
        """Return the byte of a lane's place in the block whose first row and unit these are.

        The row is a multiple of 16, and units of the lane and of the block have no bit in common.
        """
        chunk = first_unit // self.units * (self.num_rows * self.swizzle.bytes)
        within = of_lane ^ first_unit % self.units * UNIT_BYTES
        return chunk + first_row * self.swizzle.bytes + within
