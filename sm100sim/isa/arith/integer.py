"""Integer arithmetic and bit counting (PTX ISA, "Integer Arithmetic Instructions")."""

from __future__ import annotations

from ...contract.forms import Integer
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, instruction
from . import extended, floating, half

INTEGERS = {f"{sign}{bits}": (sign, bits) for sign in "us" for bits in (16, 32, 64)}
WIDENING = ("u16", "s16", "u32", "s32")
PACKED = ("u16x2", "s16x2")
_DOT = {"u32", "s32"}


def operands(lo: Lowering, ins: Instr, count: int) -> None:
    """Stop unless the instruction has `count` operands."""
    if len(ins.operands) != count:
        raise lo.fail(f"{count} operands expected, {len(ins.operands)} given")


def three(lo: Lowering, ins: Instr, op: str, bits: int, cost: int = 2) -> None:
    """`d = a op b` on `bits`-wide registers."""
    operands(lo, ins, 3)
    d, a, b = ins.operands
    lo.emit(op, d=[lo.dst(d, bits)], s=[lo.src(a, bits), lo.src(b, bits)], cost=cost)


def two(lo: Lowering, ins: Instr, op: str, bits: int, out_bits: int | None = None) -> None:
    """`d = op a`."""
    operands(lo, ins, 2)
    d, a = ins.operands
    lo.emit(op, d=[lo.dst(d, out_bits or bits)], s=[lo.src(a, bits)], cost=2)


def _float_or_half(lo: Lowering, ins: Instr) -> bool:
    """Hand floating-point forms to their family; says whether it did."""
    kind = ins.mods[-1] if ins.mods else ""
    if kind in ("f32", "f64", "f32x2"):
        floating.arithmetic(lo, ins)
    elif kind in ("f16", "bf16") and "f32" in ins.mods:
        half.mixed(lo, ins)
    elif kind in ("f16", "bf16", "f16x2", "bf16x2"):
        half.arithmetic(lo, ins)
    else:
        return False
    return True


@instruction("add", "sub")
def add_sub(lo: Lowering, ins: Instr) -> None:
    """add, sub .u16 .s16 .u32 .s32 .u64 .s64, modulo 2^n, .sat.s32, .cc; add .u16x2 .s16x2;
    floats."""
    if _float_or_half(lo, ins):
        return
    if "cc" in ins.mods:
        extended.sum_with_carry(lo, ins)
        return
    mods = Mods(ins)
    saturating = mods.take("sat")
    packed = PACKED if ins.opcode == "add" else ()
    kind = mods.one_of("s32") if saturating else mods.one_of(*INTEGERS, *packed)
    mods.done()
    if saturating:
        three(lo, ins, f"{ins.opcode.upper()}_SAT_S32", 32)
    elif kind in PACKED:
        three(lo, ins, "ADD_U16X2", 32)
    else:
        bits = INTEGERS[kind][1]
        three(lo, ins, f"{ins.opcode.upper()}_{bits}", bits)


@instruction("mul")
def mul(lo: Lowering, ins: Instr) -> None:
    """mul .lo .hi .wide of integers and the floating-point forms."""
    if _float_or_half(lo, ins):
        return
    mods = Mods(ins)
    part = mods.one_of("lo", "hi", "wide")
    kind = mods.one_of(*(WIDENING if part == "wide" else INTEGERS))
    bits = INTEGERS[kind][1]
    mods.done()
    if part == "wide":
        operands(lo, ins, 3)
        d, a, b = ins.operands
        lo.emit(
            f"MUL_WIDE_{kind.upper()}",
            d=[lo.dst(d, 2 * bits)],
            s=[lo.src(a, bits), lo.src(b, bits)],
            cost=2,
        )
    else:
        three(lo, ins, f"MUL_LO_{bits}" if part == "lo" else f"MUL_HI_{kind.upper()}", bits)


@instruction("mad")
def mad(lo: Lowering, ins: Instr) -> None:
    """mad .lo .hi .wide: multiply and add; .hi.sat.s32; .cc; floats."""
    if _float_or_half(lo, ins):
        return
    if "cc" in ins.mods:
        extended.product_with_carry(lo, ins)
        return
    mods = Mods(ins)
    part = mods.one_of("lo", "hi", "wide")
    saturating = part == "hi" and mods.take("sat")
    kinds = ("s32",) if saturating else WIDENING if part == "wide" else INTEGERS
    kind = mods.one_of(*kinds)
    bits = INTEGERS[kind][1]
    mods.done()
    operands(lo, ins, 4)
    d, a, b, e = ins.operands
    wide = 2 * bits if part == "wide" else bits
    name = f"MAD_LO_{bits}" if part == "lo" else f"MAD_{part.upper()}_{kind.upper()}"
    if saturating:
        name = "MAD_HI_SAT_S32"
    lo.emit(
        name, d=[lo.dst(d, wide)], s=[lo.src(a, bits), lo.src(b, bits), lo.src(e, wide)], cost=2
    )


@instruction("div", "rem")
def div_rem(lo: Lowering, ins: Instr) -> None:
    """div, rem of integers (truncating) and the floating-point div."""
    if _float_or_half(lo, ins):
        return
    mods = Mods(ins)
    kind = mods.one_of(*INTEGERS)
    mods.done()
    three(lo, ins, f"{ins.opcode.upper()}_{kind.upper()}", INTEGERS[kind][1], cost=40)


@instruction("min", "max")
def min_max(lo: Lowering, ins: Instr) -> None:
    """min, max of integers, .u16x2 .s16x2, floats; .relu.s32 .relu.s16x2 clamp the result at 0."""
    if _float_or_half(lo, ins):
        return
    mods = Mods(ins)
    relu = mods.take("relu")
    kind = mods.one_of(*(("s16x2", "s32") if relu else (*INTEGERS, *PACKED)))
    mods.done()
    bits = 32 if kind in PACKED else INTEGERS[kind][1]
    three(lo, ins, f"{ins.opcode.upper()}_{kind.upper()}", bits)
    if relu:
        slot = lo.dst(ins.operands[0], 32)
        lo.emit(f"MAX_{kind.upper()}", d=[slot], s=[slot, lo.constant(0, 32)], cost=0)


@instruction("neg", "abs")
def neg_abs(lo: Lowering, ins: Instr) -> None:
    """neg, abs of signed integers and floats."""
    if _float_or_half(lo, ins):
        return
    mods = Mods(ins)
    kind = mods.one_of("s16", "s32", "s64")
    mods.done()
    two(lo, ins, f"{ins.opcode.upper()}_{kind[1:]}", INTEGERS[kind][1])


@instruction("popc", "clz")
def count_bits(lo: Lowering, ins: Instr) -> None:
    """popc, clz .b32 .b64; the result is 32 bit."""
    mods = Mods(ins)
    kind = mods.one_of("b32", "b64")
    mods.done()
    two(lo, ins, f"{ins.opcode.upper()}_{kind[1:]}", int(kind[1:]), 32)


@instruction("brev")
def reverse(lo: Lowering, ins: Instr) -> None:
    """brev .b32 .b64."""
    mods = Mods(ins)
    kind = mods.one_of("b32", "b64")
    mods.done()
    two(lo, ins, f"BREV_{kind[1:]}", int(kind[1:]))


@instruction("bfind")
def find(lo: Lowering, ins: Instr) -> None:
    """bfind, bfind.shiftamt .u32 .s32 .u64 .s64."""
    mods = Mods(ins)
    shift = mods.take("shiftamt")
    sign, bits = INTEGERS[mods.one_of("u32", "s32", "u64", "s64")]
    mods.done()
    operands(lo, ins, 2)
    d, a = ins.operands
    form = Integer(a_signed=sign == "s", shift_amount=shift)
    lo.emit(f"BFIND_{bits}", d=[lo.dst(d, 32)], s=[lo.src(a, bits)], form=form, cost=2)


@instruction("bfe")
def extract(lo: Lowering, ins: Instr) -> None:
    """bfe .u32 .s32 .u64 .s64: extract a bit field."""
    mods = Mods(ins)
    sign, bits = INTEGERS[mods.one_of("u32", "s32", "u64", "s64")]
    mods.done()
    operands(lo, ins, 4)
    d, a, *field = ins.operands
    sources = [lo.src(a, bits), *(lo.src(x, 32) for x in field)]
    form = Integer(a_signed=sign == "s")
    lo.emit(f"BFE_{bits}", d=[lo.dst(d, bits)], s=sources, form=form, cost=2)


@instruction("bfi")
def insert(lo: Lowering, ins: Instr) -> None:
    """bfi .b32 .b64: insert a bit field."""
    mods = Mods(ins)
    bits = int(mods.one_of("b32", "b64")[1:])
    mods.done()
    operands(lo, ins, 5)
    d, a, b, *field = ins.operands
    sources = [lo.src(a, bits), lo.src(b, bits), *(lo.src(x, 32) for x in field)]
    lo.emit(f"BFI_{bits}", d=[lo.dst(d, bits)], s=sources, cost=2)


@instruction("bmsk")
def bit_mask(lo: Lowering, ins: Instr) -> None:
    """bmsk.clamp .b32, bmsk.wrap .b32: a run of ones by position and length."""
    mods = Mods(ins)
    mode = mods.one_of("clamp", "wrap")
    mods.one_of("b32")
    mods.done()
    operands(lo, ins, 3)
    d, *sources = ins.operands
    lo.emit(f"BMSK_{mode.upper()}", d=[lo.dst(d, 32)], s=[lo.src(x, 32) for x in sources], cost=2)


@instruction("sad")
def absolute_difference(lo: Lowering, ins: Instr) -> None:
    """sad .u16 .s16 .u32 .s32 .u64 .s64: |a - b| + c."""
    mods = Mods(ins)
    kind = mods.one_of(*INTEGERS)
    mods.done()
    operands(lo, ins, 4)
    bits = INTEGERS[kind][1]
    d, *sources = ins.operands
    slots = [lo.src(x, bits) for x in sources]
    lo.emit(f"SAD_{kind.upper()}", d=[lo.dst(d, bits)], s=slots, cost=2)


@instruction("dp4a")
def dot_product(lo: Lowering, ins: Instr) -> None:
    """dp4a .{u32,s32}.{u32,s32}: sum of four byte products and c."""
    if len(ins.mods) != 2 or not set(ins.mods) <= {"u32", "s32"}:
        raise lo.fail("the types of a and of b are expected")
    operands(lo, ins, 4)
    d, *sources = ins.operands
    form = Integer(a_signed=ins.mods[0] == "s32", b_signed=ins.mods[1] == "s32")
    lo.emit("DP4A", d=[lo.dst(d, 32)], s=[lo.src(x, 32) for x in sources], form=form, cost=2)


@instruction("dp2a")
def dot_product_of_halves(lo: Lowering, ins: Instr) -> None:
    """dp2a.{lo,hi}.{u32,s32}.{u32,s32}: two 16-bit values of a times two bytes of b, and c."""
    if len(ins.mods) != 3 or ins.mods[0] not in ("lo", "hi") or not set(ins.mods[1:]) <= _DOT:
        raise lo.fail(".lo or .hi, and the types of a and of b are expected")
    operands(lo, ins, 4)
    d, *sources = ins.operands
    form = Integer(a_signed=ins.mods[1] == "s32", b_signed=ins.mods[2] == "s32")
    slots = [lo.src(x, 32) for x in sources]
    lo.emit(f"DP2A_{ins.mods[0].upper()}", d=[lo.dst(d, 32)], s=slots, form=form, cost=2)


@instruction("mul24", "mad24")
def product_of_24_bits(lo: Lowering, ins: Instr) -> None:
    """mul24, mad24 .lo .hi .u32 .s32: of the low 24 bits; .hi is bits 16 to 47."""
    mods = Mods(ins)
    part = mods.one_of("lo", "hi")
    kind = mods.one_of("u32", "s32")
    mods.done()
    adds = ins.opcode == "mad24"
    operands(lo, ins, 3 + adds)
    d, *sources = ins.operands
    slots = [lo.src(x, 32) for x in sources]
    if not adds:
        slots.append(lo.constant(0, 32))
    form = Integer(a_signed=kind == "s32")
    lo.emit(f"MAD24_{part.upper()}", d=[lo.dst(d, 32)], s=slots, form=form, cost=4)


@instruction("szext")
def extend(lo: Lowering, ins: Instr) -> None:
    """szext .clamp .wrap .u32 .s32: the low b bits of a, with zeros or the sign above."""
    mods = Mods(ins)
    mode = mods.one_of("clamp", "wrap")
    kind = mods.one_of("u32", "s32")
    mods.done()
    operands(lo, ins, 3)
    d, *sources = ins.operands
    form = Integer(a_signed=kind == "s32")
    slots = [lo.src(x, 32) for x in sources]
    lo.emit(f"SZEXT_{mode.upper()}", d=[lo.dst(d, 32)], s=slots, form=form, cost=2)


@instruction("fns")
def find_set_bit(lo: Lowering, ins: Instr) -> None:
    """fns.b32: the n-th set bit from a base bit on, upwards or downwards."""
    mods = Mods(ins)
    mods.one_of("b32")
    mods.done()
    operands(lo, ins, 4)
    d, *sources = ins.operands
    lo.emit("FNS", d=[lo.dst(d, 32)], s=[lo.src(x, 32) for x in sources], cost=40)
