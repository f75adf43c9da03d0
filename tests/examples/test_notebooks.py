"""Every example notebook runs from top to bottom, from any directory, and shows something."""

from __future__ import annotations

import ast
import importlib
import os
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbclient import NotebookClient

import fa4_cute

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
USUAL = "attention"
"""The notebook that `make test` runs; of the others it looks at what they use."""
OURS = ("fa4_cute", "sm100sim", "testing", "benchmarks", "examples")


def test_there_are_notebooks() -> None:
    assert USUAL in {path.stem for path in NOTEBOOKS}


def absent(code: str) -> list[str]:
    """Return what a program takes of this repository's packages that is not in them."""
    modules: dict[str, str] = {}
    found: list[str] = []
    nodes = list(ast.walk(ast.parse(code)))
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            module = importlib.import_module(node.module or "")
            for one in node.names:
                if not hasattr(module, one.name):
                    found.append(f"{node.module}.{one.name}")
                elif isinstance(getattr(module, one.name), ModuleType):
                    modules[one.asname or one.name] = f"{node.module}.{one.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = modules.get(node.value.id, "")
            if name.split(".")[0] in OURS and not hasattr(importlib.import_module(name), node.attr):
                found.append(f"{name}.{node.attr}")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_uses_exists(path: Path) -> None:
    cells = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    lines = [line for cell in cells for line in cell.splitlines()]
    assert absent("\n".join(line for line in lines if not line.startswith(("%", "!")))) == []


def test_what_is_not_there_is_named() -> None:
    code = "import fa4_cute\nfrom fa4_cute import masks, gone\nfa4_cute.lost(masks.full(masks.no))"
    assert sorted(absent(code)) == ["fa4_cute.gone", "fa4_cute.lost", "fa4_cute.masks.no"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", [
    pytest.param(path, marks=() if path.stem == USUAL else pytest.mark.exhaustive)
    for path in NOTEBOOKS
], ids=lambda path: path.stem)  # fmt: skip
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the root, from its own folder as Jupyter does, or from elsewhere: one each."""
    directories = (path.parent, ROOT, tmp_path)
    directory = directories[NOTEBOOKS.index(path) % len(directories)]
    # Where the package is installed, it is found from everywhere; here it may be a checkout.
    paths = Path(fa4_cute.__file__).parents[1], os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    resources = {"metadata": {"path": str(directory)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any("image/png" in out.get("data", {}) for cell in code for out in cell.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_with_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any("image/png" in out.get("data", {}) for cell in code for out in cell.outputs)
    assert not any(out.output_type == "error" for cell in code for out in cell.outputs)
    assert path.stat().st_size < 1 << 20
