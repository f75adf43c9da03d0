"""Copies from shared to Tensor Memory (PTX ISA, "tcgen05.cp") and the refused tcgen05.shift.

`tcgen05.shift.down` is refused: the text leaves open which row keeps its value (docs/hardware.md,
"Not settled").
"""

from __future__ import annotations

from ...contract.codes import CP_SHAPES
from ...contract.forms import Tmem
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, Unit
from .forms import cta_group, form, tmem_address

COPY_ISSUE_CYCLES = 2
"""Issue slots of one copy; its time in the pipe is modelled in the engine."""


@form("cp")
def copy(lo: Lowering, ins: Instr) -> None:
    """tcgen05.cp.cta_group.shape{.multicast}{.b8x16.{b4x16_p64, b6x16_p32}} [taddr], desc."""
    mods = Mods(ins)
    mods.take("cp")
    group = cta_group(mods)
    shape = mods.one_of("128x256b", "128x128b", "4x256b", "64x128b", "32x128b")
    multicast = mods.maybe("warpx2::02_13", "warpx2::01_23", "warpx4")
    packed = 0
    if mods.take("b8x16"):
        packed = int(mods.one_of("b6x16_p32", "b4x16_p64")[1])
    mods.done()
    whole = f"{shape}.{multicast}" if multicast else shape
    if whole not in CP_SHAPES:
        raise lo.fail(f"shape .{shape} does not go with multicast {multicast}")
    if len(ins.operands) != 2:
        raise lo.fail("cp takes [taddr] and a descriptor")
    slot, offset = tmem_address(lo, ins.operands[0])
    lo.emit(
        "TMEM_CP", s=(slot, lo.src(ins.operands[1], 64)), imm=offset,
        form=Tmem(group=group, shape=CP_SHAPES.index(whole), packed=packed),
        cost=COPY_ISSUE_CYCLES, unit=Unit.MMA,
    )  # fmt: skip


@form("shift")
def shift(lo: Lowering, ins: Instr) -> None:
    """tcgen05.shift.cta_group.down: refused, as `.ashift` is (hardware.md, "Not settled")."""
    raise lo.fail("tcgen05.shift is not modelled: the ISA does not say which row keeps its value")
