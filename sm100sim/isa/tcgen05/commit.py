"""Completion of MMAs and copies through mbarriers (PTX ISA, "tcgen05.commit")."""

from __future__ import annotations

from ...contract.forms import Tmem
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, Unit
from .forms import cta_group, form, shared_address

COMMIT_ISSUE_CYCLES = 2
"""Issue slots of one commit."""


@form("commit")
def commit(lo: Lowering, ins: Instr) -> None:
    """tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64.

    Operands: [mbar], and a 16-bit CTA mask with `.multicast::cluster`.
    """
    mods = Mods(ins)
    mods.take("commit")
    group = cta_group(mods)
    mods.one_of("mbarrier::arrive::one")
    generic = not mods.take("shared::cluster")
    multicast = mods.take("multicast::cluster")
    mods.one_of("b64")
    mods.done()
    if len(ins.operands) != 1 + multicast:
        raise lo.fail("commit takes [mbar], and a CTA mask with .multicast::cluster")
    slot, offset, bits = shared_address(lo, ins.operands[0], generic=generic)
    slots = (slot, lo.src(ins.operands[1], 16)) if multicast else (slot,)
    lo.emit(
        "MMA_COMMIT", s=slots, imm=offset,
        form=Tmem(group=group, address_bits=bits, generic=generic, multicast=multicast),
        cost=COMMIT_ISSUE_CYCLES, unit=Unit.MMA,
    )  # fmt: skip
