"""trap, nanosleep: instructions without an effect on values."""

from __future__ import annotations

from ..ptx.program import Instr
from .lowering import Lowering, Mods, instruction


@instruction("trap")
def trap(lo: Lowering, ins: Instr) -> None:
    """trap: stops the run with a report."""
    Mods(ins).done()
    lo.emit("TRAP")


@instruction("nanosleep")
def nanosleep(lo: Lowering, ins: Instr) -> None:
    """nanosleep.u32: suspends for a bounded time; no effect on values."""
    mods = Mods(ins)
    mods.one_of("u32")
    mods.done()
    lo.src(ins.operands[0], 32)
    lo.emit("NOP", cost=32)
