"""Where each element of a tile lies in shared memory, against what CuTe's own layouts do.

CuTe writes every element's row, and then its position along K, through its layout and swizzle into
plain host memory; the plan's offset, swizzled, must find it. Nothing is compiled for a GPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import cutlass
import numpy as np
import numpy.typing as npt
import pytest
from cutlass import cute
from cutlass.cute.nvgpu import tcgen05
from cutlass.cute.runtime import make_ptr
from cutlass.cute.typing import AddressSpace

from fa4_cute.device.math import epilogue
from fa4_cute.plan.facts.hardware import OUTPUT_SWIZZLE, SwizzleMode
from fa4_cute.plan.facts.umma import MmaPlan, SmemOperand
from tests.plan.operand_elements import element_offset
from tests.witness.cute_mma import operand_layout, tiled_mma
from tests.witness.plans import operands

ALIGN = 1024
CELLS = {1: cutlass.Uint8, 2: cutlass.Uint16}
OPERANDS = operands()
TILE_ROWS = 128


def title(value: Any) -> str:
    major = "MN" if value.mn_major else "K"
    return f"{value.dtype.value}-{value.mn}x{value.padded_k}-{major}-{value.swizzle.name}"


def swizzled(offset: npt.NDArray[np.int64], swizzle: SwizzleMode) -> npt.NDArray[np.int64]:
    """Exchange the 16-byte units of a span by the number of the 128-byte line (PTX ISA)."""
    return offset ^ (offset >> 7 & swizzle.bytes // 16 - 1) << 4


def cute_writes(
    operand: SmemOperand, plan: MmaPlan, *, is_a: bool, along_k: bool
) -> npt.NDArray[Any]:
    """Return the tile's cells after CuTe wrote each element's row, or position along K."""
    cell = CELLS[operand.dtype.size]
    memory = np.zeros(operand.bytes + ALIGN, np.uint8)
    start = -memory.ctypes.data % ALIGN
    mma_k = operand.dtype.mma_k

    @cute.jit
    def write(pointer: cute.Pointer) -> None:
        layout = operand_layout(plan, tiled_mma(plan), is_a=is_a)
        tile = cute.make_tensor(cute.recast_ptr(pointer, swizzle_=layout.inner), layout.outer)
        for row in cutlass.range(operand.mn):
            for k in cutlass.range(operand.padded_k):
                value = k if cutlass.const_expr(along_k) else row
                tile[((row, k % mma_k), 0, k // mma_k, 0)] = cell(value)

    address = memory.ctypes.data + start
    write(make_ptr(cell, address, AddressSpace.generic, assumed_align=ALIGN))
    return memory[start : start + operand.bytes].view(f"u{operand.dtype.size}")


@pytest.mark.parametrize("operand", OPERANDS, ids=title)
def test_elements_lie_where_cute_puts_them(operand: SmemOperand) -> None:
    plan = OPERANDS[operand]
    rows, ks = np.meshgrid(np.arange(operand.mn), np.arange(operand.padded_k), indexing="ij")
    offsets = np.vectorize(partial(element_offset, operand))(rows, ks)
    places = swizzled(offsets, operand.swizzle) // operand.dtype.size
    is_a = operand == plan.a
    found = [cute_writes(operand, plan, is_a=is_a, along_k=k)[places] for k in (False, True)]
    assert np.array_equal(found[0], rows)
    assert np.array_equal(found[1], ks)


@pytest.mark.parametrize("swizzle", [OUTPUT_SWIZZLE, SwizzleMode.B64], ids=lambda s: s.name)
def test_rows_are_stored_where_cute_puts_them(
    swizzle: SwizzleMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O tiles of 16-bit elements, and P of the depth-512 kernel (fp8 in 64-byte spans)."""
    kind, element = {
        SwizzleMode.B128: (tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.BFloat16),
        SwizzleMode.B64: (tcgen05.SmemLayoutAtomKind.K_SW64, cutlass.Float8E4M3FN),
    }[swizzle]
    memory = np.zeros(TILE_ROWS * swizzle.bytes + ALIGN, np.uint8)
    start = -memory.ctypes.data % ALIGN
    cell = CELLS[element.width // 8]
    columns = swizzle.bytes * 8 // element.width

    @cute.jit
    def write(pointer: cute.Pointer) -> None:
        atom = tcgen05.make_smem_layout_atom(kind, element)
        layout = cute.tile_to_shape(atom, (TILE_ROWS, columns), order=(0, 1))
        tile = cute.make_tensor(cute.recast_ptr(pointer, swizzle_=layout.inner), layout.outer)
        for row in cutlass.range(TILE_ROWS):
            for column in cutlass.range(columns):
                tile[row, column] = cell((row + column * 3) & 0xFF)

    address = memory.ctypes.data + start
    write(make_ptr(cell, address, AddressSpace.generic, assumed_align=ALIGN))
    stored: dict[int, tuple[int, int]] = {}
    for row in range(TILE_ROWS):
        words = [(row, word) for word in range(swizzle.bytes // 4)]
        monkeypatch.setattr(
            "fa4_cute.device.math.epilogue.shared.store_vector",
            lambda at, four: stored.update({at + 4 * i: word for i, word in enumerate(four)}),
        )
        epilogue.store_row_units(0, row, 0, words, swizzle)
    cells = memory[start : start + TILE_ROWS * swizzle.bytes].view(f"u{element.width // 8}")
    per_word = 32 // element.width
    for address, (row, word) in stored.items():
        first = address // (element.width // 8)
        expected = [(row + (word * per_word + i) * 3) & 0xFF for i in range(per_word)]
        assert cells[first : first + per_word].tolist() == expected, (row, word)
    assert len(stored) == TILE_ROWS * swizzle.bytes // 4
