"""The opcode `tcgen05`: its forms are told apart by the second dot component.

The files `tcgen05_*.py` register one function per form with `@form`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ptx.program import Address, Instr, Operand, Reg
from ..lowering import Family, Lowering, Mods, instruction

_FORMS: dict[str, Family] = {}


def form(*names: str) -> Callable[[Family], Family]:
    """Register the lowering of `tcgen05.<name>`.

    Raises:
        ValueError: a form is registered twice.
    """

    def register(function: Family) -> Family:
        for name in names:
            if name in _FORMS:
                raise ValueError(f"tcgen05.{name} is lowered twice")
            _FORMS[name] = function
        return function

    return register


def forms() -> dict[str, Family]:
    """All tcgen05 forms that have a lowering, for the coverage table."""
    return dict(_FORMS)


@instruction("tcgen05")
def tcgen05(lo: Lowering, ins: Instr) -> None:
    """tcgen05.*: TensorCore 5th generation instructions (PTX ISA, section of that name)."""
    name = ins.mods[0] if ins.mods else ""
    lowering = _FORMS.get(name)
    if lowering is None:
        raise lo.fail(f"tcgen05.{name} is not in the instruction set here")
    lowering(lo, ins)


def cta_group(mods: Mods) -> int:
    """Consume `.cta_group::1` or `.cta_group::2`."""
    return 2 if mods.one_of("cta_group::1", "cta_group::2") == "cta_group::2" else 1


def sync_aligned(mods: Mods) -> None:
    """Consume the mandatory `.sync.aligned`."""
    mods.one_of("sync")
    mods.one_of("aligned")


def tmem_address(lo: Lowering, operand: Operand) -> tuple[int, int]:
    """(slot, offset) of a Tensor Memory address operand `[reg + offset]`."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Reg):
        raise lo.fail(f"operand {operand!r} is not a Tensor Memory address")
    slot, offset, bits = lo.address(operand)
    if bits != 32:
        raise lo.fail(f"a Tensor Memory address has 32 bits, {operand.base.name} has {bits}")
    return slot, offset


def shared_address(lo: Lowering, operand: Operand, *, generic: bool) -> tuple[int, int, int]:
    """(slot, offset, bits) of a shared-memory address; generic addresses need 64 bits."""
    slot, offset, bits = lo.address(operand)
    if generic and bits != 64:
        raise lo.fail("a generic address needs 64 bits; a state space is missing")
    return slot, offset, bits
