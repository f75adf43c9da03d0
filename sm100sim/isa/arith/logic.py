"""Logic, shifts and byte permutation (PTX ISA, "Logic and Shift Instructions")."""

from __future__ import annotations

from ...contract.codes import PRMT_MODES
from ...contract.forms import Compare, Integer
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, instruction
from .integer import operands, three, two


@instruction("and", "or", "xor")
def and_or_xor(lo: Lowering, ins: Instr) -> None:
    """and, or, xor .pred .b16 .b32 .b64."""
    mods = Mods(ins)
    kind = mods.one_of("pred", "b16", "b32", "b64")
    mods.done()
    if kind != "pred":
        bits = int(kind[1:])
        three(lo, ins, f"{ins.opcode.upper()}_{max(bits, 32)}", bits)
        return
    operands(lo, ins, 3)
    d, a, b = ins.operands
    (pa, na), (pb, nb) = lo.pred_src(a), lo.pred_src(b)
    form = Compare(negated_a=na, negated_b=nb)
    lo.emit(f"{ins.opcode.upper()}_PRED", d=[lo.pred_dst(d)], s=[pa, pb], form=form, cost=2)


@instruction("not", "cnot")
def complement(lo: Lowering, ins: Instr) -> None:
    """not .pred .b16 .b32 .b64; cnot .b16 .b32 .b64."""
    mods = Mods(ins)
    kind = mods.one_of(*(("pred",) if ins.opcode == "not" else ()), "b16", "b32", "b64")
    mods.done()
    if kind != "pred":
        two(lo, ins, f"{ins.opcode.upper()}_{kind[1:]}", int(kind[1:]))
        return
    operands(lo, ins, 2)
    slot, negated = lo.pred_src(ins.operands[1])
    form = Compare(negated_a=negated)
    lo.emit("NOT_PRED", d=[lo.pred_dst(ins.operands[0])], s=[slot], form=form, cost=2)


@instruction("shl", "shr")
def shift(lo: Lowering, ins: Instr) -> None:
    """shl .b16 .b32 .b64; shr .b .u .s of these widths; the amount is 32 bit and clamped."""
    mods = Mods(ins)
    kinds = [f"{k}{n}" for k in ("b" if ins.opcode == "shl" else "bus") for n in (16, 32, 64)]
    kind = mods.one_of(*kinds)
    mods.done()
    operands(lo, ins, 3)
    bits = int(kind[1:])
    name = f"SHL_{bits}" if ins.opcode == "shl" else f"SHR_{'S' if kind[0] == 's' else 'U'}{bits}"
    d, a, n = ins.operands
    lo.emit(name, d=[lo.dst(d, bits)], s=[lo.src(a, bits), lo.src(n, 32)], cost=2)


@instruction("shf")
def funnel_shift(lo: Lowering, ins: Instr) -> None:
    """shf.{l,r}.{clamp,wrap}.b32."""
    mods = Mods(ins)
    right = mods.one_of("l", "r") == "r"
    wrap = mods.one_of("clamp", "wrap") == "wrap"
    mods.one_of("b32")
    mods.done()
    operands(lo, ins, 4)
    d, *sources = ins.operands
    form = Integer(right=right, wrap=wrap)
    lo.emit("SHF_32", d=[lo.dst(d, 32)], s=[lo.src(x, 32) for x in sources], form=form, cost=2)


@instruction("lop3")
def lop3(lo: Lowering, ins: Instr) -> None:
    """lop3.b32 with an immediate table."""
    mods = Mods(ins)
    mods.one_of("b32")
    mods.done()
    operands(lo, ins, 5)
    d, a, b, e, table = ins.operands
    sources = [lo.src(x, 32) for x in (a, b, e)]
    form = Integer(table=lo.imm_value(table) & 0xFF)
    lo.emit("LOP3_32", d=[lo.dst(d, 32)], s=sources, form=form, cost=2)


@instruction("prmt")
def permute(lo: Lowering, ins: Instr) -> None:
    """prmt.b32 with a selector or one of the modes f4e b4e rc8 ecl ecr rc16."""
    mods = Mods(ins)
    mods.one_of("b32")
    mode = mods.maybe(*PRMT_MODES[1:])
    mods.done()
    operands(lo, ins, 4)
    d, *sources = ins.operands
    form = Integer(mode=PRMT_MODES.index(mode or "index"))
    lo.emit("PRMT_32", d=[lo.dst(d, 32)], s=[lo.src(x, 32) for x in sources], form=form, cost=2)
