"""Integer arithmetic with carry (PTX ISA, "Extended-Precision Integer Arithmetic Instructions")."""

from __future__ import annotations

from ...ptx.program import Instr
from ..lowering import Lowering, Mods, instruction

KINDS = ("u32", "s32", "u64", "s64")


@instruction("addc", "subc")
def sum_with_carry(lo: Lowering, ins: Instr) -> None:
    """addc, subc {.cc} .u32 .s32 .u64 .s64, and add.cc, sub.cc: carry or borrow in CC.CF."""
    mods = Mods(ins)
    writes = mods.take("cc")
    bits = int(mods.one_of(*KINDS)[1:])
    mods.done()
    _emit(lo, ins, f"{ins.opcode[:3].upper()}C_{bits}", bits, writes)


@instruction("madc")
def product_with_carry(lo: Lowering, ins: Instr) -> None:
    """madc .lo .hi {.cc} .u32 .s32 .u64 .s64, and mad.cc: the half product plus c, with CC.CF."""
    mods = Mods(ins)
    part = mods.one_of("lo", "hi")
    writes = mods.take("cc")
    kind = mods.one_of(*KINDS)
    mods.done()
    name = f"MADC_LO_{kind[1:]}" if part == "lo" else f"MADC_HI_{kind.upper()}"
    _emit(lo, ins, name, int(kind[1:]), writes)


def _emit(lo: Lowering, ins: Instr, name: str, bits: int, writes: bool) -> None:
    """One operation; an opcode that ends in "c" takes the carry in, `.cc` keeps the one out."""
    count = 4 if name.startswith("MAD") else 3
    if len(ins.operands) != count:
        raise lo.fail(f"{count} operands expected, {len(ins.operands)} given")
    d, *sources = ins.operands
    carry = lo.carry() if ins.opcode.endswith("c") else lo.constant(0, 32)
    lo.emit(
        name,
        d=[lo.dst(d, bits), lo.carry() if writes else lo.program.slots.scratch(32)],
        s=[*(lo.src(x, bits) for x in sources), carry],
        cost=2,
    )
