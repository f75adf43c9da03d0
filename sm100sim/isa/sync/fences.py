"""Memory fences (PTX ISA 9.7.13.4, "membar / fence") and the programmatic launch hints.

The engine executes all accesses of a cluster in one order, so fences change no values; the checker
of
happens-before edges and proxies is told of them.
"""

from __future__ import annotations

from ...contract.codes import FenceKind, FenceSpace, Space
from ...contract.forms import Fence, MapAccess
from ...ptx.program import Instr
from ..addressing import SCOPES, order_bits, place
from ..lowering import Lowering, Mods, Unit, instruction

FENCE_CYCLES = 16


def _emit(lo: Lowering, kind: FenceKind, argument: int = 0) -> None:
    lo.emit("FENCE", form=Fence(kind=kind, argument=argument), cost=FENCE_CYCLES, unit=Unit.SYNC)


@instruction("fence")
def fence(lo: Lowering, ins: Instr) -> None:
    """fence{.sc .acq_rel .acquire .release}.scope; fence.mbarrier_init.release.cluster;
    fence.proxy.*.

    fence.proxy.{alias, async, async.global, async.shared::{cta,cluster}},
    fence.proxy.tensormap::generic.{release, acquire}.scope, and the .sync_restrict forms.
    """
    mods = Mods(ins)
    if mods.take("mbarrier_init"):
        mods.one_of("release")
        mods.one_of("cluster")
        mods.done()
        _emit(lo, FenceKind.MBARRIER_INIT)
    elif mods.take("proxy"):
        _proxy(lo, ins, mods)
    else:
        semantics = mods.maybe("sc", "acq_rel", "acquire", "release") or "acq_rel"
        mods.maybe("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
        scope = mods.one_of(*SCOPES)
        mods.done()
        _emit(lo, FenceKind.MEMBAR, order_bits(semantics, scope))


def _proxy(lo: Lowering, ins: Instr, mods: Mods) -> None:
    if mods.take("tensormap::generic"):
        acquire = mods.one_of("release", "acquire") == "acquire"
        scope = mods.one_of(*SCOPES)
        mods.done()
        if not acquire:
            _emit(lo, FenceKind.MEMBAR, order_bits("release", scope))
            return
        if len(ins.operands) != 2 or lo.imm_value(ins.operands[1]) != 128:
            raise lo.fail("the acquire form takes [address], 128")
        slot, offset, bits = place(lo, ins.operands[0], Space.GENERIC)
        form = MapAccess(space=Space.GENERIC, address_bits=bits)
        lo.emit("TENSORMAP_ACQUIRE", (), (slot,), form, offset, FENCE_CYCLES, Unit.SYNC)
        return
    if mods.take("async::generic"):
        mods.one_of("acquire", "release")
        mods.maybe("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
        mods.one_of(*SCOPES)
        mods.done()
        _emit(lo, FenceKind.PROXY_ASYNC, FenceSpace.SHARED | FenceSpace.GLOBAL)
        return
    kind = mods.one_of("alias", "async")
    space = mods.maybe("global", "shared::cta", "shared::cluster")
    mods.done()
    spaces = FenceSpace.GLOBAL if space in ("global", None) else FenceSpace(0)
    spaces |= FenceSpace(0) if space == "global" else FenceSpace.SHARED
    if kind == "async":
        _emit(lo, FenceKind.PROXY_ASYNC, spaces)
    else:
        _emit(lo, FenceKind.MEMBAR)


@instruction("membar")
def membar(lo: Lowering, ins: Instr) -> None:
    """membar.{cta, gl, sys} and membar.proxy.{alias, async...}: the older spelling of fence."""
    mods = Mods(ins)
    if mods.take("proxy"):
        _proxy(lo, ins, mods)
        return
    scope = mods.one_of("cta", "gl", "gpu", "sys")
    mods.done()
    _emit(lo, FenceKind.MEMBAR, order_bits("sc", scope))


@instruction("griddepcontrol")
def grid_dependency(lo: Lowering, ins: Instr) -> None:
    """griddepcontrol.{launch_dependents, wait}: one grid runs at a time here, so both are satisfied
    at once."""
    mods = Mods(ins)
    mods.one_of("launch_dependents", "wait")
    mods.done()
    lo.emit("HINT", unit=Unit.SYNC)
