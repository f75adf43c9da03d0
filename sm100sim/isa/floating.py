"""f32, f32x2, f64 and the approximate functions (PTX ISA, "Floating Point Instructions")."""

from __future__ import annotations

from ..ptx.program import Instr
from .lowering import Lowering, Mods, Unit, instruction

ROUNDING = ("rn", "rz", "rm", "rp")
OPERANDS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3}
WIDTH = {"f32": 32, "f64": 64, "f32x2": 64}
COST = {"f32": 1, "f32x2": 2, "f64": 32}


def rounding(mods: Mods) -> int:
    """Index of the rounding modifier; nearest-even when there is none."""
    return ROUNDING.index(mods.maybe(*ROUNDING) or "rn")


def arithmetic(lo: Lowering, ins: Instr) -> None:
    """add sub mul fma mad div min max neg abs on .f32 .f32x2 .f64."""
    if ins.opcode == "div":
        divide(lo, ins)
    elif ins.opcode in ("min", "max"):
        extreme(lo, ins)
    elif ins.opcode in ("neg", "abs"):
        sign(lo, ins)
    else:
        _arith(lo, ins)


def _arith(lo: Lowering, ins: Instr) -> None:
    mods = Mods(ins)
    mode, ftz, sat = rounding(mods), mods.take("ftz"), mods.take("sat")
    kind = mods.one_of("f32x2", "f32", "f64")
    mods.done()
    if kind == "f64" and (ftz or sat):
        raise lo.fail("f64 has neither .ftz nor .sat")
    count = OPERANDS[ins.opcode]
    if len(ins.operands) != count + 1:
        raise lo.fail(f"{count + 1} operands expected")
    op = "FMA" if ins.opcode == "mad" else ins.opcode.upper()
    bits = WIDTH[kind]
    d, *sources = ins.operands
    lo.emit(
        f"{op}_{kind.upper()}", d=[lo.dst(d, bits)], s=[lo.src(x, bits) for x in sources],
        sub=(mode, ftz, sat), cost=COST[kind],
    )  # fmt: skip


def divide(lo: Lowering, ins: Instr) -> None:
    """div.{rn,rz,rm,rp,full,approx}{.ftz}.f32, div.rn.f64."""
    mods = Mods(ins)
    approximate = mods.maybe("full", "approx") is not None
    mode, ftz = rounding(mods), mods.take("ftz")
    kind = mods.one_of("f32", "f64")
    mods.done()
    if kind == "f64" and mode:
        raise lo.fail("div.f64 is supported with .rn only")
    d, a, b = ins.operands
    bits = WIDTH[kind]
    lo.emit(
        f"DIV_{kind.upper()}", d=[lo.dst(d, bits)], s=[lo.src(a, bits), lo.src(b, bits)],
        sub=(mode, ftz, approximate), cost=16,
    )  # fmt: skip


def extreme(lo: Lowering, ins: Instr) -> None:
    """min, max{.ftz}{.NaN}{.xorsign.abs}.f32 with two or three operands; .f64."""
    mods = Mods(ins)
    ftz, nan, xorsign = mods.take("ftz"), mods.take("NaN"), mods.take("xorsign")
    if xorsign and not mods.take("abs"):
        raise lo.fail(".xorsign goes with .abs")
    kind = mods.one_of("f32", "f64")
    mods.done()
    d, *sources = ins.operands
    bits = WIDTH[kind]
    slots = [lo.src(x, bits) for x in sources]
    if len(slots) not in (2, 3) or (kind == "f64" and len(slots) != 2):
        raise lo.fail("two operands (f32: or three) expected")
    is_max = ins.opcode == "max"
    if kind == "f64":
        lo.emit(f"{ins.opcode.upper()}_F64", d=[lo.dst(d, 64)], s=slots, cost=32)
    elif is_max and len(slots) == 2 and not (ftz or nan or xorsign):
        lo.emit("MAX_F32", d=[lo.dst(d, 32)], s=slots, cost=2)
    else:
        lo.emit("MINMAX_F32", d=[lo.dst(d, 32)], s=slots, sub=(is_max, nan, ftz, xorsign), cost=2)


def sign(lo: Lowering, ins: Instr) -> None:
    """neg, abs{.ftz}.f32, .f64."""
    mods = Mods(ins)
    ftz = mods.take("ftz")
    kind = mods.one_of("f32", "f64")
    mods.done()
    if ftz and ins.opcode == "neg":
        raise lo.fail("neg.ftz is not supported")
    bits = WIDTH[kind]
    d, a = ins.operands
    lo.emit(
        f"{ins.opcode.upper()}_{kind.upper()}",
        d=[lo.dst(d, bits)],
        s=[lo.src(a, bits)],
        sub=(0, ftz),
        cost=2,
    )


@instruction("fma")
def fma(lo: Lowering, ins: Instr) -> None:
    """fma.{rn,rz,rm,rp}{.ftz}{.sat} .f32 .f32x2 .f64 and 16-bit types; .f32.{bf16,f16} (mixed)."""
    from . import half

    kind = ins.mods[-1]
    if kind in ("f32", "f32x2", "f64"):
        _arith(lo, ins)
    elif "f32" in ins.mods:
        half.mixed(lo, ins)
    else:
        half.arithmetic(lo, ins)


@instruction("copysign")
def copysign(lo: Lowering, ins: Instr) -> None:
    """copysign.f32: sign of the first, magnitude of the second operand."""
    mods = Mods(ins)
    mods.one_of("f32")
    mods.done()
    d, a, b = ins.operands
    lo.emit("COPYSIGN_F32", d=[lo.dst(d, 32)], s=[lo.src(a, 32), lo.src(b, 32)], cost=2)


@instruction("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh")
def function(lo: Lowering, ins: Instr) -> None:
    """ex2 lg2 sin cos tanh .approx; rcp sqrt rsqrt .approx or .rn; .f32 (.ftz), .f64, 16 bit.

    `.approx` is computed in double and rounded once; `.rn` gives the same for these functions,
    because the one rounding is the correct one but for ties of the double result.
    """
    from . import half

    if ins.mods[-1] in ("f16", "f16x2", "bf16", "bf16x2"):
        half.function(lo, ins)
        return
    mods = Mods(ins)
    mods.one_of("approx", "rn") if ins.opcode in ("rcp", "sqrt", "rsqrt") else mods.one_of("approx")
    ftz = mods.take("ftz")
    allowed = ("f32", "f64") if ins.opcode in ("rcp", "sqrt", "rsqrt") else ("f32",)
    kind = mods.one_of(*allowed)
    mods.done()
    bits = WIDTH[kind]
    d, a = ins.operands
    name = f"{ins.opcode.upper()}_{kind.upper()}"
    lo.emit(name, d=[lo.dst(d, bits)], s=[lo.src(a, bits)], sub=(ftz,), cost=8, unit=Unit.MUFU)
