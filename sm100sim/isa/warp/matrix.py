"""Matrix operations of a warp in registers (PTX ISA, "Warp Level Matrix Multiply-Accumulate
Instructions" and "Warp-level Matrix Transpose Instruction").

Refused: the layout of m8n8k4 with f16; and `.kind`s and `.block_scale`, which sm_100 does not have.
"""

from __future__ import annotations

import re

from ...contract.codes import LANES, WGMMA_RESULTS
from ...contract.forms import MmaSync
from ...contract.matrix import SYNC_ELEMENTS, SyncFlag
from ...ptx.program import Instr, Operand
from ..addressing import registers
from ..arith.integer import operands
from ..lowering import Lowering, Mods, instruction

_SHAPE = re.compile(r"m(8|16)n8k(\d+)")
_HALVES = ("m16n8k8", "m16n8k16")
_BYTES = ("m8n8k16", "m16n8k16", "m16n8k32")
_NIBBLES = ("m8n8k32", "m16n8k32", "m16n8k64")
SHAPES = {
    "f16": _HALVES, "bf16": _HALVES, "tf32": ("m16n8k4", "m16n8k8"), "e4m3": _BYTES[1:],
    "e5m2": _BYTES[1:], "u8": _BYTES, "s8": _BYTES, "u4": _NIBBLES, "s4": _NIBBLES,
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
}  # fmt: skip
"""Type of A -> shapes."""

_SPARSE_HALVES = ("m16n8k16", "m16n8k32")
_SPARSE_BYTES = ("m16n8k32", "m16n8k64")
_SPARSE_NIBBLES = ("m16n8k64", "m16n8k128")
SPARSE_SHAPES = {
    "f16": _SPARSE_HALVES, "bf16": _SPARSE_HALVES, "tf32": ("m16n8k8", "m16n8k16"),
    "e4m3": _SPARSE_BYTES[1:], "e5m2": _SPARSE_BYTES[1:], "u8": _SPARSE_BYTES,
    "s8": _SPARSE_BYTES, "u4": _SPARSE_NIBBLES, "s4": _SPARSE_NIBBLES,
}  # fmt: skip
"""Type of A -> shapes with a sparse A."""

FAMILIES = ({"e4m3", "e5m2"}, {"u8", "s8"}, {"u4", "s4"}, {"b1"})
"""Types of A and B that may differ; integers from the second on."""

RESULTS = {"f16": ("f16", "f32"), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32"), "f64": ("f64",)}
"""Types of C and D; f32 for the other floats, s32 for integers."""

BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8, "u4": 4, "s4": 4,
    "f64": 64, "b1": 1,
}  # fmt: skip
ISSUE_CYCLES = 16
"""Modelled: a warp's quarter of the tensor pipe takes m16n8k16 of 16 bits in this time."""


def metadata_lanes(lo: Lowering, bits: int, k: int, selector: Operand) -> int:
    """The first of four lanes that holds metadata of a sparse A (PTX ISA, "Sparse matrix storage").

    Args:
        bits: of an element. k: elements of a row, kept and left out.
        selector: the operand that says which lanes hold it.
    """
    # Sixteen rows of four bits for each two kept elements: one of 32 bits, four of 4 bits.
    lanes = 2 * k * (2 if bits == 32 else 1) // (2 if bits == 4 else 1) // 32
    number = lo.imm_value(selector)
    if not 0 <= number < 4 // lanes:
        raise lo.fail(f"sparsity selector {number}: expected 0 to {4 // lanes - 1}")
    return number * lanes


def _types(lo: Lowering, mods: Mods) -> tuple[str, str, str]:
    """Types of A, B and D."""
    c, b, a, d = mods.last(), mods.last(), mods.last(), mods.last()
    if not {a, b} <= set(SYNC_ELEMENTS):
        raise lo.fail(f"types of A and B are of .{', .'.join(SYNC_ELEMENTS)}")
    if a != b and not any({a, b} <= family for family in FAMILIES):
        raise lo.fail(f"A of type .{a} does not go with B of type .{b}")
    integer = any({a, b} <= family for family in FAMILIES[1:])
    allowed = RESULTS.get(a, ("s32",) if integer else ("f32",))
    if d not in allowed or c != d:
        raise lo.fail(f"type .{a} accumulates in .{' or .'.join(allowed)}, C and D alike")
    return a, b, d


@instruction("mma")
def multiply(lo: Lowering, ins: Instr) -> None:
    """mma{.sp{::ordered_metadata}}.sync.aligned.mMn8kK.row.col{.satfinite}.dtype.atype.btype.ctype
    {d}, {a}, {b}, {c}{, e, f}: f16, bf16, tf32, e4m3, e5m2, u8, s8, u4, s4, f64 in the shapes of
    each, f64 dense only; and .s32.b1.b1.s32.{and,xor}.popc, dense."""
    mods = Mods(ins)
    ordered = mods.take("sp::ordered_metadata")
    sparse = ordered or mods.take("sp")
    mods.one_of("sync")
    mods.one_of("aligned")
    found = next((m for m in map(_SHAPE.fullmatch, ins.mods) if m), None)
    if found is None:
        raise lo.fail("mma needs a shape m16n8kK or m8n8kK")
    shape, m, k = found.group(0), int(found.group(1)), int(found.group(2))
    mods.one_of(shape)
    mods.one_of("row")
    mods.one_of("col")
    saturate = mods.take("satfinite")
    bitwise = ""
    if mods.take("popc"):
        bitwise = mods.one_of("and", "xor")
    rounded = mods.take("rn")  # CUTLASS writes it at the end
    a, b, d = _types(lo, mods)
    if (a == "b1") != bool(bitwise):
        raise lo.fail("single bits, and no other type, need .and.popc or .xor.popc")
    if rounded and d != "f64":
        raise lo.fail(".rn belongs to f64 only")
    mods.done()
    shapes = SPARSE_SHAPES.get(a, ()) if sparse else SHAPES[a]
    if shape not in shapes or (sparse and d == "f16" and a != "f16"):
        raise lo.fail(
            f"type .{a} has the shapes {', '.join(shapes) or 'none'}, not {shape}, with "
            f"{'a sparse' if sparse else 'a dense'} A"
        )
    if saturate and d != "s32":
        raise lo.fail(".satfinite belongs to integer types only")
    operands(lo, ins, 6 if sparse else 4)
    width = 64 if d == "f64" else 32
    words = BITS[a] * k * LANES // (4 * LANES * width)
    counts = (m * 8 // LANES // (2 if d == "f16" else 1), words * m // (16 if sparse else 8), words)
    names = zip(("D", "A", "B", "C"), ins.operands[:4], (*counts, counts[0]), strict=True)
    out, *sources = [registers(lo, operand, count, name) for name, operand, count in names]
    form = MmaSync(
        a=SYNC_ELEMENTS.index(a), b=SYNC_ELEMENTS.index(b),
        d=0 if d == "f64" else WGMMA_RESULTS.index(d), m=m, k=k,
        flags=SyncFlag.SATURATE * saturate | SyncFlag.SPARSE * sparse | SyncFlag.ORDERED * ordered
        | SyncFlag.EXCLUSIVE * (bitwise == "xor"),
        first=metadata_lanes(lo, BITS[a], k, ins.operands[5]) if sparse else 0,
    )  # fmt: skip
    slots = [lo.src(item, width) for items in sources for item in items]
    if sparse:
        slots.append(lo.src(ins.operands[4], 32))
    lo.emit("MMA_SYNC", [lo.dst(item, width) for item in out], slots, form, 0, ISSUE_CYCLES)


@instruction("movmatrix")
def transpose(lo: Lowering, ins: Instr) -> None:
    """movmatrix.sync.aligned.m8n8.trans.b16 d, a: transposes an 8x8 matrix of 16-bit elements."""
    mods = Mods(ins)
    for name in ("sync", "aligned", "m8n8", "trans", "b16"):
        mods.one_of(name)
    mods.done()
    operands(lo, ins, 2)
    d, a = ins.operands
    lo.emit("MOVMATRIX", (lo.dst(d, 32),), (lo.src(a, 32),), cost=8)
