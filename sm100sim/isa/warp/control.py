"""Control flow: bra, brx, exit (PTX ISA, "Control Flow Instructions")."""

from __future__ import annotations

from ...contract.forms import Call
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


@instruction("brx")
def indirect_branch(lo: Lowering, ins: Instr) -> None:
    """brx.idx{.uni} index, table: go to the entry of a `.branchtargets` list (PTX ISA, "brx.idx").

    An index beyond the list, which the ISA leaves undefined, is a fault.
    """
    mods = Mods(ins)
    mods.one_of("idx")
    mods.take("uni")
    mods.done()
    form = Call(entries=len(ins.table))
    lo.emit("BRX", s=[lo.src(ins.operands[0], 32)], form=form, cost=8).table = ins.table


@instruction("exit")
def leave(lo: Lowering, ins: Instr) -> None:
    """exit: the active lanes leave the kernel."""
    mods = Mods(ins)
    mods.take("uni")
    mods.done()
    lo.emit("EXIT")
