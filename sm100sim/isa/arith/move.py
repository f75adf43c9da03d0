"""mov: registers, immediates, special registers, packing and unpacking (PTX ISA, "mov")."""

from __future__ import annotations

from ...contract.codes import CLOCK_WORDS, COMPARED, COMPARISONS
from ...contract.forms import Compare, Move
from ...ptx.program import Instr, Operand, Reg, Sink, SpecialReg, Vector
from ..lowering import Lowering, Mods, instruction
from .integer import operands

CLOCKS = {
    "%clock": (32, "low"),
    "%clock_hi": (32, "high"),
    "%clock64": (64, "both"),
    "%globaltimer": (64, "both"),
    "%globaltimer_lo": (32, "low"),
    "%globaltimer_hi": (32, "high"),
}
"""Special registers that change: (width, word of the modelled time: low, high, both)."""

WIDTHS = {f"{kind}{bits}": bits for kind in "busf" for bits in (16, 32, 64)}
WIDTHS |= {"pred": 1, "b128": 128}
del WIDTHS["f16"]


@instruction("mov")
def move(lo: Lowering, ins: Instr) -> None:
    """mov .pred .b16 ... .b128 .u .s .f, {a, b, ...} packing, special registers, addresses."""
    mods = Mods(ins)
    kind = mods.last()
    mods.done()
    if kind not in WIDTHS:
        raise lo.fail(f"type .{kind} is not supported")
    bits = WIDTHS[kind]
    operands(lo, ins, 2)
    d, a = ins.operands
    if kind == "pred" and isinstance(a, SpecialReg):
        _flag(lo, d, a)
    elif kind == "pred":
        slot, negated = lo.pred_src(a)
        lo.emit("MOV_PRED", d=[lo.pred_dst(d)], s=[slot], form=Compare(negated_a=negated), cost=2)
    elif isinstance(a, SpecialReg) and a.name in CLOCKS:
        width, word = CLOCKS[a.name]
        if width != bits:
            raise lo.fail(f"{a.name} has {width} bits")
        lo.emit("CLOCK", d=[lo.dst(d, bits)], form=Move(word=CLOCK_WORDS.index(word)), cost=2)
    elif isinstance(a, Vector):
        _pack(lo, d, a.items, bits)
    elif isinstance(d, Vector):
        _unpack(lo, d.items, a, bits)
    elif isinstance(a, SpecialReg) and bits == 64:
        lo.emit("PACK_64", d=[lo.dst(d, 64)], s=[lo.src(a, 32), lo.constant(0, 32)], cost=2)
    else:
        name = "MOV_128" if bits == 128 else "MOV_64" if bits == 64 else "MOV_32"
        lo.emit(name, d=[lo.dst(d, bits)], s=[lo.src(a, bits)], cost=2)


def _flag(lo: Lowering, d: Operand, a: SpecialReg) -> None:
    """A special register that is a predicate."""
    if a.name != "%is_explicit_cluster":
        raise lo.fail(f"{a.name} is not a predicate")
    form = Compare(number=COMPARISONS.index("ne"), type=COMPARED.index("u32"))
    sources = [lo.special(a.name), lo.constant(0, 32)]
    lo.emit("SETP", d=[lo.pred_dst(d)], s=sources, form=form, cost=2)


def _parts(lo: Lowering, items: tuple[Operand, ...], bits: int) -> int:
    """Bits of one part; registers among `items` must be exactly as wide."""
    part = bits // len(items)
    if part * len(items) != bits or part not in (8, 16, 32, 64) or len(items) not in (2, 4):
        raise lo.fail(f"{len(items)} parts of a {bits}-bit register")
    for item in items:
        if isinstance(item, Reg) and item.type.bits != part:
            raise lo.fail(f"{item.name} has {item.type.bits} bits, a part has {part}")
    return part


def _form(name: str, part: int, bits: int) -> str:
    """The handler: of its own for two halves and for 128 bits, else the general one."""
    return f"{name}_{bits}" if bits == 128 or (2 * part == bits and bits in (32, 64)) else name


def _pack(lo: Lowering, d: Operand, items: tuple[Operand, ...], bits: int) -> None:
    part = _parts(lo, items, bits)
    sources = [lo.src(item, part) for item in items]
    name = _form("PACK", part, bits)
    lo.emit(name, d=[lo.dst(d, bits)], s=sources, form=Move(bits=part), cost=0)


def _unpack(lo: Lowering, items: tuple[Operand, ...], a: Operand, bits: int) -> None:
    part = _parts(lo, items, bits)
    if not all(isinstance(item, Reg | Sink) for item in items):
        raise lo.fail("the parts of a destination must be registers or _")
    outs = [lo.temp(part) if isinstance(item, Sink) else lo.dst(item, part) for item in items]
    name = _form("UNPACK", part, bits)
    lo.emit(name, d=outs, s=[lo.src(a, bits)], form=Move(bits=part), cost=0)
