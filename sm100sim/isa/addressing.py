"""Address operands of the memory families (PTX ISA, "State Spaces", "Generic Addressing")."""

from __future__ import annotations

from ..contract.codes import LANES, Order, Scope, Space
from ..ptx.program import Address, Imm, Operand, Reg, Sink, SpecialReg, Symbol, Vector
from .lowering import Lowering, Mods

SMEM_BYTES_PER_CYCLE = 128
"""Shared-memory bandwidth of an SM (published)."""


_SPACES = {
    "shared": Space.SHARED_CTA,
    "shared::cta": Space.SHARED_CTA,
    "shared::cluster": Space.SHARED_CLUSTER,
    "global": Space.GLOBAL,
    "const": Space.GLOBAL,
    "param": Space.PARAM,
    "param::entry": Space.PARAM,
    "param::func": Space.LOCAL,
    "local": Space.LOCAL,
}
"""Constant variables live in host memory like global ones."""

SEMANTICS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
SCOPES = ("cta", "cluster", "gpu", "sys")
CACHE = (
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "unified",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
)
"""Cache operators and prefetch sizes: performance hints without effect on values."""


def take_space(mods: Mods, *allowed: str) -> Space:
    """Consume a state space modifier; none means a generic address."""
    found = mods.maybe(*(allowed or tuple(_SPACES)))
    return _SPACES[found] if found else Space.GENERIC


_SCOPE_OF = {
    "cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.DEVICE, "gl": Scope.DEVICE,
    "sys": Scope.DEVICE,
}  # fmt: skip
_ORDERS = {
    "acquire": Order.ACQUIRE, "release": Order.RELEASE, "acq_rel": Order.ACQUIRE | Order.RELEASE,
    "sc": Order.ACQUIRE | Order.RELEASE,
}  # fmt: skip


def order_bits(semantics: str | None, scope: str | None) -> int:
    """`Order` and scope of `.sem.scope`; without a scope a strong access has the device's."""
    if semantics in (None, "weak") and scope is None:
        return 0
    return _SCOPE_OF[scope or "sys"] | _ORDERS.get(semantics or "", 0)


def take_hints(mods: Mods) -> int:
    """Consume memory semantics, scope and cache operators.

    Answers the bits of `order_bits`, which only the checker uses: the engine executes accesses in
    one order.
    """
    semantics = [name for name in SEMANTICS if mods.take(name)]
    scope = mods.maybe(*SCOPES)
    for name in CACHE:
        mods.take(name)
    return order_bits(semantics[-1] if semantics else None, scope)


def take_policy(lo: Lowering, mods: Mods, operands: tuple[Operand, ...], count: int) -> None:
    """Consume `.L2::cache_hint` and check its operand after the first `count` ones; it has no
    effect."""
    hint = mods.take("L2::cache_hint")
    if len(operands) != count + hint:
        raise lo.fail(f"{count + hint} operands expected, {len(operands)} given")
    if hint:
        lo.src(operands[count], 64)


def storage(lo: Lowering, operand: Operand, space: Space) -> Space:
    """Where a `.param` access goes: variables of calls, and all of a device function, are local.

    PTX ISA, "Device Function Parameters"; `.param::entry` names the parameters of the kernel.
    """
    if space != Space.PARAM or "param::entry" in lo.ins().mods:
        return space
    base = operand.base if isinstance(operand, Address) else None
    of_call = isinstance(base, Symbol) and base.name in lo.frame.offsets
    return Space.LOCAL if of_call or not lo.kernel else space


def place(lo: Lowering, operand: Operand, space: Space) -> tuple[int, int, int]:
    """(slot, offset, bits) of `[...]`; generic, global and local addresses need 64 bits."""
    slot, offset, bits = lo.address(operand)
    if bits == 32 and space in (Space.GENERIC, Space.GLOBAL):
        raise lo.fail("a generic or global address needs 64 bits")
    return slot, offset, bits


def elements(operand: Operand) -> tuple[Operand, ...]:
    """What a vector consists of; of a scalar, itself."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def registers(lo: Lowering, operand: Operand, count: int, name: str) -> tuple[Operand, ...]:
    """The `count` registers of an operand that errors call `name`."""
    items = elements(operand)
    if len(items) != count:
        raise lo.fail(f"{name} has {count} registers, {len(items)} are given")
    return items


def register_bits(lo: Lowering, items: tuple[Operand, ...], bits: int) -> int:
    """Width of the registers that hold `bits`-wide elements; all of one vector agree.

    Registers may be wider than the element (PTX ISA, "Operand Size Exceeding Instruction-Type
    Size").
    """
    widths = {item.type.bits for item in items if isinstance(item, Reg)}
    if any(width < bits for width in widths) or len({max(width, 32) for width in widths}) > 1:
        raise lo.fail(f"registers of {sorted(widths)} bits cannot hold elements of {bits} bits")
    return max(widths, default=bits)


def destination(lo: Lowering, item: Operand, width: int) -> int:
    """Slot of a destination register of a vector whose registers have `width` bits."""
    if isinstance(item, Reg):
        return lo.dst(item, item.type.bits)
    if isinstance(item, Sink):
        return lo.dst(item, max(width, 32))
    raise lo.fail(f"operand {item!r} cannot be written")


def source(lo: Lowering, item: Operand, bits: int, width: int) -> int:
    """Slot of a source whose low `bits` bits are used; immediates take the vector's register
    width."""
    if isinstance(item, Reg):
        return lo.src(item, item.type.bits)
    if isinstance(item, Imm):
        value = lo.imm_bits(item, 64 if bits == 64 else 32 if item.kind != "int" else bits)
        return lo.constant(value, max(width, 32))
    if isinstance(item, SpecialReg):
        return lo.src(item, 32)
    return lo.src(item, bits)


def lsu_cycles(nbytes: int) -> int:
    """Modelled issue cycles of a warp access of `nbytes` bytes per lane."""
    return max(1, nbytes * LANES // SMEM_BYTES_PER_CYCLE)
