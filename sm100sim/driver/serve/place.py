"""The folder in which a program finds the stand-ins, and the environment that leads there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ...engine.shipped import find_library
from ...libraries import STAND_INS, stand_in

SOCKET_VARIABLE: Final = "SM100SIM_DRIVER"
"""Names the socket of the simulator's process; libcuda.c reads it."""
DRIVER: Final = "libcuda.so.1"
RUNTIME: Final = "libcudart.so.13"


def furnish(folder: Path) -> None:
    """Put the libraries into a folder, under the names that programs know.

    Raises:
        CompilerError: one has to be compiled, and cannot be.
    """
    for name in STAND_INS:
        (folder / name).symlink_to(find_library(stand_in(name), f"its {name}"))
    (folder / "libcuda.so").symlink_to(folder / DRIVER)


def environment(folder: Path, socket: Path, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that is to find them: before its own libraries, and its calls
    of a runtime that is linked into it replaced."""
    changed = dict(base)
    changed["LD_LIBRARY_PATH"] = _before(str(folder), base.get("LD_LIBRARY_PATH", ""))
    changed["LD_PRELOAD"] = _before(str(folder / RUNTIME), base.get("LD_PRELOAD", ""))
    changed["TRITON_LIBCUDA_PATH"] = str(folder)
    changed[SOCKET_VARIABLE] = str(socket)
    return changed


def _before(first: str, rest: str) -> str:
    return first + os.pathsep + rest if rest else first
