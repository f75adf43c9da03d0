"""mov: registers, immediates, special registers, packing and unpacking (PTX ISA, "mov")."""

from __future__ import annotations

from ..ptx.program import Instr, Operand, Reg, Sink, SpecialReg, Vector
from .lowering import Lowering, Mods, instruction

CLOCKS = {
    "%clock": 0,
    "%clock_hi": 1,
    "%clock64": 2,
    "%globaltimer": 2,
    "%globaltimer_lo": 0,
    "%globaltimer_hi": 1,
}


def bits_of(kind: str) -> int:
    """Width of a type name; "pred" is 1."""
    return 1 if kind == "pred" else int(kind.lstrip("busf"))


@instruction("mov")
def move(lo: Lowering, ins: Instr) -> None:
    """mov .pred .b16 ... .b128 .u .s .f, {a, b, ...} packing, special registers, addresses."""
    mods = Mods(ins)
    kind = mods.last()
    mods.done()
    bits = bits_of(kind)
    d, a = ins.operands
    if kind == "pred":
        slot, negated = lo.pred_src(a)
        lo.emit("MOV_PRED", d=[lo.pred_dst(d)], s=[slot], sub=(negated,), cost=2)
    elif isinstance(a, SpecialReg) and a.name in CLOCKS:
        lo.emit("CLOCK", d=[lo.dst(d, bits)], sub=(CLOCKS[a.name],), cost=2)
    elif isinstance(a, Vector):
        _pack(lo, d, a.items, bits)
    elif isinstance(d, Vector):
        _unpack(lo, d.items, a, bits)
    elif isinstance(a, SpecialReg) and bits == 64:
        lo.emit("PACK_64", d=[lo.dst(d, 64)], s=[lo.special(a.name), lo.constant(0, 32)], cost=2)
    else:
        name = "MOV_128" if bits == 128 else "MOV_64" if bits == 64 else "MOV_32"
        lo.emit(name, d=[lo.dst(d, bits)], s=[lo.src(a, bits)], cost=2)


def _parts(lo: Lowering, count: int, bits: int) -> int:
    part = bits // count
    if part * count != bits or part not in (8, 16, 32, 64):
        raise lo.fail(f"{count} parts of a {bits}-bit register")
    return part


def _pack(lo: Lowering, d: Operand, items: tuple[Operand, ...], bits: int) -> None:
    part = _parts(lo, len(items), bits)
    sources = [lo.src(item, part) for item in items]
    name = "PACK_128" if bits == 128 else "PACK_64" if part == 32 else "PACK"
    lo.emit(name, d=[lo.dst(d, bits)], s=sources, sub=(part,), cost=0)


def _unpack(lo: Lowering, items: tuple[Operand, ...], a: Operand, bits: int) -> None:
    part = _parts(lo, len(items), bits)
    if not all(isinstance(item, Reg | Sink) for item in items):
        raise lo.fail("the parts of a destination must be registers or _")
    outs = [lo.temp(part) if isinstance(item, Sink) else lo.dst(item, part) for item in items]
    name = "UNPACK_128" if bits == 128 else "UNPACK_64" if part == 32 else "UNPACK"
    lo.emit(name, d=outs, s=[lo.src(a, bits)], sub=(part,), cost=0)
