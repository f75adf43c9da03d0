"""f16 and bf16, one or two in a register (PTX ISA, "Half Precision ... Instructions")."""

from __future__ import annotations

from ...contract.codes import FORMATS, HALF_OPERATIONS, ROUNDINGS, Numeric
from ...contract.forms import Floating, Half
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, Unit

SOURCES = {"fma": 3, "neg": 1, "abs": 1, "ex2": 1, "tanh": 1}
ROUNDING = ROUNDINGS[:4]
TYPES = ("f16x2", "bf16x2", "f16", "bf16")


def _flags(lo: Lowering, ins: Instr, mods: Mods) -> int:
    """The modifiers that the ISA defines for the opcode; others are left and stop the lowering."""
    flags = Numeric(0)
    if ins.opcode in ("min", "max"):
        flags |= Numeric.NAN * mods.take("NaN")
        if mods.take("xorsign"):
            mods.one_of("abs")
            flags |= Numeric.XORSIGN
    elif ins.opcode in ("add", "sub", "mul", "fma"):
        flags |= Numeric.SAT * mods.take("sat")
        flags |= Numeric.RELU * (ins.opcode == "fma" and mods.take("relu"))
        mods.one_of("rn") if ins.opcode == "fma" else mods.take("rn")
    flags |= Numeric.FTZ * mods.take("ftz")
    if flags & (Numeric.FTZ | Numeric.SAT) and ins.mods[-1].startswith("b"):
        raise lo.fail("bf16 has neither .ftz nor .sat here")
    return flags


def arithmetic(lo: Lowering, ins: Instr) -> None:
    """add sub mul fma min max neg abs on .f16 .bf16 .f16x2 .bf16x2; round to nearest even."""
    if ins.opcode not in HALF_OPERATIONS:
        raise lo.fail(f"{ins.opcode} has no 16-bit form here")
    mods = Mods(ins)
    flags = _flags(lo, ins, mods)
    kind = mods.one_of(*TYPES)
    mods.done()
    _emit(lo, ins, kind, flags)


def function(lo: Lowering, ins: Instr) -> None:
    """ex2.approx, tanh.approx on 16-bit formats; ex2.approx.ftz on bf16."""
    if ins.opcode not in HALF_OPERATIONS:
        raise lo.fail(f"{ins.opcode} has no 16-bit form here")
    mods = Mods(ins)
    mods.one_of("approx")
    flags = Numeric.FTZ if ins.opcode == "ex2" and mods.take("ftz") else 0
    kind = mods.one_of(*TYPES)
    mods.done()
    if bool(flags) != (ins.opcode == "ex2" and kind.startswith("b")):
        raise lo.fail("ex2 takes .ftz with bf16 and only there")
    _emit(lo, ins, kind, flags, 16, Unit.MUFU)


def _emit(
    lo: Lowering, ins: Instr, kind: str, flags: int, cost: int = 2, unit: Unit = Unit.ALU
) -> None:
    halves = 2 if kind.endswith("x2") else 1
    d, *sources = ins.operands
    if len(sources) != SOURCES.get(ins.opcode, 2):
        raise lo.fail(f"{SOURCES.get(ins.opcode, 2) + 1} operands expected")
    form = Half(
        format=FORMATS.index(kind.removesuffix("x2")), op=HALF_OPERATIONS.index(ins.opcode),
        flags=flags, halves=halves,
    )  # fmt: skip
    lo.emit(
        "HALF", d=[lo.dst(d, 16 * halves)], s=[lo.src(x, 16 * halves) for x in sources],
        form=form, cost=cost, unit=unit,
    )  # fmt: skip


def mixed(lo: Lowering, ins: Instr) -> None:
    """add, sub, fma{.rn,.rz,.rm,.rp}{.sat}.f32.{f16,bf16}: f32 arithmetic with 16-bit operands.

    `add d, a, c` and `sub d, a, c` widen `a`; `fma d, a, b, c` widens `a` and `b`; one rounding
    (PTX ISA, "Mixed Precision Floating Point Instructions").
    """
    if ins.opcode not in ("add", "sub", "fma"):
        raise lo.fail(f"{ins.opcode} has no mixed-precision form")
    mods = Mods(ins)
    mode = mods.one_of(*ROUNDING) if ins.opcode == "fma" else mods.maybe(*ROUNDING) or "rn"
    sat = mods.take("sat")
    mods.one_of("f32")
    kind = mods.one_of("f16", "bf16")
    mods.done()
    if len(ins.operands) != (4 if ins.opcode == "fma" else 3):
        raise lo.fail("the number of operands is wrong")
    d, *narrow, last = ins.operands
    wide = []
    for operand in narrow:
        slot = lo.temp(32)
        lo.emit(f"CVT_F32_{kind.upper()}", d=[slot], s=[lo.src(operand, 16)], cost=0)
        wide.append(slot)
    op = f"{ins.opcode.upper()}_F32"
    sources = [*wide, lo.src(last, 32)]
    form = Floating(rounding=ROUNDING.index(mode), sat=sat)
    lo.emit(op, d=[lo.dst(d, 32)], s=sources, form=form, cost=1)
