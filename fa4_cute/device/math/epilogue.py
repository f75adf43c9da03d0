"""Tiles that threads write to shared memory row by row: rounded, in swizzled column chunks."""

from cutlass import Float32, Int32

from ...plan.facts.hardware import OUTPUT_SWIZZLE, UNIT_BYTES, SwizzleMode
from ..memory import shared
from .arith import fma2, mul2, pack16

_LINE_BYTES = 128
"""A swizzle permutes the units of a row by the number of the row's line of this size."""
_WORDS_PER_UNIT = 4
_WORD_BYTES = 4


def normalise_sum(parts: list[tuple[list[Float32], Float32]], ptx_type: str) -> list[Int32]:
    """Return the sum of ``values * factor`` over ``parts``, in 16 bits, two columns a word."""
    (first, scale), *rest = parts
    words = []
    for i in range(0, len(first), 2):
        pair = mul2((first[i], first[i + 1]), (scale, scale))
        for values, factor in rest:
            pair = fma2((values[i], values[i + 1]), (factor, factor), pair)
        words.append(pack16(*pair, ptx_type))
    return words


def weighted_sum(parts: list[tuple[list[Float32], Float32]]) -> list[Float32]:
    """Return the sum of ``values * factor`` over ``parts``."""
    (first, scale), *rest = parts
    total = [value * scale for value in first]
    for values, factor in rest:
        total = [value * factor + before for value, before in zip(values, total, strict=True)]
    return total


def store_row_word(chunk: Int32, row: Int32, place: tuple[int, Int32], word: Int32) -> None:
    """Store one 32-bit word of a row of a staged chunk of 128-byte rows.

    Args:
        chunk: shared address of the chunk, a multiple of the swizzle's pattern.
        row: row of the tile.
        place: the 16-byte unit of the row, and the word in it.
        word: what is stored.
    """
    unit, within = place
    start = chunk + row * OUTPUT_SWIZZLE.bytes
    units = OUTPUT_SWIZZLE.bytes // UNIT_BYTES
    swizzled = (start + (row & (units - 1)) * UNIT_BYTES) ^ unit * UNIT_BYTES
    shared.store_b32(swizzled + within * _WORD_BYTES, word)


def store_row_units(
    chunk: Int32,
    row: Int32,
    first_unit: int,
    words: list[Int32],
    swizzle: SwizzleMode = OUTPUT_SWIZZLE,
    byte_offset: int = 0,
) -> None:
    """Store ``words`` of a row as consecutive 16-byte units of a swizzled chunk.

    Args:
        chunk: shared address of the chunk, a multiple of the swizzle's pattern.
        row: row of the tile.
        first_unit: unit of the first word within the row's bytes of the chunk.
        words: four words per unit.
        swizzle: swizzle of the chunk, whose rows are one span wide.
        byte_offset: what lies between ``chunk`` and the chunk that is meant, a multiple of the
            pattern too: part of the instruction, so that chunks share the registers of one.
    """
    start = chunk + row * swizzle.bytes
    line = row // (_LINE_BYTES // swizzle.bytes) if swizzle.bytes < _LINE_BYTES else row
    units = swizzle.bytes // UNIT_BYTES
    # The row's bytes start at a multiple of their number, so that the unit flips address bits.
    unit_0 = start + (line & (units - 1)) * UNIT_BYTES
    for i in range(0, len(words), _WORDS_PER_UNIT):
        unit = first_unit + i // _WORDS_PER_UNIT
        address = (unit_0 ^ unit * UNIT_BYTES) + byte_offset
        shared.store_vector(address, words[i : i + _WORDS_PER_UNIT])
