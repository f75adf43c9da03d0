"""Rows of a wgmma accumulator in registers: maxima, exponentials and sums of a thread's two rows.

Four neighbouring lanes share a row (``plan.facts.wgmma``). Hopper has no packed float arithmetic,
so every column is an instruction of its own.
"""

from collections.abc import Sequence
from typing import TypeVar

import cutlass
from cutlass import Float32, Int32, cute

from ...plan.facts.dtypes import DType
from ...plan.facts.wgmma import (
    BLOCK_COLUMNS,
    LANES_PER_ROW,
    NUM_ROWS,
    PAIR,
    operand_order,
    row_registers,
)
from ..ids import lane_index
from .arith import exp2_hardware, fma, max2
from .pack import pack_pairs
from .softmax import Exponent

_CHAINS = 4
Word = TypeVar("Word", Float32, Int32)


def rows_of(registers: Sequence[Float32]) -> list[list[Float32]]:
    """Return the registers of each of the thread's rows."""
    return [
        [registers[i] for i in row_registers(len(registers), half)] for half in range(NUM_ROWS)
    ]


def registers_of(rows: Sequence[Sequence[Float32]]) -> list[Float32]:
    """Return the accumulator whose rows these are: the inverse of :func:`rows_of`."""
    count = sum(len(row) for row in rows)
    found = dict[int, Float32]()
    for half, row in enumerate(rows):
        found |= zip(row_registers(count, half), row, strict=True)
    return [found[i] for i in range(count)]


def first_column() -> Int32:
    """Return the first column of a row that the calling thread holds."""
    return lane_index() % LANES_PER_ROW * 2


def row_in_warp() -> Int32:
    """Return the first row of the calling thread, among those of its warp."""
    return lane_index() // LANES_PER_ROW


def is_first_of_row() -> Int32:
    """Return 0 in one of the threads that share a row: what is done once per row, it does."""
    return lane_index() % LANES_PER_ROW


def neighbour(value: Word, distance: int) -> Word:
    """Return ``value`` of the lane whose number differs by the bit ``distance``. Whole warps."""
    return cute.arch.shuffle_sync_bfly(value, distance)


def from_lane(value: Word, lane: Int32) -> Word:
    """Return ``value`` of a lane, which is the same for all lanes that ask. Whole warps."""
    return cute.arch.shuffle_sync(value, lane)


def joined_with_neighbour(words: Sequence[Int32]) -> tuple[Int32, list[Int32]]:
    """Return a column, from the first of two blocks of columns, and two words that start there.

    Given a word of either block, a pair of columns each. Lanes with an even number get two
    neighbouring words of the first block, the others of the second. Whole warps.
    """
    is_odd = lane_index() % 2 != 0
    sent = Int32(cutlass.select_(is_odd, words[0], words[1]))
    got = neighbour(sent, 1)
    first = Int32(cutlass.select_(is_odd, got, words[0]))
    second = Int32(cutlass.select_(is_odd, words[1], got))
    column = first_column() + cutlass.select_(is_odd, Int32(BLOCK_COLUMNS - PAIR), Int32(0))
    return column, [first, second]


def own_maxima(rows: Sequence[Sequence[Float32]], starts: Sequence[Float32]) -> list[Float32]:
    """Return the maximum of what the calling thread holds of each of ``rows``, and its start."""
    return [_own_max(row, start) for row, start in zip(rows, starts, strict=True)]


def row_maxima(own: Sequence[Float32]) -> list[Float32]:
    """Return the maximum of each row in all threads that share it, of their own. Whole warps."""
    found = list(own)
    for distance in (1, 2):
        others = [neighbour(value, distance) for value in found]
        found = [max2(*both) for both in zip(found, others, strict=True)]
    return found


def _own_max(values: Sequence[Float32], start: Float32) -> Float32:
    chains = [start, *values[: _CHAINS - 1]]
    for i, value in enumerate(values[_CHAINS - 1 :]):
        chains[i % _CHAINS] = max2(chains[i % _CHAINS], value)
    return max2(max2(chains[0], chains[1]), max2(chains[2], chains[3]))


def row_sum(part: Float32) -> Float32:
    """Return the sum of ``part`` over all threads that share the row."""
    for distance in (1, 2):
        part = part + neighbour(part, distance)
    return part


def exponentials(values: Sequence[Float32], exponent: Exponent) -> list[Float32]:
    """Return the powers of two of a row's scores."""
    return [exp2_hardware(fma(value, exponent.scale, exponent.offset)) for value in values]


def total(values: Sequence[Float32]) -> Float32:
    """Return the sum of ``values``, in independent chains."""
    chains = list(values[:_CHAINS])
    for i, value in enumerate(values[_CHAINS:]):
        chains[i % _CHAINS] = chains[i % _CHAINS] + value
    return (chains[0] + chains[1]) + (chains[2] + chains[3])


def scaled_rows(registers: Sequence[Float32], factors: Sequence[Float32]) -> list[Float32]:
    """Return the accumulator with each row multiplied by its factor."""
    rows = rows_of(registers)
    return registers_of([[v * f for v in row] for row, f in zip(rows, factors, strict=True)])


def added_rows(
    registers: Sequence[Float32], factors: Sequence[Float32], more: Sequence[Float32]
) -> list[Float32]:
    """Return the accumulator with each row multiplied by its factor, if there are any, plus
    ``more``."""
    if not factors:
        return [v + m for v, m in zip(registers, more, strict=True)]
    rows = zip(rows_of(registers), factors, rows_of(more), strict=True)
    return registers_of(
        [[fma(v, f, m) for v, m in zip(row, of, strict=True)] for row, f, of in rows]
    )


def packed(registers: Sequence[Float32], dtype: DType) -> list[Int32]:
    """Return columns rounded to ``dtype`` and packed: A of the next product."""
    ordered = [registers[i] for i in operand_order(len(registers), dtype)]
    return pack_pairs(list(zip(ordered[::2], ordered[1::2], strict=True)), dtype)
