"""Where the variables of a module and its functions lie, and the initial values of global ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..contract.codes import SMEM_RESERVED
from ..ptx.errors import PtxError
from ..ptx.program import GlobalVar
from .frames import align

Symbols = dict[str, tuple[str, int]]
"""Variable -> ("shared", offset in the window) or ("global", host address)."""


def place_shared(variables: Sequence[GlobalVar]) -> tuple[Symbols, int]:
    """Window offsets of the shared variables, and the bytes the static ones take.

    They begin after the 1 KiB that the system keeps at the bottom of the window; the dynamic ones
    follow.

    Raises:
        PtxError: two functions have variables of one name.
    """
    symbols: Symbols = {}
    offset = SMEM_RESERVED
    for var in variables:
        if sum(var.name == other.name for other in variables) > 1:
            raise PtxError(var.line, var.name, "shared variables of two functions have one name")
    for var in variables:
        if not var.extern:
            offset = align(offset, max(var.align, 1))
            symbols[var.name] = ("shared", offset)
            offset += var.size_bytes
    if offset > SMEM_RESERVED:
        offset = align(offset, max([var.align for var in variables if var.extern] + [16]))
    for var in variables:
        if var.extern:
            symbols[var.name] = ("shared", offset)
    return symbols, offset - SMEM_RESERVED


def place_globals(
    variables: Sequence[GlobalVar], lines: Sequence[str], code: Callable[[str], int | None]
) -> tuple[Symbols, list[tuple[str, npt.NDArray[np.uint8]]]]:
    """Host memory of global and constant variables.

    Args:
        variables: those of the module.
        lines: its text.
        code: the address of a function, or None.

    Raises:
        PtxError: there is no memory for one, or an initial value names what is not declared.
    """
    symbols: Symbols = {}
    buffers = []
    for var in variables:
        try:
            raw = np.zeros(var.size_bytes + 256, np.uint8)
        except (MemoryError, ValueError) as error:
            what = f"{var.name}: {var.size_bytes} bytes of global memory, which this machine lacks"
            raise PtxError(var.line, lines[var.line - 1], what) from error
        start = -raw.ctypes.data % 256
        buffer = raw[start : start + var.size_bytes]
        if var.init:
            buffer[: len(var.init)] = np.frombuffer(var.init, np.uint8)
        symbols[var.name] = ("global", buffer.ctypes.data)
        buffers.append((var.name, buffer))
    for var, (_, buffer) in zip(variables, buffers, strict=True):
        for offset, name, added in var.links:
            address = symbols[name][1] if name in symbols else code(name)
            if address is None:
                what = f"initial value {name!r} is not declared"
                raise PtxError(var.line, lines[var.line - 1], what)
            buffer[offset : offset + 8].view(np.uint64)[0] = address + added
    return symbols, buffers
