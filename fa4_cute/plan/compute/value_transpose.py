"""Transposing V of fp8 operands in shared memory: who reads and writes which 16 bytes.

TMA writes V of a key tile with a key a row; wgmma takes fp8 only with the keys along a row. A warp
moves a block of 32 keys and 32 columns at a time, in two halves of 16 keys::

    ldmatrix.x4.trans   four 8 x 8 matrices of 16 bits, that is of two neighbouring columns:
                        matrix i: keys 8 (i % 2) .., columns 16 (i / 2) ..
                        lane t then has keys 2 (t % 4), + 1 of columns 2 (t / 4), + 1
    prmt                of keys .., + 8 one column's four bytes, the even or the odd column's
    stmatrix.x4         four matrices of 8 columns with 16 keys each

Four bytes of a lane are keys 2 q, 2 q + 1, 8 + 2 q, 8 + 2 q + 1: the order in which P has them
(``plan.facts.wgmma.key_at``). Matrix 0 has the even columns in its upper four rows and the odd ones
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

    def place(self, block: Any) -> tuple[Any, Any]:
        """Return which 32 keys and which 32 columns ``block`` is."""
        of_keys = self.keys // BLOCK
        return block % of_keys, block // of_keys

    def source(self, lane: Any, block: Any, half: int) -> Any:
        """Return the byte of the loaded slot that ``lane`` names for one half of ``block``."""
        key_block, column_block = self.place(block)
        row = lane % KEY_STEP
        key = key_block * BLOCK + half * KEY_STEP + row
        unit = column_block * HALVES + lane // KEY_STEP
        return _swizzled(self.loaded, self.keys, key, unit, row)

    def target(self, lane: Any, block: Any, half: int) -> Any:
        """Return the byte of the transposed slot that ``lane`` names for that half."""
        key_block, column_block = self.place(block)
        row, matrix = lane % _MATRIX_ROWS, lane // _MATRIX_ROWS
        within = matrix // HALVES * KEY_STEP + row * 2 + self.is_odd(row, matrix)
        column = column_block * BLOCK + within
        return _swizzled(
            self.stored, self.columns, column, key_block * HALVES + half, within
        )

    @staticmethod
    def is_odd(row: Any, matrix: Any) -> Any:
        """Return 1 where ``row`` of ``matrix`` is of an odd column."""
        return (matrix + row // _LOWER_ROWS) % 2


def _swizzled(mode: SwizzleMode, rows: int, row: Any, unit: Any, row_in_line: Any) -> Any:
    """Return the byte at which 16-byte ``unit`` of ``row`` begins.

    ``row_in_line`` is the row, less a multiple of 16.
    """
    units = mode.bytes // UNIT_BYTES
    line = row_in_line * mode.bytes // _LINE_BYTES % units
    chunk = unit // units * (rows * mode.bytes)
    return chunk + row * mode.bytes + (unit % units ^ line) * UNIT_BYTES
