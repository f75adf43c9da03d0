"""Memory fences (PTX ISA 9.7.13.4, "membar / fence") and the programmatic launch hints.

The engine executes all accesses of a cluster in one order, so fences change no values; the checker
of
happens-before edges and proxies is told of them.
"""

from __future__ import annotations

from ...ptx.program import Instr
from ..addressing import SCOPES, Space, order_bits, place
from ..lowering import Lowering, Mods, Unit, instruction

FENCE_PROXY_ASYNC, FENCE_MBARRIER_INIT, FENCE_MEMBAR = 0, 1, 8
"""`FENCE_*` of engine.h."""

FENCE_CYCLES = 16


SHARED, GLOBAL = 1, 2
"""Spaces of a proxy fence."""


def _emit(lo: Lowering, kind: int, argument: int = 0) -> None:
    lo.emit("FENCE", sub=(kind, argument), cost=FENCE_CYCLES, unit=Unit.SYNC)


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
        _emit(lo, FENCE_MBARRIER_INIT)
    elif mods.take("proxy"):
        _proxy(lo, ins, mods)
    else:
        semantics = mods.maybe("sc", "acq_rel", "acquire", "release") or "acq_rel"
        mods.maybe("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
        scope = mods.one_of(*SCOPES)
        mods.done()
        _emit(lo, FENCE_MEMBAR, order_bits(semantics, scope))


def _proxy(lo: Lowering, ins: Instr, mods: Mods) -> None:
    if mods.take("tensormap::generic"):
        acquire = mods.one_of("release", "acquire") == "acquire"
        scope = mods.one_of(*SCOPES)
        mods.done()
        if not acquire:
            _emit(lo, FENCE_MEMBAR, order_bits("release", scope))
            return
        if len(ins.operands) != 2 or lo.imm_value(ins.operands[1]) != 128:
            raise lo.fail("the acquire form takes [address], 128")
        slot, offset, bits = place(lo, ins.operands[0], Space.GENERIC)
        lo.emit(
            "TENSORMAP_ACQUIRE", (), (slot,), (Space.GENERIC, bits), offset, FENCE_CYCLES, Unit.SYNC
        )
        return
    if mods.take("async::generic"):
        mods.one_of("acquire", "release")
        mods.maybe("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
        mods.one_of(*SCOPES)
        mods.done()
        _emit(lo, FENCE_PROXY_ASYNC, SHARED | GLOBAL)
        return
    kind = mods.one_of("alias", "async")
    space = mods.maybe("global", "shared::cta", "shared::cluster")
    mods.done()
    spaces = GLOBAL if space == "global" else SHARED if space else SHARED | GLOBAL
    if kind == "async":
        _emit(lo, FENCE_PROXY_ASYNC, spaces)
    else:
        _emit(lo, FENCE_MEMBAR)


@instruction("membar")
def membar(lo: Lowering, ins: Instr) -> None:
    """membar.{cta, gl, sys} and membar.proxy.{alias, async...}: the older spelling of fence."""
    mods = Mods(ins)
    if mods.take("proxy"):
        _proxy(lo, ins, mods)
        return
    scope = mods.one_of("cta", "gl", "gpu", "sys")
    mods.done()
    _emit(lo, FENCE_MEMBAR, order_bits("sc", scope))


@instruction("griddepcontrol")
def grid_dependency(lo: Lowering, ins: Instr) -> None:
    """griddepcontrol.{launch_dependents, wait}: one grid runs at a time here, so both are satisfied
    at once."""
    mods = Mods(ins)
    mods.one_of("launch_dependents", "wait")
    mods.done()
    lo.emit("HINT", unit=Unit.SYNC)
