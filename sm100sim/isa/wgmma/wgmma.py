"""Warpgroup matrix multiply-accumulate (PTX ISA 9.7.15, "Asynchronous Warpgroup Level Matrix
Multiply-Accumulate Instructions").

Covered: `.f16`, `.bf16`, `.tf32`, `.e4m3`, `.e5m2`, `.u8` and `.s8` with A, dense or sparse, in
registers or shared memory.
Refused: `.b1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...contract.codes import WGMMA_ELEMENTS, WGMMA_RESULTS, WgmmaFlag
from ...contract.forms import Wgmma
from ...ptx.program import Instr, Operand, Vector
from ..lowering import Lowering, Mods, Unit, instruction
from ..warp.matrix import metadata_lanes

ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8}
RESULTS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"), "u8": ("s32",), "s8": ("s32",),
}  # fmt: skip
"""Type of A -> types of D."""

MIXED = ({"e4m3", "e5m2"}, {"u8", "s8"})
"""Types of A and B that may differ."""

A_REGISTERS = 4
ISSUE_CYCLES = 2
"""Issue slots of one instruction; the tensor pipe's time is modelled in the engine's wgmma.h."""

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")


@dataclass(slots=True)
class _Shape:
    """What the modifiers say."""

    n: int
    a: str
    b: str
    d: str
    saturate: bool
    sparse: bool

    @property
    def integer(self) -> bool:
        return self.d == "s32"


def _types(lo: Lowering, mods: Mods) -> tuple[str, str, str]:
    b, a, d = mods.last(), mods.last(), mods.last()
    if not {a, b} <= set(WGMMA_ELEMENTS):
        raise lo.fail(f"types of A and B are of .{', .'.join(WGMMA_ELEMENTS)}")
    if a != b and not any({a, b} <= family for family in MIXED):
        raise lo.fail(f"A of type .{a} does not go with B of type .{b}")
    if d not in RESULTS[a]:
        raise lo.fail(f"type .{a} accumulates in .{' or .'.join(RESULTS[a])}, not in .{d}")
    return d, a, b


def _modifiers(lo: Lowering, ins: Instr) -> _Shape:
    rest = list(ins.mods)
    if "b1" in rest:
        raise lo.fail("single-bit wgmma is not modelled")
    found = next((m for m in map(_SHAPE.fullmatch, rest) if m), None)
    if found is None:
        raise lo.fail("wgmma needs a shape m64nNkK")
    mods = Mods(ins)
    mods.one_of("mma_async")
    sparse = mods.take("sp")
    mods.one_of("sync")
    mods.one_of("aligned")
    mods.one_of(found.group(0))
    saturate = mods.take("satfinite")
    d, a, b = _types(lo, mods)
    mods.done()
    n, k = int(found.group(1)), int(found.group(2))
    wanted = (512 if sparse else 256) // ELEMENT_BITS[a]
    if k != wanted:
        raise lo.fail(f"type .{a} needs k{wanted}, not k{k}")
    if not 8 <= n <= 256 or n % 8 or (d == "s32" and n > 32 and n % 16):
        raise lo.fail(f"n{n} is not a size that type .{a} has")
    if saturate and d != "s32":
        raise lo.fail(".satfinite belongs to integer types only")
    return _Shape(n, a, b, d, saturate, sparse)


def _sign(lo: Lowering, operand: Operand) -> bool:
    """Whether imm-scale-a or imm-scale-b negates."""
    value = lo.imm_value(operand)
    if value not in (1, -1):
        raise lo.fail(f"a scale of A or B is 1 or -1, not {value}")
    return value == -1


def _transposed(lo: Lowering, operand: Operand) -> bool:
    value = lo.imm_value(operand)
    if value not in (0, 1):
        raise lo.fail(f"a transpose of A or B is 0 or 1, not {value}")
    return value == 1


def _options(lo: Lowering, shape: _Shape, rest: list[Operand], *, registers: bool) -> WgmmaFlag:
    """Consume the immediates after scale-d."""
    flags = WgmmaFlag(0)
    if registers:
        flags |= WgmmaFlag.A_REGISTERS
    if shape.saturate:
        flags |= WgmmaFlag.SATURATE
    if shape.sparse:
        flags |= WgmmaFlag.SPARSE
    signs = 0 if shape.integer else 2
    transposes = (1 if registers else 2) * (ELEMENT_BITS[shape.a] == 16)
    if len(rest) != signs + transposes:
        raise lo.fail(f"{signs + transposes} immediates expected after scale-d, {len(rest)} given")
    for name, operand in zip((WgmmaFlag.NEGATE_A, WgmmaFlag.NEGATE_B), rest[:signs], strict=False):
        if _sign(lo, operand):
            flags |= name
    names = (WgmmaFlag.TRANSPOSE_A, WgmmaFlag.TRANSPOSE_B)[2 - transposes :]
    for name, operand in zip(names, rest[signs:], strict=True):
        if _transposed(lo, operand):
            flags |= name
    return flags


def _mma(lo: Lowering, ins: Instr) -> None:
    shape = _modifiers(lo, ins)
    if len(ins.operands) < 4 or not isinstance(ins.operands[0], Vector):
        raise lo.fail("wgmma takes {d}, a-desc or {a}, b-desc and scale-d at least")
    d, a, b, *rest = ins.operands
    assert isinstance(d, Vector)
    metadata: list[Operand] = []
    if shape.sparse:
        metadata, rest = rest[:2], rest[2:]
    if not rest:
        raise lo.fail("a sparse A takes sp-meta and sp-sel, in front of scale-d")
    enable, *rest = rest
    count = shape.n // (4 if shape.d == "f16" else 2)
    if len(d.items) != count:
        raise lo.fail(f"D has {count} registers, {len(d.items)} are given")
    registers = isinstance(a, Vector)
    if isinstance(a, Vector):
        if len(a.items) != A_REGISTERS:
            raise lo.fail(f"A has {A_REGISTERS} registers, {len(a.items)} are given")
        sources = [lo.src(item, 32) for item in a.items]
    else:
        sources = [lo.src(a, 64)]
    flags = _options(lo, shape, rest, registers=registers)
    predicate, negated = lo.pred_src(enable)
    if negated:
        flags |= WgmmaFlag.NOT_SCALE_D
    first = 0
    if metadata:
        bits = ELEMENT_BITS[shape.a]
        sources.append(lo.src(metadata[0], 32))
        first = metadata_lanes(lo, bits, 512 // bits, metadata[1])
    form = Wgmma(
        a=WGMMA_ELEMENTS.index(shape.a), b=WGMMA_ELEMENTS.index(shape.b),
        d=WGMMA_RESULTS.index(shape.d), flags=flags, n=shape.n,
        first=first,
    )  # fmt: skip
    slots = (predicate, lo.src(b, 64), *sources)
    lo.emit("WGMMA", [lo.dst(item, 32) for item in d.items], slots, form, 0, ISSUE_CYCLES, Unit.MMA)


@instruction("wgmma")
def wgmma(lo: Lowering, ins: Instr) -> None:
    """wgmma.mma_async{.sp}.sync.aligned.m64nNkK{.satfinite}.dtype.atype.btype {d}, a-desc | {a},
    b-desc, {sp-meta, sp-sel, }scale-d{, imm-scale-a, imm-scale-b{, imm-trans-a}{, imm-trans-b}};
    wgmma.{fence, commit_group, wait_group N}.sync.aligned. f16, bf16, tf32, e4m3, e5m2, u8, s8."""
    if ins.mods[:1] == ("mma_async",):
        _mma(lo, ins)
        return
    mods = Mods(ins)
    form = mods.one_of("fence", "commit_group", "wait_group")
    mods.one_of("sync")
    mods.one_of("aligned")
    mods.done()
    if len(ins.operands) != (form == "wait_group"):
        raise lo.fail("wait_group takes the number of pending groups; the others take nothing")
    if form == "wait_group":
        pending = lo.imm_value(ins.operands[0])
        if pending < 0:
            raise lo.fail(f"{pending} pending groups: expected 0 or more")
        lo.emit("WGMMA_WAIT", imm=pending, unit=Unit.SYNC)
    else:
        name = "WGMMA_FENCE" if form == "fence" else "WGMMA_COMMIT"
        lo.emit(name, unit=Unit.SYNC)
