"""The page "why PTX by text", the door to PTX, and what the DSL's operations are compiled to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from testing.dsl_trials import TRIALS, compiled_to
from testing.why_ptx import page, primitives

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "fa4_cute").rglob("*.py"))
PRIVATE = re.compile(r"cutlass\._|from cutlass\.cutlass_dsl|\._trait\b|\._mlir\b")


@pytest.mark.slow
def test_the_page_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "why_ptx.md").read_text() == page(), "run python -m testing.why_ptx"


def test_every_function_that_calls_the_dsl_is_tried() -> None:
    assert {p.name for p in primitives() if p.operations} == set(TRIALS)


@pytest.mark.parametrize("reason", ["", "\n\n    DSL: one.\n\n    DSL: two."])
def test_text_without_one_reason_is_refused(tmp_path: Path, reason: str) -> None:
    code = f'def f():\n    """Do it.{reason}"""\n    emit("bar.sync 0;")\n'
    (tmp_path / "sync.py").write_text(code)
    with pytest.raises(ValueError, match=r"sync\.f: emits text: True"):
        list(primitives(tmp_path))


def test_a_reason_without_text_is_refused(tmp_path: Path) -> None:
    code = 'def f():\n    """Do it.\n\n    DSL: none.\n    """\n    g()\n'
    (tmp_path / "sync.py").write_text(code)
    with pytest.raises(ValueError, match=r"sync\.f: emits text: False"):
        list(primitives(tmp_path))


def test_text_is_emitted_by_device_functions_only() -> None:
    """Every call of ``emit`` is in a function that the page lists."""
    listed = {p.name for p in primitives() if p.emits}
    found = set()
    for path in SOURCES:
        module = ".".join(path.relative_to(ROOT / "fa4_cute").with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
            if any(ast.unparse(n.func).split(".")[-1] == "emit" for n in calls):
                assert isinstance(node, ast.FunctionDef), path
                found.add(f"{module}.{node.name}".removeprefix("device."))
    assert found == listed


def test_private_names_of_the_dsl_are_used_in_one_file() -> None:
    users = [str(p.relative_to(ROOT)) for p in SOURCES if PRIVATE.search(p.read_text())]
    assert users == ["fa4_cute/device/dsl.py"]


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("sync.barriers.mbarrier_wait", r"mbarrier\.try_wait\.parity\S* P1, \S+, \S+, 10000000;"),
        ("sync.barriers.cta_barrier", r"bar\.sync 0;"),
        ("memory.tmem.dealloc", r"tcgen05\.dealloc\.cta_group::2\.sync\.aligned\.b32 .*;"),
        ("math.arith.max2", r"max\.ftz\.NaN\.f32 .*;"),
        ("math.softmax.rescale_decision", r"setp\.ltu\.f32 .*;"),
    ],
)
def test_qualifiers_that_the_kernels_rest_on(name: str, instruction: str) -> None:
    """Waits sleep, maxima keep NaN, and a NaN counts as growth of the maximum."""
    assert any(re.fullmatch(instruction, line) for line in compiled_to(name))
