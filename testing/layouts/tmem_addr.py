"""Tensor Memory: addresses and the maps from matrices and warps to (lane, column).

128 lanes x 512 columns of 32 bits per CTA; address = lane << 16 | column (PTX ISA, "Tensor Memory
Addressing").  Maps are stated from the cell's side (who holds it), the engine states them from the
thread's side; the tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LANES = 128
COLUMNS = 512
SLICE = 32
"""Columns of the allocation unit."""

LD_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""shape of tcgen05.ld/st -> registers per repetition."""


@dataclass(frozen=True)
class TmemAddress:
    """A cell.

    Raises:
        ValueError: lane or column outside Tensor Memory.
    """

    lane: int
    column: int

    def __post_init__(self) -> None:
        """Refuse cells outside Tensor Memory."""
        if not (0 <= self.lane < LANES and 0 <= self.column < COLUMNS):
            raise ValueError(f"({self.lane}, {self.column}) is outside {LANES} x {COLUMNS}")

    def encode(self) -> int:
        """The 32-bit address."""
        return self.lane << 16 | self.column

    @staticmethod
    def decode(word: int) -> TmemAddress:
        """Read an address; bits 30-31 are the program's and are ignored."""
        return TmemAddress(word >> 16 & 0x3FFF, word & 0xFFFF)


def _holder(shape: str, lane: int, column: int) -> tuple[int, int]:
    """(thread, register) that holds cell (lane, column) of the shape's block."""
    if shape == "32x32b":
        return lane, column
    half, row = divmod(lane, 8)
    if shape == "16x64b":
        return 4 * row + 2 * (column % 2) + half, column // 2
    if shape == "16x128b":
        return 4 * row + column % 4, 2 * (column // 4) + half
    if shape == "16x256b":
        return 4 * row + column % 8 // 2, 4 * (column // 8) + 2 * half + column % 2
    raise ValueError(f"shape {shape!r} is not one of {', '.join(LD_SHAPES)}")


def ld_map(shape: str, count: int, half_offset: int = 0) -> npt.NDArray[np.int64]:
    """Cells of tcgen05.ld/st `.shape.x<count>` without packing.

    Returns:
        int64 array [registers, 32 threads, 2] of (lane, column) relative to the address.  With
        `.pack::16b` the register is made of columns 2c (low half) and 2c + 1, c the column here,
        except that `half_offset` of 16x32bx2 counts physical columns.
    """
    out = np.full((LD_SHAPES[shape] * count, 32, 2), -1, dtype=np.int64)
    if shape == "16x32bx2":
        for register in range(count):
            for thread in range(32):
                upper = thread // 16
                out[register, thread] = thread % 16, register + upper * half_offset
        return out
    columns = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8}[shape] * count
    for lane in range(32 if shape == "32x32b" else 16):
        for column in range(columns):
            thread, register = _holder(shape, lane, column)
            out[register, thread] = lane, column
    return out


def layout_letter(m: int, group: int) -> str:
    """Data path layout of a dense MMA without `.ws`: A, B, D or F.

    Raises:
        ValueError: no layout for this M and cta_group.
    """
    letters = {(256, 2): "A", (128, 2): "B", (128, 1): "D", (64, 1): "F"}
    if (m, group) not in letters:
        raise ValueError(f"M = {m} with cta_group::{group} has no data path layout")
    return letters[m, group]


def d_cells(m: int, n: int, group: int, lane0: int = 0) -> npt.NDArray[np.int64]:
    """Where D lies (PTX ISA, "Data Path Layout Organization").

    Returns:
        int64 array [m, n, 3] of (CTA of the pair, lane, column relative to the accumulator).
    """
    letter = layout_letter(m, group)
    per_cta = m // group
    row, column = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
    cta, local = row // per_cta, row % per_cta
    lane = local
    if letter == "F":
        lane = local // 16 * 32 + local % 16 + lane0
    if letter == "B":
        upper = column // (n // 2)
        lane, column = local + 64 * upper, column % (n // 2)
    return np.stack([cta, lane, column], axis=-1)


def a_lanes(m: int, group: int, lane0: int = 0) -> npt.NDArray[np.int64]:
    """Lanes of A in Tensor Memory, for the rows of one CTA.

    Returns:
        int64 array [copies, rows]: layout B needs every row twice, in lanes r and r + 64.
    """
    letter = layout_letter(m, group)
    rows = np.arange(m // group)
    if letter == "F":
        return (rows // 16 * 32 + rows % 16 + lane0)[None]
    return np.stack([rows, rows + 64]) if letter == "B" else rows[None]


def scale_cells(rows: int) -> npt.NDArray[np.int64]:
    """Scale factors of `rows` rows of A or columns of B.

    Returns:
        int64 array [4 partitions, rows, 2] of (lane, column): all four must hold the same word.
    """
    row = np.arange(rows)
    return np.stack(
        [np.stack([32 * part + row % 32, row // 32], axis=-1) for part in range(4)], axis=0
    )
