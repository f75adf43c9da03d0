"""Imports every module of this package, so that each instruction family registers its opcodes."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

NOT_FAMILIES = frozenset({"assemble", "families", "lowering", "modifiers"})

for _module in pkgutil.iter_modules([str(Path(__file__).parent)]):
    if _module.name not in NOT_FAMILIES:
        importlib.import_module(f".{_module.name}", __package__)
