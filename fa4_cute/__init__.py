"""Blackwell (SM100) attention in CuTe DSL: pure plans, device roles and a host interface.

Importing the package imports neither torch nor the DSL; they are imported where they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .host.cache import CacheInfo, cache_info, clear_cache
    from .host.interface import can_implement, explain, flash_attn, warmup
    from .host.support import Support
    from .plan.config import FA4Config
    from .simulator import last_report, simulator_options

_EXPORTS = {
    "CacheInfo": ".host.cache",
    "FA4Config": ".plan.config",
    "Support": ".host.support",
    "cache_info": ".host.cache",
    "can_implement": ".host.interface",
    "clear_cache": ".host.cache",
    "explain": ".host.interface",
    "flash_attn": ".host.interface",
    "last_report": ".simulator",
    "simulator_options": ".simulator",
    "warmup": ".host.interface",
}

__all__ = [
    "CacheInfo",
    "FA4Config",
    "Support",
    "__version__",
    "cache_info",
    "can_implement",
    "clear_cache",
    "explain",
    "flash_attn",
    "last_report",
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
    elif name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
