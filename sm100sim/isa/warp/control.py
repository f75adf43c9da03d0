"""Control flow: bra, exit, ret (PTX ISA, "Control Flow Instructions")."""

from __future__ import annotations

from ...ptx.program import Instr
from ..lowering import Lowering, Mods, instruction


@instruction("bra")
def branch(lo: Lowering, ins: Instr) -> None:
    """bra, bra.uni: go to a label for the lanes whose guard holds.

    `.uni` promises that all active lanes agree; the engine treats both forms alike.
    """
    mods = Mods(ins)
    mods.take("uni")
    mods.done()
    if ins.target is None:
        raise lo.fail("a branch needs a label")
    item = lo.emit("BRA", cost=4)
    item.target = ins.target


@instruction("exit", "ret")
def leave(lo: Lowering, ins: Instr) -> None:
    """exit; ret in a kernel entry: the active lanes leave the kernel."""
    mods = Mods(ins)
    mods.take("uni")
    mods.done()
    lo.emit("EXIT")
