"""The table of micro-kernels: `all_cases()`, grouped into families (one record file each)."""

from __future__ import annotations

import importlib
from functools import lru_cache

from testing.hardware.case import Case

MODULES = ("cvt", "floating", "approx", "bits", "warp", "mbarrier", "cluster", "matrix", "barriers",
           "atomics", "tma", "bulk", "edges", "wgmma", "mma")  # fmt: skip
"""Modules of this package; each has `cases()` of the family of its name."""


@lru_cache(maxsize=len(MODULES))
def family(name: str) -> tuple[Case, ...]:
    """The micro-kernels of one family; their names are unique."""
    found = tuple(importlib.import_module(f"{__name__}.{name}").cases())
    assert len({case.name for case in found}) == len(found), f"{name}: a name occurs twice"
    assert all(case.family == name for case in found)
    return found


def all_cases() -> list[Case]:
    """Every micro-kernel."""
    return [case for name in MODULES for case in family(name)]
