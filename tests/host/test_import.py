"""Importing the package loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fa4_cute

HEAVY = ("torch", "cutlass", "sm100sim", "numpy", "cuda")


def fresh(code: str) -> str:
    """Output of ``code`` in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_import_is_light() -> None:
    """Heavy packages are what an import would take its time for."""
    loaded = f"[name for name in {HEAVY} if name in sys.modules]"
    assert fresh(f"import sys, fa4_cute; print({loaded})") == "[]"


def test_questions_need_neither_torch_nor_dsl() -> None:
    code = (
        "import sys, fa4_cute; "
        "fa4_cute.explain(head_dim=128, heads_q=8, heads_k=2); fa4_cute.cache_info(); "
        "fa4_cute.flash_attn, fa4_cute.last_report(); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert fresh(code) == "[]"


@pytest.mark.parametrize("name", fa4_cute.__all__)
def test_every_export_resolves(name: str) -> None:
    assert getattr(fa4_cute, name) is not None
    assert name in dir(fa4_cute)


def test_unknown_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match=r"fa4_cute.*no attribute 'flash_atn'"):
        _ = fa4_cute.flash_atn


def test_type_checkers_see_the_same_exports() -> None:
    import ast
    from pathlib import Path

    tree = ast.parse(Path(fa4_cute.__file__).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert imports == block.body
    declared = {alias.name for node in imports for alias in node.names}
    assert declared == {*fa4_cute._EXPORTS, *fa4_cute._MODULES}
    assert declared | {"__version__"} == set(fa4_cute.__all__)
