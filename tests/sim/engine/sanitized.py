"""A plugin for pytest: the engine with the compiler's checks for undefined behaviour.

``pytest -p tests.sim.engine.sanitized`` ends at the first one, with the line of the C source.
"""

from __future__ import annotations

from pathlib import Path

from sm100sim.engine import shipped
from sm100sim.engine.build import build_library
from sm100sim.libraries import Library

FLAGS = ("-march=native", "-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all")
_find_library = shipped.find_library


def find_library(library: Library, announce: str = "") -> Path:
    """As the engine's own, but for the engine itself, which is compiled with ``FLAGS``."""
    if library.name != "sm100sim_engine":
        return _find_library(library, announce)
    flags = (*library.flags, *FLAGS)
    return build_library("sm100sim_sanitized", library.files, flags, library.include, announce)


shipped.find_library = find_library
