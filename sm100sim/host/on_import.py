"""Something to do as soon as a program has imported a module: later, or never."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Act = Callable[[ModuleType], None]


class _Loading(Loader):
    """Loads the module as ever, then acts."""

    def __init__(self, loader: Loader, act: Act) -> None:
        self._loader, self._act = loader, act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._act(module)


class _Finder(MetaPathFinder):
    """Finds the module like Python's own finder, with another loader."""

    def __init__(self, name: str, act: Act) -> None:
        self._name, self._act = name, act
        sys.addaudithook(self._go_first)

    def _go_first(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Ahead of the finders that came later: pytest's takes the modules that its options name.

        Python keeps an audit hook as long as it runs; outside of the block this one does nothing.
        """
        if event == "import" and arguments[0] == self._name and self in sys.meta_path:
            sys.meta_path.remove(self)
            sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == self._name else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loading(spec.loader, self._act)
        return spec


@contextmanager
def when_imported(name: str, act: Act, undo: Callable[[], None]) -> Iterator[None]:
    """Inside the block act once a module has been imported, now where it has been; then undo."""
    finder = _Finder(name, act)
    if name in sys.modules:
        act(sys.modules[name])
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        undo()
