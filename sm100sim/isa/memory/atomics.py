"""Atomic operations (PTX ISA 9.7.13, "atom", "red", "red.async")."""

from __future__ import annotations

from ...contract.codes import Element, RedOp, Scope, Space
from ...contract.forms import Atomic, Remote
from ...ptx.program import Instr, Operand
from ..addressing import (
    destination,
    elements,
    place,
    register_bits,
    source,
    take_hints,
    take_policy,
    take_space,
)
from ..lowering import Lowering, Mods, Unit, instruction

ATOMIC_CYCLES = 32
"""Issue cycles of one warp atomic: lanes are serialised."""


BITWISE = frozenset({RedOp.and_, RedOp.or_, RedOp.xor, RedOp.exch, RedOp.cas})
_INTEGERS = {"u32": Element.U32, "s32": Element.S32, "u64": Element.U64, "s64": Element.S64}
_FLOATS = {"f16": Element.F16, "bf16": Element.BF16, "f32": Element.F32_FTZ, "f64": Element.F64}
_BITS = {"b16": Element.U16, "b32": Element.U32, "b64": Element.U64, **_INTEGERS}


def take_operation(mods: Mods) -> RedOp:
    """Consume `.add`, `.min`, ... of an atomic or a reduction."""
    name = mods.one_of("add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas")
    return RedOp[name + "_" if name in ("and", "or") else name]


def element_of(lo: Lowering, op: RedOp, kind: str) -> tuple[Element, int]:
    """(element, elements packed in one register) of `.type` for `op`.

    Raises:
        Unsupported: the pair is not in the ISA's table.
    """
    base, packed = (kind[:-2], 2) if kind in ("f16x2", "bf16x2") else (kind, 1)
    if op in BITWISE and base in _BITS and not (base == "b16" and op != RedOp.cas):
        return _BITS[base], 1
    if op in (RedOp.inc, RedOp.dec) and base == "u32":
        return Element.U32, 1
    if op in (RedOp.add, RedOp.min, RedOp.max):
        if base in _INTEGERS:
            return _INTEGERS[base], 1
        if base in _FLOATS and (op == RedOp.add or base in ("f16", "bf16")):
            return _FLOATS[base], packed
    raise lo.fail(f".{op.name.rstrip('_')}.{kind} is not an atomic operation")


def _lower(lo: Lowering, mods: Mods, result: Operand | None, rest: tuple[Operand, ...]) -> None:
    op = take_operation(mods)
    kind = mods.last()
    vector = mods.maybe("v2", "v4", "v8")
    space = take_space(mods, "global", "shared", "shared::cta", "shared::cluster")
    order = take_hints(mods) or int(Scope.DEVICE)  # without semantics: .relaxed.gpu
    mods.take("noftz")
    take_policy(lo, mods, rest, 3 if op == RedOp.cas else 2)
    mods.done()
    slot, offset, bits = place(lo, rest[0], space)
    if kind == "b128":
        _lower_b128(lo, op, (space, order), result, rest)
        return
    element, packed = element_of(lo, op, kind)
    items = elements(rest[1])
    misplaced = vector and (space != Space.GLOBAL or op > RedOp.max)
    if misplaced or len(items) != (int(vector[1]) if vector else 1):
        raise lo.fail("vector atomics are .global add, min, max with one register per element")
    operand, register = _widths(element, packed)
    register_bits(lo, items, operand)
    # In PTX the comparand comes first, then the new value.
    values = (rest[2], *items) if op == RedOp.cas else items
    results = () if result is None else elements(result)
    lo.emit(
        "ATOMIC",
        [destination(lo, x, register) for x in results],
        (slot, *(source(lo, x, operand, register) for x in values)),
        Atomic(
            space=space, op=op, element=element, packed=packed, address_bits=bits, order=order,
            register_bits=register, elements=len(items),
        ),
        offset,
        ATOMIC_CYCLES,
        Unit.LSU,
    )


def _widths(element: Element, packed: int) -> tuple[int, int]:
    """Bits of an operand, and of the engine's register that holds it."""
    if element in (Element.U64, Element.S64, Element.F64):
        return 64, 64
    if element in (Element.U16, Element.F16, Element.BF16) and packed == 1:
        return 16, 32
    return 32, 32


def _lower_b128(
    lo: Lowering, op: RedOp, where: tuple[Space, int], result: Operand | None,
    rest: tuple[Operand, ...],
) -> None:  # fmt: skip
    space, order = where
    if op not in (RedOp.exch, RedOp.cas):
        raise lo.fail("128-bit atomics are .exch and .cas")
    slot, offset, bits = place(lo, rest[0], space)
    values = [lo.src(x, 128) for x in reversed(rest[1 : 3 if op == RedOp.cas else 2])]
    results = () if result is None else (lo.dst(result, 128),)
    lo.emit(
        "ATOMIC_B128", results, (slot, *values),
        Atomic(space=space, op=op, address_bits=bits, order=order), offset, ATOMIC_CYCLES, Unit.LSU,
    )  # fmt: skip


@instruction("atom")
def atomic(lo: Lowering, ins: Instr) -> None:
    """atom{.sem}{.scope}{.space}.op{.noftz}{.vec}{cache_hint}.type d, [a], b{, c}{, policy}.

    op: add min max and or xor inc dec exch cas; types b16 (cas), b/u/s 32 and 64, f16{x2} bf16{x2}
    f32 f64, b128.
    """
    _lower(lo, Mods(ins), ins.operands[0], ins.operands[1:])


@instruction("red")
def reduction(lo: Lowering, ins: Instr) -> None:
    """red{.sem}{.scope}{.space}.op{.noftz}{.vec}{cache_hint}.type [a], b{, policy}; red.async."""
    mods = Mods(ins)
    if mods.take("async"):
        reduction_async(lo, ins, mods)
        return
    _lower(lo, mods, None, ins.operands)


def reduction_async(lo: Lowering, ins: Instr, mods: Mods) -> None:
    """red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.op.type [a], b, [mbar]
    (PTX ISA, "red.async")."""
    mods.take("relaxed")
    mods.take("cluster")
    mods.one_of("mbarrier::complete_tx::bytes")
    space = take_space(mods, "shared::cluster")
    op = take_operation(mods)
    kind = mods.last()
    mods.done()
    element, packed = element_of(lo, op, kind)
    if op in (RedOp.exch, RedOp.cas) or element >= Element.F16 or packed > 1:
        raise lo.fail("red.async takes integer add, min, max, inc, dec, and, or, xor")
    bits = 64 if element in (Element.U64, Element.S64) else 32
    slot, offset, address_bits = place(lo, ins.operands[0], space)
    bar, bar_offset, bar_bits = place(lo, ins.operands[2], space)
    lo.emit(
        "RED_ASYNC",
        (),
        (slot, bar, lo.src(ins.operands[1], bits)),
        Remote(
            op=op, element=element, bytes=bits // 8, address_bits=address_bits, bar_bits=bar_bits,
            bar_offset=bar_offset,
        ),
        offset,
        2,
        Unit.LSU,
    )
