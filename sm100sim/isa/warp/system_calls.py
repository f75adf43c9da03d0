"""Functions that CUDA's device runtime provides: vprintf, __assertfail, malloc, free, and
cudaGraphSetConditional.

CUDA C++ Programming Guide, "Formatted Output", "Assertion" and "Dynamic Global Memory Allocation
and Operations"; their PTX interface is documented in
"PTX Writer's Guide to Interoperability", "System Calls".  A module that holds a function of that
name calls its own.
"""

from __future__ import annotations

from collections.abc import Callable

from ...contract.codes import Space
from ...contract.forms import Memory
from ...ptx.program import CallSite, Operand, Symbol
from ..lowering import Lowering


def _argument(lo: Lowering, operand: Operand, bits: int) -> int:
    """Slot of an argument, which the caller keeps in a `.param` variable."""
    if isinstance(operand, Symbol) and operand.name in lo.frame.offsets:
        _whole(lo, operand, bits)
        slot = lo.temp(bits)
        lo.emit("LD", (slot,), (lo.symbol_address(operand, 64),), _local(bits))
        return slot
    return lo.src(operand, bits)


def _whole(lo: Lowering, operand: Symbol, bits: int) -> None:
    have = lo.frame.sizes[operand.name]
    if 8 * have != bits:
        raise lo.fail(f"{operand.name} has {have} bytes, {bits // 8} are expected")


def _local(bits: int) -> Memory:
    return Memory(space=Space.LOCAL, bytes=bits // 8, register_bits=bits, address_bits=64)


def _counted(lo: Lowering, site: CallSite, arguments: int, results: int) -> None:
    if (len(site.arguments), len(site.results)) != (arguments, results):
        raise lo.fail(
            f"{len(site.arguments)} arguments and {len(site.results)} results, "
            f"{arguments} and {results} are expected"
        )


def vprintf(lo: Lowering, site: CallSite) -> None:
    """vprintf(format, values): text for the end of the launch; answers how many values it took."""
    _counted(lo, site, 2, 1)
    form, values = (_argument(lo, operand, 64) for operand in site.arguments)
    _answered(lo, "VPRINTF", (form, values), site.results[0], 32)


def _answered(lo: Lowering, op: str, sources: tuple[int, ...], result: Operand, bits: int) -> None:
    """Emit what has a result, and store that."""
    if not isinstance(result, Symbol):
        lo.emit(op, (lo.dst(result, bits),), sources)
        return
    _whole(lo, result, bits)
    slot = lo.temp(bits)
    lo.emit(op, (slot,), sources)
    lo.emit("ST", (), (lo.symbol_address(result, 64), slot), _local(bits))


def allocate(lo: Lowering, site: CallSite) -> None:
    """malloc(size): memory of the program's heap, or of this launch; 0 when there is no room."""
    _counted(lo, site, 1, 1)
    _answered(lo, "MALLOC", (_argument(lo, site.arguments[0], 64),), site.results[0], 64)


def release(lo: Lowering, site: CallSite) -> None:
    """free(address): of memory that malloc gave; 0 is accepted."""
    _counted(lo, site, 1, 0)
    lo.emit("FREE", (), (_argument(lo, site.arguments[0], 64),))


def assert_fail(lo: Lowering, site: CallSite) -> None:
    """__assertfail(message, file, line, function, character size): ends the launch as a fault."""
    _counted(lo, site, 5, 0)
    widths = (64, 64, 32, 64)
    slots = [_argument(lo, a, bits) for a, bits in zip(site.arguments, widths, strict=False)]
    lo.emit("ASSERT_FAIL", (), slots)


def set_condition(lo: Lowering, site: CallSite) -> None:
    """cudaGraphSetConditional(handle, value): a store to the condition, whose address it is."""
    _counted(lo, site, 2, 0)
    handle, value = (_argument(lo, site.arguments[k], bits) for k, bits in enumerate((64, 32)))
    form = Memory(space=Space.GLOBAL, bytes=4, register_bits=32, address_bits=64)
    lo.emit("ST", (), (handle, value), form)


SYSTEM_CALLS: dict[str, Callable[[Lowering, CallSite], None]] = {
    "vprintf": vprintf,
    "__assertfail": assert_fail,
    "malloc": allocate,
    "free": release,
    "cudaGraphSetConditional": set_condition,
}
