"""``wgmma.mma_async`` operands as bits: matrix descriptors, k-steps, and whose element is where.

The matrix descriptor is that of ``plan.facts.umma`` without its constant bit 46: start, LBO, SBO
and swizzle stand at the same bits (PTX ISA, "Matrix Descriptor Format" of wgmma; an H200 read the
same addresses, ``docs/hardware.md``). D has 64 rows, 16 for each warp of the warp group.

Thread ``t`` of a warp holds of a 64 x N accumulator (PTX ISA, "Register Fragments for
wgmma.mma_async.m64nNk16")::

    register 4 j + 2 h + e  =  D[16 warp + t / 4 + 8 h,  8 j + 2 (t % 4) + e]

so a thread has two rows, and of each a pair of neighbouring columns in every eight. The A operand
of 16 columns in registers has the same pairs, packed, in the order (j even, h 0), (j even, h 1),
(j odd, h 0), (j odd, h 1): registers ``8 s .. 8 s + 7`` of an accumulator, two by two, are A of
k-step ``s``.

With fp8 operands a thread holds of A four neighbouring columns, ``4 (t % 4) + i``, where the
accumulator has two pairs, ``2 (t % 4) + e`` of two blocks (ISA, "Register Fragments for
wgmma.mma_async.m64nNk32"). No register moves for that: of every sixteen columns of A, column
``4 q + 2 b + e`` is taken to be key ``8 b + 2 q + e``, and V has its keys in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, overload

from .dtypes import DType
from .hardware import align_up
from .umma import GRANULE_SHIFT, SmemOperand

WGMMA_ROWS: Final = 64
"""Rows of D: what one warp group multiplies."""
NUM_ROWS: Final = 2
"""Rows of D that a thread holds elements of."""
ROW_DISTANCE: Final = 8
"""Rows between them."""
LANES_PER_ROW: Final = 4
"""Threads that share a row."""
BLOCK_COLUMNS: Final = 8
"""Columns of which each of these threads holds a pair."""
PAIR: Final = 2
KEY_STEP: Final = 2 * BLOCK_COLUMNS
"""Keys within which those of an fp8 V change places."""
_SM100_CONSTANT: Final = 1 << 46


@dataclass(frozen=True)
class WgmmaPlan:
    """One accumulation D (64 x N) += A B: its instruction and its k-steps.

    Args:
        dtype: type of A and B.
        n: columns of D.
        k: extent multiplied, a multiple of what one instruction takes.
        b: B in shared memory.
        a: A in shared memory, or None when A is in registers.
    """

    dtype: DType
    n: int
    k: int
    b: SmemOperand
    a: SmemOperand | None = None

    def __post_init__(self) -> None:
        """Refuse shapes that no instruction has."""
        if self.n % 8 or not 8 <= self.n <= 256:
            raise ValueError(f"n={self.n}: a wgmma has 8 to 256 columns in steps of 8")
        if self.k % self.dtype.mma_k or self.k < 1:
            raise ValueError(f"k={self.k}: {self.dtype.mma_k} elements are multiplied at a time")
        if self.dtype.size == 1 and self.b.mn_major:
            raise ValueError(f"dtype={self.dtype.value}: a wgmma takes it K-major only")

    @property
    def num_registers(self) -> int:
        """Registers of D in each thread."""
        return self.n // 2

    @property
    def num_steps(self) -> int:
        """Instructions of the accumulation."""
        return self.k // self.dtype.mma_k

    @property
    def instruction(self) -> str:
        """The instruction, without operands."""
        kind = self.dtype.ptx_name
        shape = f"m{WGMMA_ROWS}n{self.n}k{self.dtype.mma_k}"
        return f"wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind}"

    @property
    def a_steps(self) -> tuple[int, ...]:
        """Distance of A of each k-step from the operand's start, in granules of 16 bytes."""
        return () if self.a is None else self._steps(self.a)

    @property
    def b_steps(self) -> tuple[int, ...]:
        """The same for B."""
        return self._steps(self.b)

    def _steps(self, operand: SmemOperand) -> tuple[int, ...]:
        return tuple(operand.k_offset(step) >> GRANULE_SHIFT for step in range(self.num_steps))


def descriptor_words(operand: SmemOperand) -> tuple[int, int]:
    """Return lower and upper word of the matrix descriptor of ``operand`` at address 0."""
    bits = operand.descriptor(0) & ~_SM100_CONSTANT
    return bits & 0xFFFFFFFF, bits >> 32


def row_registers(num_registers: int, half: int) -> tuple[int, ...]:
    """Return which registers of an accumulator belong to the thread's row ``half``."""
    step = NUM_ROWS * PAIR
    return tuple(
        first + half * PAIR + i for first in range(0, num_registers, step) for i in range(PAIR)
    )


def column_registers(start: int, stop: int) -> slice:
    """Return the registers of an accumulator that hold whole blocks of columns."""
    per_block = NUM_ROWS * PAIR
    return slice(start // BLOCK_COLUMNS * per_block, stop // BLOCK_COLUMNS * per_block)


def operand_order(num_registers: int, dtype: DType) -> tuple[int, ...]:
    """Return the registers of an accumulator in the order in which they are packed as A."""
    if dtype.size > 1:
        return tuple(range(num_registers))
    two_blocks = 2 * NUM_ROWS * PAIR
    return tuple(
        first + half * PAIR + block * NUM_ROWS * PAIR + i
        for first in range(0, num_registers, two_blocks)
        for half in range(NUM_ROWS)
        for block in range(2)
        for i in range(PAIR)
    )


@dataclass(frozen=True)
class LaneColumns:
    """The columns of one row that a thread holds, counted from its first one.

    It is read like the ``range`` of a thread that holds all columns of its row.

    Attributes:
        start, stop: columns of all threads that share the row, as a range.
    """

    start: int
    stop: int

    def __len__(self) -> int:
        """Return the number of columns that the thread holds."""
        return (self.stop - self.start) // LANES_PER_ROW

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        """Return the ``index``-th column, or several."""
        blocks = range(self.start, self.stop, BLOCK_COLUMNS)
        return tuple(first + i for first in blocks for i in range(PAIR))[index]


Columns = range | LaneColumns
"""Columns of a row that one thread holds."""


def padded_columns(depth: int) -> int:
    """Return ``depth`` rounded up to the columns of a wgmma."""
    return align_up(depth, BLOCK_COLUMNS)
