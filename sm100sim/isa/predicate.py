"""setp, set, selp, slct, testp (PTX ISA, "Comparison and Selection Instructions")."""

from __future__ import annotations

from ..ptx.program import Instr, PredPair
from .lowering import Lowering, Mods, instruction

COMPARISONS = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
)
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
KINDS = {"b16": 0, "u16": 0, "b32": 0, "u32": 0, "s32": 1, "b64": 2, "u64": 2, "s64": 3, "s16": 4,
         "f32": 5, "f64": 6, "f16": 7, "bf16": 8}  # fmt: skip
COMBINE = ("and", "or", "xor")
CLASSES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def bits_of(kind: str) -> int:
    """Width of a type name such as "s32" or "bf16"."""
    return int(kind.lstrip("busf"))


def _comparison(lo: Lowering, mods: Mods, kind: str) -> int:
    name = mods.one_of(*COMPARISONS, *UNSIGNED)
    name = UNSIGNED.get(name, name)
    number = COMPARISONS.index(name)
    if number > 5 and "f" not in kind:
        raise lo.fail(f".{name} compares floats only")
    return number | KINDS[kind] << 8 | mods.take("ftz") << 16


@instruction("setp")
def setp(lo: Lowering, ins: Instr) -> None:
    """setp.cmp{.and,.or,.xor}{.ftz}.type p{|q}, a, b{, c}: all integer types, f16 bf16 f32 f64."""
    mods = Mods(ins)
    kind = mods.last()
    if kind not in KINDS:
        raise lo.fail(f"type .{kind} is not supported")
    code = _comparison(lo, mods, kind)
    combine = mods.maybe(*COMBINE)
    mods.done()
    d, a, b, *third = ins.operands
    if bool(third) != bool(combine):
        raise lo.fail("a combined predicate and its operator go together")
    outs = [lo.pred_dst(d.a), lo.pred_dst(d.b)] if isinstance(d, PredPair) else [lo.pred_dst(d)]
    bits = bits_of(kind)
    sources, negated = [lo.src(a, bits), lo.src(b, bits)], False
    if third:
        slot, negated = lo.pred_src(third[0])
        sources.append(slot)
    number = COMBINE.index(combine) + 1 if combine else 0
    lo.emit("SETP", d=outs, s=sources, sub=(code, number, negated), cost=2)


@instruction("set")
def set_value(lo: Lowering, ins: Instr) -> None:
    """set.cmp{.ftz}.{u32,s32,f32}.type d, a, b."""
    mods = Mods(ins)
    kind = mods.last()
    if kind not in KINDS:
        raise lo.fail(f"type .{kind} is not supported")
    out = mods.one_of("u32", "s32", "f32")
    code = _comparison(lo, mods, kind)
    mods.done()
    d, a, b = ins.operands
    bits = bits_of(kind)
    lo.emit(
        "SET",
        d=[lo.dst(d, 32)],
        s=[lo.src(a, bits), lo.src(b, bits)],
        sub=(code, 0, 0, out == "f32"),
        cost=2,
    )


@instruction("selp")
def selp(lo: Lowering, ins: Instr) -> None:
    """selp .b16 .b32 .b64 .u .s .f32 .f64 d, a, b, p."""
    mods = Mods(ins)
    kind = mods.last()
    mods.done()
    bits = bits_of(kind) if kind.lstrip("busf").isdigit() else 0
    if bits not in (16, 32, 64):
        raise lo.fail(f"type .{kind} is not supported")
    d, a, b, p = ins.operands
    slot, negated = lo.pred_src(p)
    name = "SELP_64" if bits == 64 else "SELP_32"
    lo.emit(
        name,
        d=[lo.dst(d, bits)],
        s=[lo.src(a, bits), lo.src(b, bits), slot],
        sub=(negated,),
        cost=2,
    )


@instruction("testp")
def testp(lo: Lowering, ins: Instr) -> None:
    """testp.{finite,infinite,number,notanumber,normal,subnormal}.f32."""
    mods = Mods(ins)
    number = CLASSES.index(mods.one_of(*CLASSES))
    mods.one_of("f32")
    mods.done()
    d, a = ins.operands
    lo.emit("TESTP_F32", d=[lo.pred_dst(d)], s=[lo.src(a, 32)], sub=(number,), cost=2)
