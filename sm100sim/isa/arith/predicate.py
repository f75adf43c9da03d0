"""setp, set, selp, slct, testp (PTX ISA, "Comparison and Selection Instructions")."""

from __future__ import annotations

from collections.abc import Sequence

from ...contract.codes import CLASSES, COMBINATIONS, COMPARED, COMPARISONS, NONE32
from ...contract.forms import Compare
from ...ptx.program import Instr, Operand, PredPair
from ..lowering import Lowering, Mods, instruction
from .integer import operands

UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
KINDS = {
    "b16": "u32", "u16": "u32", "b32": "u32", "u32": "u32", "s32": "s32", "b64": "u64",
    "u64": "u64", "s64": "s64", "s16": "s16", "f32": "f32", "f64": "f64", "f16": "f16",
    "bf16": "bf16", "f16x2": "f16", "bf16x2": "bf16",
}  # fmt: skip
"""Type -> the one of COMPARED that its comparison runs in."""


SET_TO = {
    "f16": ("u16", "s16", "f16", "bf16"), "bf16": ("u16", "s16", "bf16"),
    "f16x2": ("f16x2",), "bf16x2": ("bf16x2",),
}  # fmt: skip
"""Results of `set` by the type of its sources, besides .u32 and .s32 (PTX ISA, "set")."""
YES = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}
"""1.0 of the types of `set` that are floats; the others have all ones."""


def bits_of(kind: str) -> int:
    """Width of a type name such as "s32" or "bf16"."""
    return 32 if kind.endswith("x2") else int(kind.lstrip("busf"))


def _comparison(lo: Lowering, mods: Mods, kind: str) -> dict[str, int]:
    """Fields of `Compare`: comparison, type, flush."""
    name = mods.one_of(*COMPARISONS, *UNSIGNED)
    name = UNSIGNED.get(name, name)
    number = COMPARISONS.index(name)
    if number >= COMPARISONS.index("equ") and "f" not in kind:
        raise lo.fail(f".{name} compares floats only")
    if kind.startswith("b") and "f" not in kind and name not in ("eq", "ne"):
        raise lo.fail(f".{name} needs a type with an order")
    return {
        "number": number,
        "type": COMPARED.index(KINDS[kind]),
        "ftz": mods.take("ftz"),
    }


def _combination(mods: Mods) -> int:
    """The operator that combines the result with a predicate, in COMBINATIONS."""
    return COMBINATIONS.index(mods.maybe(*COMBINATIONS[1:]) or "none")


def _sources(
    lo: Lowering, kind: str, a: Operand, b: Operand, third: Sequence[Operand]
) -> tuple[list[int], bool]:
    """Slots of the compared values and of the combined predicate; whether that is negated."""
    bits = bits_of(kind)
    slots, negated = [lo.src(a, bits), lo.src(b, bits)], False
    if third:
        slot, negated = lo.pred_src(third[0])
        slots.append(slot)
    return slots, negated


@instruction("setp")
def setp(lo: Lowering, ins: Instr) -> None:
    """setp.cmp{.and,.or,.xor}{.ftz}.type p{|q}, a, b{, c}: integers, f16 bf16 f32 f64 f16x2 bf16x2.

    The second predicate is the complement; of packed types, the comparison of the upper halves.
    """
    mods = Mods(ins)
    kind = mods.last()
    if kind not in KINDS:
        raise lo.fail(f"type .{kind} is not supported")
    code = _comparison(lo, mods, kind)
    number = _combination(mods)
    mods.done()
    operands(lo, ins, 4 if number else 3)
    d, a, b, *third = ins.operands
    packed = kind.endswith("x2")
    if packed and not isinstance(d, PredPair):
        raise lo.fail("a packed comparison writes p|q")
    outs = [lo.pred_dst(d.a), lo.pred_dst(d.b)] if isinstance(d, PredPair) else [lo.pred_dst(d)]
    sources, negated = _sources(lo, kind, a, b, third)
    form = Compare(**code, combine=number, negated_a=negated, packed=packed)
    lo.emit("SETP", d=outs, s=sources, form=form, cost=2)


@instruction("set")
def set_value(lo: Lowering, ins: Instr) -> None:
    """set.cmp{.and,.or,.xor}{.ftz}.{u32,s32,f32}.type d, a, b{, c}; to .f16 .bf16 of any type, to
    .u16 .s16 of these two; of f16x2 bf16x2 to the same type or .u32 .s32, half by half."""
    mods = Mods(ins)
    kind = mods.last()
    if kind not in KINDS:
        raise lo.fail(f"type .{kind} is not supported")
    packed = kind.endswith("x2")
    to = ("u32", "s32", *SET_TO.get(kind, ("f32", "f16", "bf16")))
    out = mods.one_of(*to)
    code = _comparison(lo, mods, kind)
    number = _combination(mods)
    mods.done()
    operands(lo, ins, 4 if number else 3)
    d, a, b, *third = ins.operands
    sources, negated = _sources(lo, kind, a, b, third)
    yes = YES.get(out, 0xFFFF if packed or out.endswith("16") else NONE32)
    form = Compare(**code, combine=number, negated_a=negated, packed=packed)
    lo.emit("SET", d=[lo.dst(d, bits_of(out))], s=sources, form=form, imm=yes, cost=2)


@instruction("selp")
def selp(lo: Lowering, ins: Instr) -> None:
    """selp .b16 .b32 .b64 .u .s .f32 .f64 d, a, b, p."""
    mods = Mods(ins)
    kind = mods.last()
    mods.done()
    bits = bits_of(kind) if kind.lstrip("busf").isdigit() else 0
    if bits not in (16, 32, 64):
        raise lo.fail(f"type .{kind} is not supported")
    operands(lo, ins, 4)
    d, a, b, p = ins.operands
    slot, negated = lo.pred_src(p)
    name = "SELP_64" if bits == 64 else "SELP_32"
    lo.emit(
        name,
        d=[lo.dst(d, bits)],
        s=[lo.src(a, bits), lo.src(b, bits), slot],
        form=Compare(negated_a=negated),
        cost=2,
    )


@instruction("testp")
def testp(lo: Lowering, ins: Instr) -> None:
    """testp.{finite,infinite,number,notanumber,normal,subnormal} .f32 .f64."""
    mods = Mods(ins)
    number = CLASSES.index(mods.one_of(*CLASSES))
    kind = mods.one_of("f32", "f64")
    mods.done()
    operands(lo, ins, 2)
    d, a = ins.operands
    source = lo.src(a, bits_of(kind))
    form = Compare(number=number)
    lo.emit(f"TESTP_{kind.upper()}", d=[lo.pred_dst(d)], s=[source], form=form, cost=2)


@instruction("slct")
def slct(lo: Lowering, ins: Instr) -> None:
    """slct{.ftz}.{b,u,s,f}{32,64}.{s32,f32} d, a, b, c: a where c >= 0, else b."""
    mods = Mods(ins)
    test = mods.last()
    ftz = test == "f32" and mods.take("ftz")
    kind = mods.one_of("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
    mods.done()
    if test not in ("s32", "f32"):
        raise lo.fail(f"the selector is .s32 or .f32, not .{test}")
    operands(lo, ins, 4)
    bits = bits_of(kind)
    d, a, b, selector = ins.operands
    sources = [lo.src(a, bits), lo.src(b, bits), lo.src(selector, 32)]
    form = Compare(as_float=test == "f32", ftz=ftz)
    lo.emit(f"SLCT_{bits}", d=[lo.dst(d, bits)], s=sources, form=form, cost=2)
