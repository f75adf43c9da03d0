"""Variables by their host address (CUDA Runtime API, "Memory Management")."""

from __future__ import annotations

from ..api.copies import copying
from ..base.codes import CudaError, Status
from ..base.session import COPY_NODE, Session
from ..base.table import entry
from .registration import variable_at


def _part(s: Session, symbol: int, offset: int, size: int) -> int:
    """Address of a part of a variable.

    Raises:
        CudaError: it has no such part.
    """
    address, total = variable_at(s, symbol)
    if offset + size > total:
        raise CudaError(Status.INVALID_VALUE, f"{size} bytes at {offset} of {total}")
    return address + offset


@entry("cudaGetSymbolAddress")
def symbol_address(s: Session, out: int, symbol: int) -> None:
    """Give where a variable lies."""
    s.program.put(out, "Q", variable_at(s, symbol)[0])


@entry("cudaGetSymbolSize")
def symbol_size(s: Session, out: int, symbol: int) -> None:
    """Give the bytes of a variable."""
    s.program.put(out, "Q", variable_at(s, symbol)[1])


@entry("cudaMemcpyToSymbol")
def to_symbol(s: Session, symbol: int, source: int, size: int, offset: int) -> None:
    """Copy into a variable."""
    s.submit(0, copying(s, _part(s, symbol, offset, size), source, size), COPY_NODE)


@entry("cudaMemcpyFromSymbol")
def from_symbol(s: Session, target: int, symbol: int, size: int, offset: int) -> None:
    """Copy out of a variable."""
    s.submit(0, copying(s, target, _part(s, symbol, offset, size), size), COPY_NODE)


@entry("cudaMemcpyToSymbolAsync")
def to_symbol_async(s: Session, *words: int) -> None:
    """Copy into a variable in a stream."""
    symbol, source, size, offset, _kind, stream = words[:6]
    s.submit(stream, copying(s, _part(s, symbol, offset, size), source, size), COPY_NODE)


@entry("cudaMemcpyFromSymbolAsync")
def from_symbol_async(s: Session, *words: int) -> None:
    """Copy out of a variable in a stream."""
    target, symbol, size, offset, _kind, stream = words[:6]
    s.submit(stream, copying(s, target, _part(s, symbol, offset, size), size), COPY_NODE)
