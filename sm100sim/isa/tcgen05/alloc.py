"""Tensor Memory allocation (PTX ISA, "Tensor Memory Allocation and Management Instructions")."""

from __future__ import annotations

from ...contract.forms import Tmem
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, Unit
from .forms import cta_group, form, shared_address, sync_aligned

ALLOC_CYCLES = 32
"""Issue cycles of an allocation; no published figure, off every critical path."""


@form("alloc")
def alloc(lo: Lowering, ins: Instr) -> None:
    """tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols.

    Blocks until nCols columns are free and stores their base address at `dst`.
    """
    mods = Mods(ins)
    mods.take("alloc")
    group = cta_group(mods)
    sync_aligned(mods)
    generic = not mods.take("shared::cta")
    mods.one_of("b32")
    mods.done()
    if len(ins.operands) != 2:
        raise lo.fail("alloc takes [dst] and nCols")
    slot, offset, bits = shared_address(lo, ins.operands[0], generic=generic)
    columns = lo.src(ins.operands[1], 32)
    lo.emit(
        "TMEM_ALLOC", s=(slot, columns), imm=offset,
        form=Tmem(group=group, address_bits=bits, generic=generic),
        cost=ALLOC_CYCLES, unit=Unit.TMEM,
    )  # fmt: skip


@form("dealloc")
def dealloc(lo: Lowering, ins: Instr) -> None:
    """tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, nCols: base and size of an allocation."""
    mods = Mods(ins)
    mods.take("dealloc")
    group = cta_group(mods)
    sync_aligned(mods)
    mods.one_of("b32")
    mods.done()
    if len(ins.operands) != 2:
        raise lo.fail("dealloc takes taddr and nCols")
    slots = tuple(lo.src(operand, 32) for operand in ins.operands)
    lo.emit("TMEM_DEALLOC", s=slots, form=Tmem(group=group), cost=ALLOC_CYCLES, unit=Unit.TMEM)


@form("relinquish_alloc_permit")
def relinquish(lo: Lowering, ins: Instr) -> None:
    """tcgen05.relinquish_alloc_permit.cta_group.sync.aligned: no later alloc in this CTA."""
    mods = Mods(ins)
    mods.take("relinquish_alloc_permit")
    group = cta_group(mods)
    sync_aligned(mods)
    mods.done()
    lo.emit("TMEM_RELINQUISH", form=Tmem(group=group), unit=Unit.TMEM)
