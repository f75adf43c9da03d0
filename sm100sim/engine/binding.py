"""The engine: compiled once per machine, loaded, and compared with the contract."""

from __future__ import annotations

import ctypes as ct
from functools import cache

from ..contract import clock
from ..contract.header import digest
from ..contract.records import FUNCTIONS
from ..libraries import engine


class ContractError(RuntimeError):
    """The engine was built from headers that say something else than `sm100sim.contract`."""


def _declare(lib: ct.CDLL) -> None:
    for name, (result, arguments) in (FUNCTIONS | clock.FUNCTIONS).items():
        function = getattr(lib, name)
        function.argtypes = [kind for _, kind in arguments]
        function.restype = result


@cache
def load_engine() -> ct.CDLL:
    """The engine library: the wheel's, or compiled when this machine has no copy yet.

    Raises:
        CompilerError: no C compiler, or the compilation failed; the message holds the command.
        ContractError: `engine/contract/*.h` are not what `sm100sim.contract.header` writes.
    """
    from .shipped import find_library

    lib = ct.CDLL(str(find_library(engine(), "its engine")))
    _declare(lib)
    built = lib.sm100_contract().decode()
    if built != digest():
        raise ContractError(
            f"the engine's headers have contract {built}, sm100sim.contract has {digest()}; "
            "run: python -m sm100sim.contract.header"
        )
    return lib


@cache
def opcode_numbers() -> dict[str, int]:
    """Handler name -> opcode number of the loaded engine."""
    lib = load_engine()
    return {lib.sm100_opcode_name(k).decode(): k for k in range(lib.sm100_opcode_count())}
