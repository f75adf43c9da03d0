"""What `import sm100sim` offers."""

from __future__ import annotations

import ast
from importlib.metadata import version
from pathlib import Path

import pytest

import sm100sim


@pytest.mark.parametrize("name", sm100sim.__all__)
def test_every_export_resolves(name: str) -> None:
    assert getattr(sm100sim, name) is not None
    assert name in dir(sm100sim)


def test_what_dir_shows_is_what_is_exported() -> None:
    assert dir(sm100sim) == sorted(sm100sim.__all__)
    assert {*sm100sim._EXPORTS, "__version__"} == set(sm100sim.__all__)


def test_type_checkers_see_the_same_exports() -> None:
    tree = ast.parse(Path(sm100sim.__file__).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    imported = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    declared = {alias.asname or alias.name for node in imported for alias in node.names}
    assert declared == set(sm100sim._EXPORTS)


def test_the_version_is_the_distribution_s() -> None:
    assert sm100sim.__version__ == version("sm100sim")


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(AttributeError, match=r"sm100sim.*no attribute 'lunch'"):
        _ = sm100sim.lunch
