"""Imports every module of the folders beside it, so that each instruction family registers its
opcodes."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

_FOLDER = Path(__file__).parent

for _package in pkgutil.iter_modules([str(_FOLDER)]):
    if _package.ispkg:
        for _module in pkgutil.iter_modules([str(_FOLDER / _package.name)]):
            importlib.import_module(f".{_package.name}.{_module.name}", __package__)
