"""Matrix loads and stores of shared memory (PTX ISA 9.7.14.5.15 "ldmatrix", 9.7.14.5.16
"stmatrix")."""

from __future__ import annotations

from ...ptx.program import Instr, Operand, Vector
from ..addressing import Space, place, take_space
from ..lowering import Lowering, Mods, Unit, instruction

SHAPE_B16, SHAPE_B16_TRANS, SHAPE_B8_16X16, SHAPE_B8_16X8 = range(4)
ROWS = {SHAPE_B16: 8, SHAPE_B16_TRANS: 8, SHAPE_B8_16X16: 16, SHAPE_B8_16X8: 8}
"""Rows of 16 bytes, and so address lanes, per matrix."""


def _form(lo: Lowering, mods: Mods, *, store: bool) -> tuple[int, int, Space]:
    """(shape code, matrices, space) of the modifiers."""
    mods.one_of("sync")
    mods.one_of("aligned")
    shape = mods.one_of("m8n8", "m16n8" if store else "m16n16")
    count = int(mods.one_of("x1", "x2", "x4")[1])
    trans = mods.take("trans")
    space = take_space(mods, "shared", "shared::cta")
    mods.one_of("b16" if shape == "m8n8" else "b8")
    mods.done()
    if shape == "m8n8":
        return (SHAPE_B16_TRANS if trans else SHAPE_B16), count, space
    if not trans or (shape == "m16n16" and count == 4):
        raise lo.fail(f".{shape} exists with .trans only, and .m16n16 with .x1 and .x2")
    return (SHAPE_B8_16X8 if store else SHAPE_B8_16X16), count, space


def _registers(lo: Lowering, operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise lo.fail(f"{count} registers expected, {len(items)} given")
    return items


@instruction("ldmatrix")
def load_matrix(lo: Lowering, ins: Instr) -> None:
    """ldmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared}.b16 and
    .m16n16.{x1,x2}.trans{.shared}.b8 r, [p]."""
    shape, count, space = _form(lo, mods := Mods(ins), store=False)
    mods.done()
    per_matrix = 2 if shape == SHAPE_B8_16X16 else 1
    items = _registers(lo, ins.operands[0], count * per_matrix)
    slot, offset, bits = place(lo, ins.operands[1], space)
    lo.emit(
        "LDMATRIX",
        [lo.dst(x, 32) for x in items],
        (slot,),
        (space, shape, bits, ROWS[shape] * count),
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
    items = _registers(lo, ins.operands[1], count)
    slot, offset, bits = place(lo, ins.operands[0], space)
    lo.emit(
        "STMATRIX",
        (),
        (slot, *(lo.src(x, 32) for x in items)),
        (space, shape, bits, ROWS[shape] * count),
        offset,
        len(items),
        Unit.LSU,
    )
