"""Cluster addresses and cluster launch control.

PTX ISA 9.7.9.23 "mapa", 9.7.9.24 "getctarank", 9.7.13.17 "clusterlaunchcontrol".
"""

from __future__ import annotations

from ...contract.codes import Space
from ...contract.forms import Cancel, Window
from ...ptx.program import Instr, Vector
from ..addressing import elements, place, take_space
from ..lowering import Lowering, Mods, Unit, instruction

TRY_CANCEL_CYCLES = 16
CTAID_AXES = {"x": 0, "y": 1, "z": 2}


def _address_bits(lo: Lowering, mods: Mods) -> int:
    """Bits of an address `{.shared::cluster}.{u32,u64}`."""
    space = take_space(mods, "shared::cluster")
    bits = 64 if mods.one_of("u32", "u64") == "u64" else 32
    mods.done()
    if space == Space.GENERIC and bits == 32:
        raise lo.fail("a generic address needs .u64")
    return bits


@instruction("mapa")
def map_address(lo: Lowering, ins: Instr) -> None:
    """mapa{.shared::cluster}.{u32,u64} d, a, rank: the same variable in another CTA; without a
    space: generic."""
    bits = _address_bits(lo, Mods(ins))
    d, a, rank = ins.operands
    sources = (lo.src(a, bits), lo.src(rank, 32))
    lo.emit("MAPA", (lo.dst(d, bits),), sources, Window(wide=bits == 64))


@instruction("getctarank")
def cta_rank(lo: Lowering, ins: Instr) -> None:
    """getctarank{.shared::cluster}.{u32,u64} d, a: the rank of the CTA that owns an address."""
    bits = _address_bits(lo, Mods(ins))
    lo.emit(
        "GETCTARANK",
        (lo.dst(ins.operands[0], 32),),
        (lo.src(ins.operands[1], bits),),
        Window(wide=bits == 64),
    )


@instruction("clusterlaunchcontrol")
def launch_control(lo: Lowering, ins: Instr) -> None:
    """clusterlaunchcontrol.try_cancel.async{.shared::cta}.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128
    [d], [mbar]; .query_cancel.is_canceled.pred.b128 p, r;
    .query_cancel.get_first_ctaid{::x,::y,::z}.{v4.b32,b32}.b128."""
    mods = Mods(ins)
    if mods.take("query_cancel"):
        _query(lo, ins, mods)
        return
    mods.one_of("try_cancel")
    mods.one_of("async")
    mods.one_of("mbarrier::complete_tx::bytes")
    space = take_space(mods, "shared::cta", "shared")
    everywhere = mods.take("multicast::cluster::all")
    mods.one_of("b128")
    mods.done()
    slot, offset, bits = place(lo, ins.operands[0], space)
    bar, bar_offset, bar_bits = place(lo, ins.operands[1], space)
    lo.emit(
        "TRY_CANCEL",
        (),
        (slot, bar),
        Cancel(
            space=space, address_bits=bits, bar_bits=bar_bits, everywhere=everywhere,
            bar_offset=bar_offset,
        ),
        offset,
        TRY_CANCEL_CYCLES,
        Unit.TMA,
    )


def _query(lo: Lowering, ins: Instr, mods: Mods) -> None:
    mods.one_of("b128")
    d, response = ins.operands
    if mods.take("is_canceled"):
        mods.one_of("pred")
        mods.done()
        lo.emit("IS_CANCELLED", (lo.pred_dst(d),), (lo.src(response, 128),))
        return
    name = mods.one_of("get_first_ctaid", *(f"get_first_ctaid::{axis}" for axis in CTAID_AXES))
    vector = mods.take("v4")
    mods.one_of("b32")
    mods.done()
    if vector != (name == "get_first_ctaid") or vector != isinstance(d, Vector):
        raise lo.fail("get_first_ctaid takes .v4 and four registers; with an axis, one register")
    items = elements(d)
    form = Cancel()
    form.axes[: len(items)] = range(4) if vector else (CTAID_AXES[name[-1]],)
    lo.emit("FIRST_CTAID", [lo.dst(x, 32) for x in items], (lo.src(response, 128),), form)
