"""Blackwell (SM100) attention in CuTe DSL: pure plans, device roles and a host interface.

Importing the package imports neither torch nor the DSL; they are imported where they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .host.operator.arrival import expect_torch

if TYPE_CHECKING:
    from . import compat, distributed, integrations, masks, score_mods
    from .compat.sdpa_layout import sdpa
    from .host.choose.support import Support
    from .host.compile.cache import CacheInfo, cache_info, clear_cache
    from .host.interface import flash_attn, flash_attn_varlen
    from .host.questions import can_implement, explain, warmup
    from .host.run.simulator import last_report, simulator_options
    from .plan.config.config import FA4Config

_EXPORTS = {
    "CacheInfo": ".host.compile.cache",
    "FA4Config": ".plan.config.config",
    "Support": ".host.choose.support",
    "cache_info": ".host.compile.cache",
    "can_implement": ".host.questions",
    "clear_cache": ".host.compile.cache",
    "explain": ".host.questions",
    "flash_attn": ".host.interface",
    "flash_attn_varlen": ".host.interface",
    "last_report": ".host.run.simulator",
    "sdpa": ".compat.sdpa_layout",
    "simulator_options": ".host.run.simulator",
    "warmup": ".host.questions",
}

_MODULES = ("compat", "distributed", "integrations", "masks", "score_mods")

__all__ = [
    "CacheInfo",
    "FA4Config",
    "Support",
    "__version__",
    "cache_info",
    "can_implement",
    "clear_cache",
    "compat",
    "distributed",
    "explain",
    "flash_attn",
    "flash_attn_varlen",
    "integrations",
    "last_report",
    "masks",
    "score_mods",
    "sdpa",
    "simulator_options",
    "warmup",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("fa4-cute")
        except PackageNotFoundError:
            value = "0+unknown"
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    elif name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


expect_torch()
del expect_torch
