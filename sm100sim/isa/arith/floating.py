"""f32, f32x2, f64 and the approximate functions (PTX ISA, "Floating Point Instructions")."""

from __future__ import annotations

from ...contract.codes import ROUNDINGS, Numeric
from ...contract.forms import Floating
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, Unit, instruction

ROUNDING = ROUNDINGS[:4]
OPERANDS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3}
WIDTH = {"f32": 32, "f64": 64, "f32x2": 64}
COST = {"f32": 1, "f32x2": 2, "f64": 32}


def rounding(mods: Mods) -> int:
    """Index of the rounding modifier; nearest-even when there is none."""
    return ROUNDING.index(mods.maybe(*ROUNDING) or "rn")


def sources_of(lo: Lowering, ins: Instr, bits: int, *counts: int) -> list[int]:
    """Slots of the sources, each `bits` wide; stops unless their number is one of `counts`."""
    if len(ins.operands) - 1 not in counts:
        raise lo.fail(f"{' or '.join(str(n + 1) for n in counts)} operands expected")
    return [lo.src(x, bits) for x in ins.operands[1:]]


def arithmetic(lo: Lowering, ins: Instr) -> None:
    """add sub mul fma mad div min max neg abs on .f32 .f32x2 .f64."""
    if ins.opcode == "div":
        divide(lo, ins)
    elif ins.opcode in ("min", "max"):
        extreme(lo, ins)
    elif ins.opcode in ("neg", "abs"):
        sign(lo, ins)
    elif ins.opcode in OPERANDS:
        _arith(lo, ins)
    else:
        raise lo.fail(f"{ins.opcode} has no .{ins.mods[-1]} form")


def _arith(lo: Lowering, ins: Instr) -> None:
    mods = Mods(ins)
    mode, ftz, sat = rounding(mods), mods.take("ftz"), mods.take("sat")
    kind = mods.one_of("f32x2", "f32", "f64")
    mods.done()
    if (kind == "f64" and ftz) or (kind != "f32" and sat):
        raise lo.fail(f"a modifier does not go with .{kind}")
    if ins.opcode in ("fma", "mad") and not set(ROUNDING) & set(ins.mods):
        raise lo.fail(f"{ins.opcode}.{kind} needs a rounding modifier")
    op = "FMA" if ins.opcode == "mad" else ins.opcode.upper()
    bits = WIDTH[kind]
    sources = sources_of(lo, ins, bits, OPERANDS[ins.opcode])
    out = [lo.dst(ins.operands[0], bits)]
    form = Floating(rounding=mode, ftz=ftz, sat=sat)
    lo.emit(f"{op}_{kind.upper()}", d=out, s=sources, form=form, cost=COST[kind])


def divide(lo: Lowering, ins: Instr) -> None:
    """div.{rn,rz,rm,rp,full,approx}{.ftz}.f32, div.{rn,rz,rm,rp}.f64."""
    mods = Mods(ins)
    approximate = mods.maybe("full", "approx")
    mode = 0 if approximate else ROUNDING.index(mods.one_of(*ROUNDING))
    ftz = mods.take("ftz")
    kind = mods.one_of("f32") if approximate or ftz else mods.one_of("f32", "f64")
    mods.done()
    bits = WIDTH[kind]
    sources = sources_of(lo, ins, bits, 2)
    out = [lo.dst(ins.operands[0], bits)]
    if approximate:
        form = Floating(ftz=ftz, full=approximate == "full")
        lo.emit("DIV_APPROX_F32", d=out, s=sources, form=form, cost=16)
    else:
        form = Floating(rounding=mode, ftz=ftz)
        lo.emit(f"DIV_{kind.upper()}", d=out, s=sources, form=form, cost=32)


def extreme(lo: Lowering, ins: Instr) -> None:
    """min, max{.ftz}{.NaN}{.xorsign.abs}.f32; of three operands {.ftz}{.NaN}{.abs}.f32; .f64."""
    mods = Mods(ins)
    flags = Numeric.FTZ * mods.take("ftz") | Numeric.NAN * mods.take("NaN")
    flags |= Numeric.XORSIGN * mods.take("xorsign") | Numeric.ABS * mods.take("abs")
    kind = mods.one_of("f32", "f64")
    mods.done()
    sources = sources_of(lo, ins, WIDTH[kind], *((2,) if kind == "f64" else (2, 3)))
    three = len(sources) == 3
    if kind == "f64" and flags:
        raise lo.fail("the form on f64 has no modifiers")
    if three and flags & Numeric.XORSIGN:
        raise lo.fail(".xorsign goes with two operands")
    if not three and bool(flags & Numeric.XORSIGN) != bool(flags & Numeric.ABS):
        raise lo.fail("with two operands .xorsign and .abs go together")
    out = [lo.dst(ins.operands[0], WIDTH[kind])]
    if kind == "f64":
        lo.emit(f"{ins.opcode.upper()}_F64", d=out, s=sources, cost=32)
    elif not flags:
        lo.emit(f"{ins.opcode.upper()}{'3' if three else ''}_F32", d=out, s=sources, cost=2)
    else:
        name = "MINMAX3_F32" if three else "MINMAX_F32"
        form = Floating(maximum=ins.opcode == "max", flags=flags)
        lo.emit(name, d=out, s=sources, form=form, cost=2)


def sign(lo: Lowering, ins: Instr) -> None:
    """neg, abs{.ftz}.f32, .f64."""
    mods = Mods(ins)
    ftz = mods.take("ftz")
    kind = mods.one_of("f32") if ftz else mods.one_of("f32", "f64")
    mods.done()
    bits = WIDTH[kind]
    sources = sources_of(lo, ins, bits, 1)
    name = f"{ins.opcode.upper()}_{kind.upper()}"
    lo.emit(name, d=[lo.dst(ins.operands[0], bits)], s=sources, form=Floating(ftz=ftz), cost=2)


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
    """copysign.f32 .f64: sign of the first, magnitude of the second operand."""
    mods = Mods(ins)
    kind = mods.one_of("f32", "f64")
    mods.done()
    bits = WIDTH[kind]
    sources = sources_of(lo, ins, bits, 2)
    out = [lo.dst(ins.operands[0], bits)]
    lo.emit(f"COPYSIGN_{kind.upper()}", d=out, s=sources, cost=2)


@instruction("ex2", "lg2", "sin", "cos", "tanh")
def transcendental(lo: Lowering, ins: Instr) -> None:
    """ex2, lg2, sin, cos .approx{.ftz}.f32, tanh.approx.f32; ex2 and tanh of 16-bit types.

    Computed in double and rounded once; docs/hardware.md has the distance to the chip.
    """
    from . import half

    if ins.mods[-1] in ("f16", "f16x2", "bf16", "bf16x2"):
        half.function(lo, ins)
        return
    mods = Mods(ins)
    mods.one_of("approx")
    ftz = ins.opcode != "tanh" and mods.take("ftz")
    mods.one_of("f32")
    mods.done()
    sources = sources_of(lo, ins, 32, 1)
    out = [lo.dst(ins.operands[0], 32)]
    form = Floating(ftz=ftz)
    lo.emit(f"{ins.opcode.upper()}_F32", d=out, s=sources, form=form, cost=8, unit=Unit.MUFU)


@instruction("rcp", "sqrt", "rsqrt")
def root(lo: Lowering, ins: Instr) -> None:
    """rcp, sqrt .{approx,rn,rz,rm,rp}{.ftz}.f32, .{rn,...}.f64; rsqrt.approx{.ftz}.f32, .f64;
    rcp.approx.ftz.f64."""
    mods = Mods(ins)
    exact = ROUNDING if ins.opcode != "rsqrt" else ()
    mode = mods.one_of("approx", *exact)
    ftz = mods.take("ftz")
    kind = mods.one_of("f32", "f64")
    mods.done()
    bits = WIDTH[kind]
    sources = sources_of(lo, ins, bits, 1)
    out = [lo.dst(ins.operands[0], bits)]
    name = f"{ins.opcode.upper()}_{kind.upper()}"
    coarse = kind == "f64" and mode == "approx"
    if kind == "f64" and ins.opcode == "rsqrt":
        name = "RSQRT_COARSE_F64" if ftz else name
    elif kind == "f64" and (ftz != coarse or (coarse and ins.opcode == "sqrt")):
        raise lo.fail("f64 is supported rounded, and rcp and rsqrt as .approx.ftz.f64")
    if mode == "approx":
        lo.emit(name, d=out, s=sources, form=Floating(ftz=ftz), cost=8, unit=Unit.MUFU)
    else:
        rounded = f"{ins.opcode.upper()}_RND_{kind.upper()}"
        form = Floating(rounding=ROUNDING.index(mode), ftz=ftz)
        lo.emit(rounded, d=out, s=sources, form=form, cost=32)
