"""A virtual SM100: executes the PTX of Blackwell kernels on a CPU.

``sm100sim.activate()`` before the CuTe DSL is imported makes every launch of the process run here;
``sm100sim.launch(request)`` runs one PTX kernel directly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .host.activation import activate, deactivate, is_active, last_report
    from .launch_request import LaunchRequest
    from .memory import register
    from .report import Report
    from .run import run as launch

_EXPORTS = {
    "activate": (".host.activation", "activate"),
    "deactivate": (".host.activation", "deactivate"),
    "is_active": (".host.activation", "is_active"),
    "last_report": (".host.activation", "last_report"),
    "LaunchRequest": (".launch_request", "LaunchRequest"),
    "launch": (".run", "run"),
    "register": (".memory", "register"),
    "Report": (".report", "Report"),
}

__all__ = [
    "LaunchRequest",
    "Report",
    "activate",
    "deactivate",
    "is_active",
    "last_report",
    "launch",
    "register",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sm100sim' has no attribute {name!r}")
    module, attribute = _EXPORTS[name]
    value = getattr(importlib.import_module(module, __name__), attribute)
    globals()[name] = value
    return value
