"""Matrix loads and stores of shared memory (PTX ISA 9.7.14.5.15 "ldmatrix", 9.7.14.5.16
"stmatrix")."""

from __future__ import annotations

from ...contract.codes import MATRIX_SHAPES, Space
from ...contract.forms import Matrix
from ...ptx.program import Instr
from ..addressing import place, registers, take_space
from ..lowering import Lowering, Mods, Unit, instruction

ROWS = {"b16": 8, "b16_trans": 8, "b8_16x16": 16, "b8_16x8": 8}
"""Rows of 16 bytes, and so address lanes, per matrix."""
PACKED = {"b4x16_p64": 4, "b6x16_p32": 6}
"""Source format of ldmatrix .b8x16 -> bits of an element."""


def _form(lo: Lowering, mods: Mods, *, store: bool) -> tuple[str, int, Space, int]:
    """(shape in MATRIX_SHAPES, matrices, space, bits of packed elements or 0) of the modifiers."""
    mods.one_of("sync")
    mods.one_of("aligned")
    shape = mods.one_of("m8n8", *(("m16n8",) if store else ("m16n16", "m8n16")))
    count = int(mods.one_of("x1", "x2", "x4")[1])
    trans = mods.take("trans")
    space = take_space(mods, "shared", "shared::cta")
    packed = PACKED[mods.one_of(*PACKED)] if not store and mods.take("b8x16") else 0
    if not packed:
        mods.one_of("b16" if shape == "m8n8" else "b8")
    mods.done()
    if (packed and shape == "m8n8") or (shape == "m8n16" and not packed):
        raise lo.fail(".b8x16 exists with .m16n16 and .m8n16, and .m8n16 with .b8x16 only")
    if shape == "m8n8" or (shape == "m8n16" and not trans):
        return ("b16_trans" if trans else "b16"), count, space, packed
    if not trans or shape == "m8n16" or (shape == "m16n16" and count == 4):
        raise lo.fail(
            ".m16n16, .m16n8 exist with .trans only, .m8n16 without, .m16n16 with .x1 and .x2"
        )
    return ("b8_16x8" if store else "b8_16x16"), count, space, packed


def _words(space: Space, shape: str, bits: int, count: int, packed: int) -> Matrix:
    return Matrix(
        space=space, shape=MATRIX_SHAPES.index(shape), address_bits=bits, rows=ROWS[shape] * count,
        packed=packed,
    )  # fmt: skip


@instruction("ldmatrix")
def load_matrix(lo: Lowering, ins: Instr) -> None:
    """ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared}.b16, .m16n16.{x1,x2}.trans.b8 and
    .b8x16.{b4x16_p64,b6x16_p32}, .m8n16.{x1,x2,x4}.b8x16.{b4x16_p64,b6x16_p32} r, [p]."""
    shape, count, space, packed = _form(lo, mods := Mods(ins), store=False)
    mods.done()
    per_matrix = 2 if shape == "b8_16x16" else 1
    items = registers(lo, ins.operands[0], count * per_matrix, "r")
    slot, offset, bits = place(lo, ins.operands[1], space)
    lo.emit(
        "LDMATRIX",
        [lo.dst(x, 32) for x in items],
        (slot,),
        _words(space, shape, bits, count, packed),
        offset,
        len(items),
        Unit.LSU,
    )


@instruction("stmatrix")
def store_matrix(lo: Lowering, ins: Instr) -> None:
    """stmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared}.b16 and
    .m16n8.{x1,x2,x4}.trans{.shared}.b8 [p], r."""
    shape, count, space, _ = _form(lo, mods := Mods(ins), store=True)
    mods.done()
    items = registers(lo, ins.operands[1], count, "r")
    slot, offset, bits = place(lo, ins.operands[0], space)
    lo.emit(
        "STMATRIX",
        (),
        (slot, *(lo.src(x, 32) for x in items)),
        _words(space, shape, bits, count, 0),
        offset,
        len(items),
        Unit.LSU,
    )
