"""cvt: between integers, floats and packed small formats (PTX ISA, "cvt")."""

from __future__ import annotations

from ...contract.codes import CVT_TYPES, FORMATS, ROUNDINGS, Numeric
from ...contract.forms import Convert, Pack
from ...ptx.program import Instr, Operand
from ..lowering import Lowering, Mods, instruction

BITS = {"u8": 8, "s8": 8, "u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64,
        "f16": 16, "bf16": 16, "f32": 32, "f64": 64}  # fmt: skip
FLOAT_ROUNDING = ROUNDINGS
INTEGER_ROUNDING = ("rni", "rzi", "rmi", "rpi")
PACKED = {"f16x2": 16, "bf16x2": 16, "e4m3x2": 8, "e5m2x2": 8, "e2m3x2": 8, "e3m2x2": 8,
          "e2m1x2": 4, "ue8m0x2": 8}  # fmt: skip
"""Packed type -> bits of one element."""

SIGN_BIT = {"e4m3x2": 7, "e5m2x2": 7, "e2m3x2": 5, "e3m2x2": 5, "e2m1x2": 3}
MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
EXPONENT = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}

VECTOR_FORMS = {
    ("f32", "bf16", ""): "CVT_F32_BF16", ("f32", "f16", ""): "CVT_F32_F16",
    ("bf16", "f32", "rn"): "CVT_BF16_F32", ("f16", "f32", "rn"): "CVT_F16_F32",
    ("f32", "s32", "rn"): "CVT_F32_S32", ("f32", "u32", "rn"): "CVT_F32_U32",
    ("u64", "u32", ""): "CVT_U64_U32", ("s64", "u32", ""): "CVT_U64_U32",
    ("s64", "s32", ""): "CVT_S64_S32", ("u64", "s32", ""): "CVT_S64_S32",
    ("u32", "u64", ""): "CVT_U32_U64", ("s32", "s64", ""): "CVT_U32_U64",
    ("u32", "s64", ""): "CVT_U32_U64", ("s32", "u64", ""): "CVT_U32_U64",
    ("u32", "u16", ""): "CVT_U16", ("s32", "u16", ""): "CVT_U16", ("u16", "u32", ""): "CVT_U16",
    ("s32", "s16", ""): "CVT_S32_S16", ("u32", "s16", ""): "CVT_S32_S16",
    ("s32", "f32", "rzi"): "CVT_RZI_S_F32", ("s16", "f32", "rzi"): "CVT_RZI_S_F32",
}  # fmt: skip
"""(to, from, rounding) of forms without other modifiers that have a vectorised handler."""


@instruction("cvt")
def convert(lo: Lowering, ins: Instr) -> None:
    """cvt between all integer and float types (.rn ... .rpi .ftz .sat .relu .satfinite), tf32.f32,
    {f16x2,bf16x2,e4m3x2,e5m2x2,e2m3x2,e3m2x2,e2m1x2,ue8m0x2}.f32 pairs, packed to packed;
    cvt.pack.sat.{u16,s16}.s32 d, a, b and .{u8,s8,u4,s4,u2,s2}.s32.b32 d, a, b, c.
    """
    if "pack" in ins.mods:
        _saturated(lo, ins)
        return
    kinds = [m for m in ins.mods if m in CVT_TYPES or m in PACKED or m == "tf32"]
    if len(kinds) != 2:
        raise lo.fail("destination and source types are not understood")
    to, source = kinds
    if to == "tf32":
        _tf32(lo, ins)
    elif to in PACKED and source == "f32":
        _pair(lo, ins, to)
    elif to in PACKED and source in PACKED:
        _repack(lo, ins, to, source)
    elif to in CVT_TYPES and source in CVT_TYPES:
        _scalar(lo, ins, to, source)
    else:
        raise lo.fail(f"cvt from .{source} to .{to} is not supported")


def _format(kind: str) -> int:
    """Number in FORMATS of a packed type."""
    return FORMATS.index(kind.removesuffix("x2"))


def _take_types(mods: Mods, *names: str) -> None:
    for name in names:
        mods.one_of(name)


def _two_operands(lo: Lowering, ins: Instr) -> tuple[Operand, Operand]:
    if len(ins.operands) != 2:
        raise lo.fail("two operands expected")
    return ins.operands[0], ins.operands[1]


def _loses_bits(to: str, source: str) -> bool:
    """Whether a value of type `source` may need rounding in float type `to`."""
    if source in MANTISSA:
        return MANTISSA[to] < MANTISSA[source] or EXPONENT[to] < EXPONENT[source]
    return True


def _check_rounding(lo: Lowering, to: str, source: str, given: str) -> None:
    """Where a rounding modifier is required or illegal (PTX ISA, cvt, "Rounding modifiers")."""
    if "f" not in to and "f" not in source:
        if given:
            raise lo.fail("an integer-to-integer conversion takes no rounding modifier")
    elif "f" not in to:
        if given not in INTEGER_ROUNDING:
            raise lo.fail("a float-to-integer conversion needs an integer rounding modifier")
    elif to == source:
        if given not in ("", *INTEGER_ROUNDING):
            raise lo.fail("a conversion to the same float type rounds to an integer or not at all")
    elif _loses_bits(to, source):
        if given not in FLOAT_ROUNDING:
            raise lo.fail("this conversion needs a rounding modifier")
    elif given:
        raise lo.fail("this conversion is exact and takes no rounding modifier")


def _holds(to: str, source: str) -> bool:
    """Whether integer type `to` has every value of integer type `source`."""
    if to[0] == source[0] == "s" or source[0] == "u":
        return BITS[to] >= BITS[source] + (to[0] != source[0])
    return False


def _check_modifiers(lo: Lowering, to: str, source: str, given: str, flags: int) -> None:
    """Combinations that ptxas refuses for sm_90a and sm_100a alike (H200 record: 26 of them).

    The ISA: ".sat is illegal where saturation is not possible based on the types".
    """
    if "bf16" in (to, source) and BITS[to] + BITS[source] == 24:
        raise lo.fail("bf16 does not convert from or to 8-bit integers")
    if flags & Numeric.SAT and "bf16" in (to, source):
        raise lo.fail(".sat does not go with bf16")
    if flags & Numeric.SAT and not {to, source} & set(MANTISSA) and _holds(to, source):
        raise lo.fail(f".sat has no effect: .{to} holds every .{source}")
    clamps = flags & (Numeric.RELU | Numeric.SATFINITE)
    if clamps and (source != "f32" or to not in ("f16", "bf16")):
        raise lo.fail(".relu and .satfinite go with conversions of f32 to f16 or bf16")
    if clamps and given not in ("rn", "rz"):
        raise lo.fail(".relu and .satfinite go with .rn and .rz")
    if given == "rna":
        raise lo.fail(".rna goes with tf32")
    if flags & Numeric.FTZ and "f32" not in (to, source):
        raise lo.fail(".ftz goes with f32")


def _scalar(lo: Lowering, ins: Instr, to: str, source: str) -> None:
    mods = Mods(ins)
    _take_types(mods, to, source)
    given = mods.maybe(*INTEGER_ROUNDING, *FLOAT_ROUNDING) or ""
    flags = Numeric.FTZ * mods.take("ftz") | Numeric.SAT * mods.take("sat")
    flags |= Numeric.RELU * mods.take("relu") | Numeric.SATFINITE * mods.take("satfinite")
    mods.done()
    _check_rounding(lo, to, source, given)
    _check_modifiers(lo, to, source, given, flags)
    d, a = _two_operands(lo, ins)
    d_bits, a_bits = _register_bits(d, BITS[to]), _register_bits(a, BITS[source])
    out, sources = [lo.dst(d, d_bits)], [lo.src(a, a_bits)]
    fast = VECTOR_FORMS.get((to, source, given))
    if fast and not flags and a_bits == BITS[source] and d_bits == BITS[to]:
        lo.emit(fast, d=out, s=sources, form=Convert(bits=d_bits), cost=2)
        return
    integral = given in INTEGER_ROUNDING
    number = INTEGER_ROUNDING.index(given) if integral else FLOAT_ROUNDING.index(given or "rn")
    form = Convert(
        to=CVT_TYPES.index(to), source=CVT_TYPES.index(source), rounding=number,
        flags=flags | Numeric.INTEGRAL * integral, bits=d_bits, source_bits=a_bits,
    )  # fmt: skip
    lo.emit("CVT", d=out, s=sources, form=form, cost=2)


def _register_bits(operand: object, bits: int) -> int:
    """Operands of cvt may be wider than the type (PTX ISA, "Operand Size Exceeding ... Size")."""
    kind = getattr(operand, "type", None)
    return max(kind.bits, 16) if kind is not None and kind.bits >= bits else max(bits, 16)


def _pair(lo: Lowering, ins: Instr, to: str) -> None:
    """d = {a, b}: the first source goes to the upper half."""
    mods = Mods(ins)
    _take_types(mods, to, "f32")
    choices = {"ue8m0x2": ("rz", "rp"), "f16x2": ("rn", "rz"), "bf16x2": ("rn", "rz")}
    rounding = mods.one_of(*choices.get(to, ("rn",)))
    relu, satfinite = to != "ue8m0x2" and mods.take("relu"), mods.take("satfinite")
    mods.done()
    if len(ins.operands) != 3:
        raise lo.fail("three operands expected")
    if to in SIGN_BIT and not satfinite:
        raise lo.fail(f"cvt to .{to} needs .satfinite")
    d, a, b = ins.operands
    bits = PACKED[to]
    form = Pack(
        to=_format(to), bits=bits, rounding=FLOAT_ROUNDING.index(rounding),
        sign_bit=SIGN_BIT.get(to, 0), relu=relu, satfinite=satfinite,
    )  # fmt: skip
    out = [lo.dst(d, 2 * bits)]
    sources = [lo.src(a, 32), lo.src(b, 32)]
    if to in SIGN_BIT:
        lo.emit("CVT_NARROW", d=out, s=sources, form=form, cost=2)
    elif to != "ue8m0x2" and rounding == "rn" and not relu and not satfinite:
        lo.emit(f"CVT_{to.upper()}", d=out, s=sources, cost=2)
    else:
        lo.emit("CVT_PAIR", d=out, s=sources, form=form, cost=2)


def _repack(lo: Lowering, ins: Instr, to: str, source: str) -> None:
    """Small formats to f16x2 (ue8m0: not), bf16x2, exact; f16x2, bf16x2 to small ones, rounded."""
    mods = Mods(ins)
    _take_types(mods, to, source)
    widening = to in ("f16x2", "bf16x2")
    wide = source in ("f16x2", "bf16x2")
    if wide == widening or (source, to) == ("ue8m0x2", "f16x2"):
        raise lo.fail(f"cvt from .{source} to .{to} is not supported")
    rounding = mods.one_of(*(("rz", "rp") if to == "ue8m0x2" else ("rn",)))
    relu, satfinite = "ue8m0x2" not in (to, source) and mods.take("relu"), mods.take("satfinite")
    mods.done()
    if satfinite == widening and to != "ue8m0x2":
        raise lo.fail(".satfinite belongs to conversions to the small formats")
    d, a = _two_operands(lo, ins)
    form = Pack(
        to=_format(to), bits=PACKED[to], source=_format(source), source_bits=PACKED[source],
        rounding=FLOAT_ROUNDING.index(rounding), relu=relu, satfinite=satfinite,
    )  # fmt: skip
    out, sources = [lo.dst(d, 2 * PACKED[to])], [lo.src(a, 2 * PACKED[source])]
    lo.emit("CVT_REPACK", d=out, s=sources, form=form, cost=2)


def _saturated(lo: Lowering, ins: Instr) -> None:
    """cvt.pack: a above b, each clamped; narrow ones below what they leave of c (PTX ISA,
    "cvt.pack", and an H100)."""
    mods = Mods(ins)
    mods.one_of("pack")
    mods.one_of("sat")
    kind = mods.one_of("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2")
    mods.one_of("s32")
    bits = int(kind[1:])
    if bits < 16:
        mods.one_of("b32")
    mods.done()
    count = 3 if bits == 16 else 4
    if len(ins.operands) != count:
        raise lo.fail(f"{count} operands expected")
    d, *sources = ins.operands
    slots = [lo.src(x, 32) for x in sources]
    form = Pack(bits=bits, sign_bit=kind[0] == "s")
    lo.emit("CVT_SATURATED", d=[lo.dst(d, 32)], s=slots, form=form, cost=2)


def _tf32(lo: Lowering, ins: Instr) -> None:
    mods = Mods(ins)
    _take_types(mods, "tf32", "f32")
    rounding = mods.one_of("rna", "rn", "rz")
    satfinite, relu = mods.take("satfinite"), rounding != "rna" and mods.take("relu")
    mods.done()
    d, a = _two_operands(lo, ins)
    form = Pack(rounding=FLOAT_ROUNDING.index(rounding), satfinite=satfinite, relu=relu)
    lo.emit("CVT_TF32", d=[lo.dst(d, 32)], s=[lo.src(a, 32)], form=form, cost=2)
