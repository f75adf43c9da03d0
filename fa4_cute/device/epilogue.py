"""Output of one row per thread: normalise, round, stage in the layout that a TMA store expects."""

from cutlass import Float32, Int32

from .arith import mul2, pack16
from .barriers import store_shared_v4

UNIT_BYTES = 16
"""The 128-byte swizzle permutes 16-byte units within groups of eight rows of 128 bytes."""
UNITS_PER_ROW = 8
_WORDS_PER_UNIT = 4


def normalise(values: list[Float32], factor: Float32, ptx_type: str) -> list[Int32]:
    """Return ``values * factor`` rounded to 16 bits, two columns a word."""
    words = []
    for i in range(0, len(values), 2):
        low, high = mul2((values[i], values[i + 1]), (factor, factor))
        words.append(pack16(low, high, ptx_type))
    return words


def store_row_units(chunk: Int32, row: Int32, first_unit: int, words: list[Int32]) -> None:
    """Store ``words`` of a row as consecutive 16-byte units of a 128-byte swizzled chunk.

    Args:
        chunk: shared address of the chunk, a multiple of 1024.
        row: row of the tile.
        first_unit: unit of the first word within the row's 128 bytes.
        words: four words per unit.
    """
    line = chunk + row * (UNIT_BYTES * UNITS_PER_ROW)
    for i in range(0, len(words), _WORDS_PER_UNIT):
        unit = (row ^ (first_unit + i // _WORDS_PER_UNIT)) & (UNITS_PER_ROW - 1)
        store_shared_v4(line + unit * UNIT_BYTES, words[i : i + _WORDS_PER_UNIT])
