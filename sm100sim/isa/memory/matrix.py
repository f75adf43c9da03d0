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


def _form(lo: Lowering, mods: Mods, *, store: bool) -> tuple[str, int, Space]:
    """(shape in MATRIX_SHAPES, matrices, space) of the modifiers."""
    mods.one_of("sync")
    mods.one_of("aligned")
    shape = mods.one_of("m8n8", "m16n8" if store else "m16n16")
    count = int(mods.one_of("x1", "x2", "x4")[1])
    trans = mods.take("trans")
    space = take_space(mods, "shared", "shared::cta")
    mods.one_of("b16" if shape == "m8n8" else "b8")
    mods.done()
    if shape == "m8n8":
        return ("b16_trans" if trans else "b16"), count, space
    if not trans or (shape == "m16n16" and count == 4):
        raise lo.fail(f".{shape} exists with .trans only, and .m16n16 with .x1 and .x2")
    return ("b8_16x8" if store else "b8_16x16"), count, space


def _words(space: Space, shape: str, bits: int, count: int) -> Matrix:
    return Matrix(
        space=space, shape=MATRIX_SHAPES.index(shape), address_bits=bits, rows=ROWS[shape] * count
    )


@instruction("ldmatrix")
def load_matrix(lo: Lowering, ins: Instr) -> None:
    """ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared}.b16 and
    .m16n16.{x1,x2}.trans{.shared}.b8 r, [p]."""
    shape, count, space = _form(lo, mods := Mods(ins), store=False)
    mods.done()
    per_matrix = 2 if shape == "b8_16x16" else 1
    items = registers(lo, ins.operands[0], count * per_matrix, "r")
    slot, offset, bits = place(lo, ins.operands[1], space)
    lo.emit(
        "LDMATRIX",
        [lo.dst(x, 32) for x in items],
        (slot,),
        _words(space, shape, bits, count),
        offset,
        len(items),
        Unit.LSU,
    )


@instruction("stmatrix")
def store_matrix(lo: Lowering, ins: Instr) -> None:
    """stmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared}.b16 and
    .m16n8.{x1,x2,x4}.trans{.shared}.b8 [p], r."""
    shape, count, space = _form(lo, mods := Mods(ins), store=True)
    mods.done()
    items = registers(lo, ins.operands[1], count, "r")
    slot, offset, bits = place(lo, ins.operands[0], space)
    lo.emit(
        "STMATRIX",
        (),
        (slot, *(lo.src(x, 32) for x in items)),
        _words(space, shape, bits, count),
        offset,
        len(items),
        Unit.LSU,
    )
