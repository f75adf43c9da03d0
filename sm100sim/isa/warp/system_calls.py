"""Functions that CUDA's device runtime provides: vprintf and __assertfail.

CUDA C++ Programming Guide, "Formatted Output" and "Assertion"; their PTX interface is documented in
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
    (result,) = site.results
    if isinstance(result, Symbol):
        _whole(lo, result, 32)
        slot = lo.temp(32)
        lo.emit("VPRINTF", (slot,), (form, values))
        lo.emit("ST", (), (lo.symbol_address(result, 64), slot), _local(32))
    else:
        lo.emit("VPRINTF", (lo.dst(result, 32),), (form, values))


def assert_fail(lo: Lowering, site: CallSite) -> None:
    """__assertfail(message, file, line, function, character size): ends the launch as a fault."""
    _counted(lo, site, 5, 0)
    widths = (64, 64, 32, 64)
    slots = [_argument(lo, a, bits) for a, bits in zip(site.arguments, widths, strict=False)]
    lo.emit("ASSERT_FAIL", (), slots)


SYSTEM_CALLS: dict[str, Callable[[Lowering, CallSite], None]] = {
    "vprintf": vprintf,
    "__assertfail": assert_fail,
}
