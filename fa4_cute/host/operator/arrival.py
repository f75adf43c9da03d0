"""The operator is there whenever torch is: at once, or as soon as torch has been imported.

A saved graph names the operator, and whoever loads it may have imported nothing but ``fa4_cute``
and torch, in either order. ``import fa4_cute`` does not import torch, and must not: so a finder in
``sys.meta_path`` waits for it. The FLOP formula waits for torch's counter in the same way, whose
import takes longer than all the rest. The finder finds nothing itself; it adds a step after the
import of the two modules that it knows, once each.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from typing import Any, Final

_Action = Callable[[], None]
_FILES: Final = (SourceFileLoader, SourcelessFileLoader)


def expect_torch() -> None:
    """Define the operator, and its FLOP formula, where their modules are or once they come."""
    _after("torch", _define)
    _after("torch.utils.flop_counter", _count_flops)


def _define() -> None:
    from . import define  # noqa: F401


def _count_flops() -> None:
    from .flops import register

    register()


class _Waiting:
    """A finder of ``sys.meta_path`` that waits for imports of modules."""

    def __init__(self) -> None:
        self.actions: dict[str, _Action] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the specification that all other finders find, with the action after its import.

        The action is taken out first, so that this finder is silent while the others search.
        """
        action = self.actions.pop(fullname, None)
        spec = None if action is None else find_spec(fullname)
        loader = None if spec is None else spec.loader
        if action is not None and isinstance(loader, _FILES):
            _run_after_import(loader, action)
        return spec


def _run_after_import(loader: Any, action: _Action) -> None:
    """Let ``loader``, which serves one module, run ``action`` once after it."""
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        execute(module)
        _run(action)

    loader.exec_module = exec_module


def _run(action: _Action) -> None:
    """Run ``action``; what fails there must not make torch's import fail."""
    try:
        action()
    except Exception as error:
        warnings.warn(
            f"torch will not see fa4_cute's operator: {type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )


_WAITING: Final = _Waiting()


def _after(module: str, action: _Action) -> None:
    if module in sys.modules:
        _run(action)
        return
    _WAITING.actions[module] = action
    if _WAITING not in sys.meta_path:
        sys.meta_path.insert(0, _WAITING)
