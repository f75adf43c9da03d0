"""What is done when a program imports a module."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sm100sim.host.on_import import when_imported


class Greedy:
    """Finds every module, as pytest's hook does where `python_files` is "*.py"."""

    @staticmethod
    def find_spec(name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path)


@pytest.mark.parametrize("greedy", [False, True])
def test_it_is_done_whatever_other_finders_there_are(
    greedy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"imported_by_a_test_{greedy}"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    seen: list[ModuleType] = []
    with when_imported(name, seen.append, lambda: seen.append(sys)):
        if greedy:
            sys.meta_path.insert(0, Greedy)
        module = __import__(name)
        assert seen == [module]
    assert seen == [module, sys]
    assert not [f for f in sys.meta_path if type(f).__name__ == "_Finder"]
