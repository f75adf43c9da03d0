"""Integer instructions on pairs and on four bytes of a register (PTX ISA, "SIMD Video
Instructions"); the parts of a go with those of b in order: selectors and masks stop with the line.
"""

from __future__ import annotations

from ...contract.codes import VIDEO, VideoFlag
from ...contract.forms import Integer
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, instruction
from .integer import operands

COMPARISONS = VIDEO[6:]
OPCODES = [f"v{name}{parts}" for name in (*VIDEO[:6], "set") for parts in (2, 4)]
VIDEO_CYCLES = 8
"""Modelled issue cycles; newer architectures emulate these instructions."""


@instruction(*OPCODES)
def video(lo: Lowering, ins: Instr) -> None:
    """vadd, vsub, vavrg, vabsdiff, vmin, vmax {2,4}.dtype.atype.btype{.sat}{.add} and vset {2,4}
    .atype.btype.cmp{.add} d, a, b, c of .u32 .s32, without selectors and masks."""
    operands(lo, ins, 4)
    name, parts = ins.opcode[1:-1], ins.opcode[-1]
    mods = Mods(ins)
    flags = VideoFlag.SUM if mods.take("add") else VideoFlag(0)
    if name == "set":
        name = mods.one_of(*COMPARISONS)
    elif not flags and mods.take("sat"):
        flags |= VideoFlag.SAT
    b, a = mods.last(), mods.last()
    if name not in COMPARISONS and mods.last() == "s32":
        flags |= VideoFlag.SIGNED
    mods.done()
    if not {a, b} <= {"u32", "s32"}:
        raise lo.fail(f"types .{a} and .{b}; .u32 and .s32 exist")
    form = Integer(
        a_signed=a == "s32", b_signed=b == "s32", table=VIDEO.index(name), mode=int(flags)
    )
    d, *sources = ins.operands
    slots = [lo.src(x, 32) for x in sources]
    lo.emit(f"VIDEO_{parts}", [lo.dst(d, 32)], slots, form, 0, VIDEO_CYCLES)
