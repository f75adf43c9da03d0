"""The operator is there in whatever order torch and the package are imported."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from fa4_cute.host.operator import arrival

SHOW = "print(torch.ops.fa4_cute.attention.overloads())"
COUNTED = (
    "import torch.utils.flop_counter as f; "
    "print(torch.ops.fa4_cute.attention in f.flop_registry, f.__loader__.exec_module.__func__ "
    "is type(f.__loader__).exec_module)"
)


@pytest.mark.slow
def test_torch_may_come_first() -> None:
    """That it may come afterwards is what ``test_export`` loads a graph with."""
    code = f"import torch, fa4_cute; {SHOW}; {COUNTED}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines() == ["['default', 'into']", "True True"]


def test_the_step_comes_after_the_import_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "awaited_module.py").write_text("steps = ['import']\n")
    monkeypatch.syspath_prepend(tmp_path)
    name = "awaited_module"
    arrival._after(name, lambda: sys.modules[name].steps.append("action"))
    module = importlib.import_module(name)
    assert module.steps == ["import", "action"]
    assert importlib.reload(module).steps == ["import"]
    monkeypatch.delitem(sys.modules, name)
    assert importlib.import_module(name).steps == ["import"]


def test_a_failure_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unlucky_module.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)

    def unlucky() -> None:
        raise ZeroDivisionError

    arrival._after("unlucky_module", unlucky)
    with pytest.warns(RuntimeWarning, match="will not see fa4_cute's operator: ZeroDivisionError"):
        assert importlib.import_module("unlucky_module").answer == 42


def test_what_is_not_there_stays_not_there() -> None:
    arrival._after("no_such_module_at_all", lambda: None)
    with warnings.catch_warnings(), pytest.raises(ModuleNotFoundError, match="no_such_module"):
        importlib.import_module("no_such_module_at_all")
