"""trap, brkpt, nanosleep, pmevent (PTX ISA, "Miscellaneous Instructions")."""

from __future__ import annotations

from ...ptx.program import Instr
from ..lowering import Lowering, Mods, instruction


@instruction("trap", "brkpt")
def trap(lo: Lowering, ins: Instr) -> None:
    """trap, brkpt: stop the run with a report."""
    Mods(ins).done()
    if ins.operands:
        raise lo.fail("no operand expected")
    lo.emit("TRAP")


@instruction("nanosleep")
def nanosleep(lo: Lowering, ins: Instr) -> None:
    """nanosleep.u32: suspends for a bounded time; no effect on values."""
    mods = Mods(ins)
    mods.one_of("u32")
    mods.done()
    if len(ins.operands) != 1:
        raise lo.fail("one operand expected")
    lo.emit("NOP", s=[lo.src(ins.operands[0], 32)], cost=32)


@instruction("pmevent")
def pmevent(lo: Lowering, ins: Instr) -> None:
    """pmevent, pmevent.mask: profiler counters; no effect here."""
    mods = Mods(ins)
    mods.take("mask")
    mods.done()
    if len(ins.operands) != 1:
        raise lo.fail("one operand expected")
    lo.imm_value(ins.operands[0])
    lo.emit("NOP")
