"""f16 and bf16, one or two in a register (PTX ISA, "Half Precision Floating Point Instructions")."""

from __future__ import annotations

from ..ptx.program import Instr
from .lowering import Lowering, Mods, Unit

F16, BF16 = 0, 1
"""`Format` codes of formats.h."""

OPERATIONS = {
    "add": 0,
    "sub": 1,
    "mul": 2,
    "fma": 3,
    "min": 4,
    "max": 5,
    "neg": 6,
    "abs": 7,
    "ex2": 8,
    "tanh": 9,
}
FTZ, SAT, RELU, NAN = 1, 2, 4, 8


def arithmetic(lo: Lowering, ins: Instr) -> None:
    """add sub mul fma min max neg abs on .f16 .bf16 .f16x2 .bf16x2; round to nearest even."""
    if ins.opcode not in OPERATIONS:
        raise lo.fail(f"{ins.opcode} has no 16-bit form here")
    mods = Mods(ins)
    mods.take("rn")
    flags = sum(
        bit
        for name, bit in (("ftz", FTZ), ("sat", SAT), ("relu", RELU), ("NaN", NAN))
        if mods.take(name)
    )
    kind = mods.one_of("f16x2", "bf16x2", "f16", "bf16")
    mods.done()
    _emit(lo, ins, kind, flags, 2, Unit.ALU)


def function(lo: Lowering, ins: Instr) -> None:
    """ex2.approx{.ftz}, tanh.approx on 16-bit formats."""
    if ins.opcode not in OPERATIONS:
        raise lo.fail(f"{ins.opcode} has no 16-bit form here")
    mods = Mods(ins)
    mods.one_of("approx")
    flags = FTZ if mods.take("ftz") else 0
    kind = mods.one_of("f16x2", "bf16x2", "f16", "bf16")
    mods.done()
    _emit(lo, ins, kind, flags, 16, Unit.MUFU)


def _emit(lo: Lowering, ins: Instr, kind: str, flags: int, cost: int, unit: Unit) -> None:
    halves = 2 if kind.endswith("x2") else 1
    form = BF16 if kind.startswith("b") else F16
    d, *sources = ins.operands
    lo.emit(
        "HALF", d=[lo.dst(d, 16 * halves)], s=[lo.src(x, 16 * halves) for x in sources],
        sub=(form, OPERATIONS[ins.opcode], flags, halves), cost=cost, unit=unit,
    )  # fmt: skip


def mixed(lo: Lowering, ins: Instr) -> None:
    """add, sub, fma.rn.f32.{f16,bf16}: f32 arithmetic, first operand(s) 16 bit, one rounding.

    `add d, a, c` and `sub d, a, c` widen `a`; `fma d, a, b, c` widens `a` and `b` (PTX ISA, "Mixed
    Precision Floating Point Instructions").
    """
    mods = Mods(ins)
    mods.take("rn")
    mods.one_of("f32")
    kind = mods.one_of("f16", "bf16")
    mods.done()
    d, *narrow, last = ins.operands
    if len(narrow) != (2 if ins.opcode == "fma" else 1):
        raise lo.fail("operand count")
    source = 9 if kind == "bf16" else 8
    wide = []
    for operand in narrow:
        slot = lo.temp(32)
        lo.emit("CVT", d=[slot], s=[lo.src(operand, 16)], sub=(10 | source << 8, 4), cost=0)
        wide.append(slot)
    op = f"{ins.opcode.upper()}_F32"
    lo.emit(op, d=[lo.dst(d, 32)], s=[*wide, lo.src(last, 32)], sub=(0, 0, 0), cost=1)
