"""The virtual device for programs that import Triton later, or never."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from .activation import activate, deactivate, put_into

MODULE = "triton.runtime.driver"
"""The module that holds Triton's driver."""


class _Loading(Loader):
    """Loads the module as ever, then gives it the virtual device."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        put_into(module.driver)


class _Finder(MetaPathFinder):
    """Finds the module like Python's own finder, with another loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == MODULE else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loading(spec.loader)
        return spec


@contextmanager
def active_when_imported() -> Iterator[None]:
    """Inside the block Triton launches on the virtual device as soon as it has been imported."""
    finder = _Finder()
    if MODULE in sys.modules:
        activate()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        deactivate()
