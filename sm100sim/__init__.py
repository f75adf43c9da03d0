"""A virtual SM100: executes the PTX of Blackwell kernels on a CPU.

``sm100sim.activate()``, called before the CuTe DSL is imported, makes every launch of the process
run here; ``sm100sim.launch(ptx, grid=..., block=..., args=...)`` runs one PTX kernel directly.
``sm100sim.explore(fn)`` runs a program under many orders of events.
``sm100sim.run_options(checks="all")`` changes how the launches in a block run, and
``sm100sim.record()`` collects their reports, which ``sm100sim.save(reports, path)`` writes.
``sm100sim.profile(fn)`` predicts where the time of a program's kernels goes on a chip.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls.explore import Exploration, ExplorationError, explore
    from .calls.launch import launch
    from .findings.suppress import Suppression
    from .formats.save import save
    from .host.activation import activate, deactivate, is_active, last_report
    from .launch_request import LaunchRequest
    from .memory import register
    from .options import Check, RunOptions, run_options
    from .report import FindingsError, Report, SimulationFault, record
    from .timing.profile.call import profile

    __version__: str

_EXPORTS = {
    "activate": (".host.activation", "activate"),
    "deactivate": (".host.activation", "deactivate"),
    "is_active": (".host.activation", "is_active"),
    "last_report": (".host.activation", "last_report"),
    "Check": (".options", "Check"),
    "RunOptions": (".options", "RunOptions"),
    "run_options": (".options", "run_options"),
    "LaunchRequest": (".launch_request", "LaunchRequest"),
    "Exploration": (".calls.explore", "Exploration"),
    "ExplorationError": (".calls.explore", "ExplorationError"),
    "explore": (".calls.explore", "explore"),
    "launch": (".calls.launch", "launch"),
    "register": (".memory", "register"),
    "record": (".report", "record"),
    "Report": (".report", "Report"),
    "SimulationFault": (".report", "SimulationFault"),
    "FindingsError": (".report", "FindingsError"),
    "Suppression": (".findings.suppress", "Suppression"),
    "save": (".formats.save", "save"),
    "profile": (".timing.profile.call", "profile"),
}

__all__ = [
    "Check",
    "Exploration",
    "ExplorationError",
    "FindingsError",
    "LaunchRequest",
    "Report",
    "RunOptions",
    "SimulationFault",
    "Suppression",
    "__version__",
    "activate",
    "deactivate",
    "explore",
    "is_active",
    "last_report",
    "launch",
    "profile",
    "record",
    "register",
    "run_options",
    "save",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("sm100sim")
        except PackageNotFoundError:
            return "unknown"
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sm100sim' has no attribute {name!r}")
    module, attribute = _EXPORTS[name]
    value = getattr(importlib.import_module(module, __name__), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
