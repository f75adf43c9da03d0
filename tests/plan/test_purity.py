"""The plan layer needs neither the DSL nor torch, nor anything but the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import fa4_cute.plan

FILES = sorted(Path(fa4_cute.plan.__file__).parent.rglob("*.py"))


def imported_modules(source: str) -> set[str]:
    """Return the top-level packages that absolute imports name, wherever they stand."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    foreign = imported_modules(path.read_text(encoding="utf8")) - {"fa4_cute"}
    assert foreign <= sys.stdlib_module_names


def test_the_check_sees_hidden_imports() -> None:
    assert imported_modules("def f():\n    from torch.nn import Module") == {"torch"}
