"""cvt: between integers, floats and packed small formats (PTX ISA, "cvt")."""

from __future__ import annotations

from ..ptx.program import Instr
from .lowering import Lowering, Mods, instruction

TYPES = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")
BITS = {"u8": 8, "s8": 8, "u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64,
        "f16": 16, "bf16": 16, "f32": 32, "f64": 64}  # fmt: skip
FLOAT_ROUNDING = ("rn", "rz", "rm", "rp", "rna")
INTEGER_ROUNDING = ("rni", "rzi", "rmi", "rpi")
PACKED = {"f16x2": (0, 16), "bf16x2": (1, 16), "e4m3x2": (3, 8), "e5m2x2": (4, 8),
          "e2m3x2": (5, 8), "e3m2x2": (6, 8), "e2m1x2": (7, 4), "ue8m0x2": (8, 8)}  # fmt: skip
FTZ, SAT, INTEGRAL, SATFINITE, RELU = 1, 2, 4, 8, 16
SOURCE_64, DESTINATION_64, DESTINATION_32 = 1, 2, 4


@instruction("cvt")
def convert(lo: Lowering, ins: Instr) -> None:
    """cvt between all integer and float types; pairs .rn.{f16x2,e4m3x2,...}.f32; .tf32.f32."""
    kinds = [m for m in ins.mods if m in TYPES or m in PACKED or m == "tf32"]
    if len(kinds) != 2:
        raise lo.fail("destination and source types are not understood")
    to, source = kinds
    if to == "tf32":
        _tf32(lo, ins)
    elif to in PACKED and source == "f32":
        _pair(lo, ins, to)
    elif to in ("f16x2", "bf16x2") and source in PACKED:
        _unpair(lo, ins, to, source)
    elif to in TYPES and source in TYPES:
        _scalar(lo, ins, to, source)
    else:
        raise lo.fail(f"cvt from .{source} to .{to} is not supported")


def _take_types(mods: Mods, *names: str) -> None:
    for name in names:
        mods.one_of(name)


def _scalar(lo: Lowering, ins: Instr, to: str, source: str) -> None:
    mods = Mods(ins)
    _take_types(mods, to, source)
    integral = mods.maybe(*INTEGER_ROUNDING)
    rounding = mods.maybe(*FLOAT_ROUNDING)
    flags = (
        FTZ * mods.take("ftz")
        | SAT * mods.take("sat")
        | SATFINITE * mods.take("satfinite")
        | RELU * mods.take("relu")
    )
    mods.done()
    number = 0
    if integral:
        number, flags = INTEGER_ROUNDING.index(integral), flags | INTEGRAL
    elif rounding:
        number = FLOAT_ROUNDING.index(rounding)
    to_float, from_float = "f" in to, "f" in source
    if from_float and not to_float and not integral:
        raise lo.fail("a float-to-integer conversion needs an integer rounding modifier")
    d, a = ins.operands
    d_bits, a_bits = _register_bits(d, BITS[to]), _register_bits(a, BITS[source])
    widths = (
        SOURCE_64 * (a_bits == 64)
        | DESTINATION_64 * (d_bits == 64)
        | DESTINATION_32 * (d_bits == 32)
    )
    code = TYPES.index(to) | TYPES.index(source) << 8 | number << 16 | flags << 24
    lo.emit("CVT", d=[lo.dst(d, d_bits)], s=[lo.src(a, a_bits)], sub=(code, widths), cost=2)


def _register_bits(operand: object, bits: int) -> int:
    """Operands of cvt may be wider than the type (PTX ISA, "Operand Size Exceeding Instruction-Type Size")."""
    kind = getattr(operand, "type", None)
    return max(kind.bits, 16) if kind is not None and kind.bits >= bits else max(bits, 16)


def _pair(lo: Lowering, ins: Instr, to: str) -> None:
    """d = {a, b}: the first source goes to the upper half."""
    mods = Mods(ins)
    _take_types(mods, to, "f32")
    rounding = mods.one_of("rn", "rz", "rp")
    relu, satfinite = mods.take("relu"), mods.take("satfinite")
    mods.done()
    if len(ins.operands) != 3:
        raise lo.fail("three operands expected")
    d, a, b = ins.operands
    form, bits = PACKED[to]
    out = lo.dst(d, 2 * bits if bits >= 8 else 16)
    sources = [lo.src(a, 32), lo.src(b, 32)]
    if to in ("bf16x2", "f16x2") and rounding == "rn" and not relu and not satfinite:
        lo.emit(f"CVT_{to.upper()}", d=[out], s=sources, cost=2)
        return
    number = FLOAT_ROUNDING.index(rounding)
    lo.emit("CVT_PAIR", d=[out], s=sources, sub=(form, number, relu | satfinite << 1, bits), cost=2)


def _unpair(lo: Lowering, ins: Instr, to: str, source: str) -> None:
    mods = Mods(ins)
    _take_types(mods, to, source)
    mods.take("rn")
    relu = mods.take("relu")
    mods.done()
    d, a = ins.operands
    form, bits = PACKED[source]
    sub = (form, PACKED[to][0], bits, relu)
    lo.emit("CVT_UNPAIR", d=[lo.dst(d, 32)], s=[lo.src(a, 16)], sub=sub, cost=2)


def _tf32(lo: Lowering, ins: Instr) -> None:
    mods = Mods(ins)
    _take_types(mods, "tf32", "f32")
    number = FLOAT_ROUNDING.index(mods.one_of("rna", "rn", "rz"))
    satfinite, relu = mods.take("satfinite"), mods.take("relu")
    mods.done()
    d, a = ins.operands
    lo.emit("CVT_TF32", d=[lo.dst(d, 32)], s=[lo.src(a, 32)], sub=(number, satfinite, relu), cost=2)
