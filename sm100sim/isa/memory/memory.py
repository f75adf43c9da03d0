"""Loads, stores, address conversion, cache hints (PTX ISA 9.7.9, "Data Movement and Conversion
Instructions").

State spaces: .global, .const, .shared{::cta,::cluster}, .param of the kernel and of calls, .local
and generic addresses.
Memory semantics and scopes matter to the checker only: the engine executes accesses in one order.
Cache operators are accepted.
"""

from __future__ import annotations

from ...contract.codes import WINDOW_LOCAL, WINDOW_PARAM, WINDOW_SHARED, Space
from ...contract.forms import MapAccess, Memory, Remote, Window
from ...ptx.program import Instr, Operand, Reg
from ...ptx.types import TYPES
from ..addressing import (
    destination,
    elements,
    lsu_cycles,
    place,
    register_bits,
    source,
    storage,
    take_hints,
    take_policy,
    take_space,
)
from ..arith.integer import operands
from ..lowering import Lowering, Mods, Unit, instruction

STORE_CYCLES = 8
"""Modelled issue cycles of a bulk store; no record has its time."""
WINDOWS = {
    "global": 0, "const": 0, "shared": WINDOW_SHARED, "shared::cta": WINDOW_SHARED,
    "shared::cluster": WINDOW_SHARED, "param": WINDOW_PARAM, "param::entry": WINDOW_PARAM,
    "param::func": WINDOW_LOCAL, "local": WINDOW_LOCAL,
}  # fmt: skip
"""High half of a generic address in each space; global addresses are those of the host."""

POLICY_VALUES = {
    "L2::evict_normal": 0x1000000000000000,
    "L2::evict_unchanged": 0x1000000000000000,
    "L2::evict_first": 0x12F0000000000000,
    "L2::evict_last": 0x14F0000000000000,
}
"""Opaque cache policies, with the constants that CUTLASS uses for them."""


def _elements(lo: Lowering, mods: Mods, operand: Operand) -> tuple[tuple[Operand, ...], str]:
    """The registers of a scalar or vector access and its element type."""
    kind = mods.last()
    if kind not in TYPES or kind == "pred":
        raise lo.fail(f"type .{kind} cannot be loaded or stored")
    vector = mods.maybe("v2", "v4", "v8")
    items = elements(operand)
    if len(items) != (int(vector[1]) if vector else 1):
        raise lo.fail(f"{len(items)} registers for .{vector or 'scalar'}")
    if TYPES[kind].bits * len(items) > 256:
        raise lo.fail("an access moves at most 32 bytes per thread")
    return items, kind


@instruction("ld", "ldu")
def load(lo: Lowering, ins: Instr) -> None:
    """ld, ldu {.weak .volatile .relaxed .acquire}{.scope}{.space}{.nc}{cache}{.v2 .v4 .v8}.type d,
    [a]{, policy}.

    Types b8 to b128, also the integer and float names of the same widths.
    """
    mods = Mods(ins)
    items, kind = _elements(lo, mods, ins.operands[0])
    space = storage(lo, ins.operands[1], take_space(mods))
    order = take_hints(mods)
    take_policy(lo, mods, ins.operands, 2)
    mods.done()
    bits = TYPES[kind].bits
    width = register_bits(lo, items, bits)
    slot, offset, address_bits = place(lo, ins.operands[1], space)
    lo.emit(
        "LD",
        [destination(lo, x, width) for x in items],
        (slot,),
        Memory(
            space=space, bytes=bits // 8, register_bits=width, is_signed=kind[0] == "s",
            address_bits=address_bits, order=order,
        ),
        offset,
        lsu_cycles(bits // 8 * len(items)),
        Unit.LSU,
    )


@instruction("st")
def store(lo: Lowering, ins: Instr) -> None:
    """st{.weak .volatile .relaxed .release}{.scope}{.space}{cache}{.v2 .v4 .v8}.type [a], b{,
    policy}; st.async; st.bulk."""
    mods = Mods(ins)
    if mods.take("async"):
        store_async(lo, ins, mods)
        return
    if mods.take("bulk"):
        clear(lo, ins, mods)
        return
    items, kind = _elements(lo, mods, ins.operands[1])
    space = storage(lo, ins.operands[0], take_space(mods))
    order = take_hints(mods)
    take_policy(lo, mods, ins.operands, 2)
    mods.done()
    if space == Space.PARAM:
        raise lo.fail("kernel parameters cannot be stored to")
    bits = TYPES[kind].bits
    width = register_bits(lo, items, bits)
    slot, offset, address_bits = place(lo, ins.operands[0], space)
    sources = [source(lo, x, bits, width) for x in items]
    lo.emit(
        "ST",
        (),
        (slot, *sources),
        Memory(
            space=space, bytes=bits // 8, register_bits=width, address_bits=address_bits,
            order=order,
        ),
        offset,
        lsu_cycles(bits // 8 * len(items)),
        Unit.LSU,
    )


def clear(lo: Lowering, ins: Instr, mods: Mods) -> None:
    """st.bulk{.weak}{.shared::cta} [a], size, 0: zeros from each thread (PTX ISA, "st.bulk")."""
    mods.take("weak")
    space = take_space(mods, "shared::cta")
    mods.done()
    operands(lo, ins, 3)
    address, size, value = ins.operands
    if lo.imm_value(value) != 0:
        raise lo.fail("the initial value must be 0")
    slot, offset, bits = place(lo, address, space)
    wide = isinstance(size, Reg) and size.type.bits == 64
    form = Memory(space=space, register_bits=64 if wide else 32, address_bits=bits)
    slots = (slot, lo.src(size, 64 if wide else 32))
    lo.emit("ST_BULK", (), slots, form, offset, STORE_CYCLES, Unit.LSU)


def store_async(lo: Lowering, ins: Instr, mods: Mods) -> None:
    """st.async{.weak}.shared::cluster.mbarrier::complete_tx::bytes{.v2 .v4}.type [a], b, [mbar]
    (PTX ISA, "st.async")."""
    items, kind = _elements(lo, mods, ins.operands[1])
    mods.one_of("mbarrier::complete_tx::bytes")
    space = take_space(mods, "shared::cluster")
    mods.take("weak")
    mods.done()
    bits = TYPES[kind].bits
    if bits not in (32, 64) or len(ins.operands) != 3 or bits * len(items) > 128:
        raise lo.fail(
            "st.async moves up to 16 bytes of 32- or 64-bit elements and names an mbarrier"
        )
    width = register_bits(lo, items, bits)
    slot, offset, address_bits = place(lo, ins.operands[0], space)
    bar, bar_offset, bar_bits = place(lo, ins.operands[2], space)
    sources = [source(lo, x, bits, width) for x in items]
    lo.emit(
        "ST_ASYNC",
        (),
        (slot, bar, *sources),
        Remote(
            bytes=bits // 8, address_bits=address_bits, bar_bits=bar_bits, bar_offset=bar_offset
        ),
        offset,
        lsu_cycles(bits // 8 * len(items)),
        Unit.LSU,
    )


@instruction("cvta")
def convert_address(lo: Lowering, ins: Instr) -> None:
    """cvta.space.u64 p, a (to a generic address) and cvta.to.space.u64 p, a (back); PTX ISA,
    "cvta"."""
    mods = Mods(ins)
    back = mods.take("to")
    mods.one_of("u64")
    space = mods.one_of(*WINDOWS)
    window = WINDOWS["local" if space == "param" and not lo.kernel else space]
    mods.done()
    d, a = ins.operands
    name = "CVTA_TO" if back else "CVTA"
    lo.emit(name, (lo.dst(d, 64),), (lo.src(a, 64),), Window(window=window))


@instruction("isspacep")
def is_space(lo: Lowering, ins: Instr) -> None:
    """isspacep.space p, a (PTX ISA, "isspacep"); .shared means .shared::cta."""
    mods = Mods(ins)
    space = mods.one_of(*WINDOWS)
    mods.done()
    own = space in ("shared", "shared::cta")
    lo.emit(
        "ISSPACEP",
        (lo.pred_dst(ins.operands[0]),),
        (lo.src(ins.operands[1], 64),),
        Window(window=WINDOWS[space], own=own),
    )


@instruction("prefetch", "prefetchu")
def prefetch(lo: Lowering, ins: Instr) -> None:
    """prefetch{.space}.L1|.L2{::evict_*}, prefetchu.L1, prefetch{.param .const}.tensormap [a] (PTX
    ISA, "prefetch").

    A descriptor is checked when it is prefetched; the others have no effect.
    """
    mods = Mods(ins)
    space = take_space(mods, "global", "local", "param", "const")
    if mods.take("tensormap"):
        mods.done()
        slot, offset, bits = place(lo, ins.operands[0], space)
        form = MapAccess(space=space, address_bits=bits)
        lo.emit("TENSORMAP_PREFETCH", (), (slot,), form, offset, 1, Unit.TMA)
        return
    mods.one_of("L1", "L2", "L2::evict_last", "L2::evict_normal")
    mods.done()
    lo.emit("HINT", (), (lo.address(ins.operands[0])[0],))


@instruction("discard", "applypriority")
def cache_hint(lo: Lowering, ins: Instr) -> None:
    """discard{.global}.L2 [a], 128; applypriority{.global}.L2::evict_normal [a], 128: hints without
    effect here."""
    mods = Mods(ins)
    mods.take("global")
    mods.one_of("L2", "L2::evict_normal")
    mods.done()
    if len(ins.operands) != 2 or lo.imm_value(ins.operands[1]) != 128:
        raise lo.fail("the size operand must be 128")
    lo.emit("HINT", (), (lo.address(ins.operands[0])[0],))


@instruction("createpolicy")
def create_policy(lo: Lowering, ins: Instr) -> None:
    """createpolicy.fractional.L2::primary{.L2::secondary}.b64 d{, fraction}, .range{.global}. with
    [a], sizes, .cvt.L2.b64 d, property (PTX ISA, "createpolicy"); d is opaque."""
    mods = Mods(ins)
    how = mods.one_of("fractional", "range", "cvt")
    mods.one_of("b64")
    if how == "range":
        mods.take("global")
    if how == "cvt":
        mods.one_of("L2")
    named = [m for m in ins.mods if m in POLICY_VALUES]
    primary = named[0] if named and how != "cvt" else "L2::evict_normal"
    for name in named[:2]:
        mods.take(name)
    mods.done()
    lo.emit("POLICY", (lo.dst(ins.operands[0], 64),), imm=POLICY_VALUES[primary])
