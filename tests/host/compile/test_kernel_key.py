"""The key of a kernel changes with everything that shapes it, and with nothing else."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from fa4_cute.host.compile import kernel_key as key_module
from fa4_cute.host.compile.kernel_key import canonical, kernel_key, kernel_sources, source_hash
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.combine_spec import CombineSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Variant
from tests.host.compilers import OTHER, SPEC


def test_key_depends_on_what_shapes_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    base = kernel_key(SPEC)
    assert base == kernel_key(dataclasses.replace(SPEC))
    assert base != kernel_key(OTHER)
    assert base != kernel_key(dataclasses.replace(SPEC, variant=Variant(return_lse=True)))
    assert base != kernel_key(SM90Spec.for_attention(DType.BF16, 64))
    combine = CombineSpec(DType.BF16, 64)
    assert kernel_key(combine) != kernel_key(dataclasses.replace(combine, arch=SM90A))
    facts = key_module.toolchain()
    assert {"sources", "nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base"} <= set(facts)
    for name in facts:
        monkeypatch.setattr(key_module, "toolchain", lambda n=name: {**facts, n: "changed"})
        assert kernel_key(SPEC) != base


def test_kernels_with_source_lines_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for lines must not get PTX from the cache that has none."""
    keys = {}
    for value in ("", "0", "1", "true"):
        monkeypatch.setenv("CUTE_DSL_LINEINFO", value)
        key_module.toolchain.cache_clear()
        keys[value] = kernel_key(SPEC)
    key_module.toolchain.cache_clear()
    assert keys[""] == keys["0"]
    assert keys["1"] == keys["true"] != keys["0"]


def test_source_lines_of_another_place_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PTX names files by their paths, and the same sources elsewhere may be removed."""
    keys = {}
    for lines in ("0", "1"):
        monkeypatch.setenv("CUTE_DSL_LINEINFO", lines)
        for place in (key_module.PACKAGE, tmp_path / "fa4_cute"):
            with monkeypatch.context() as patch:
                patch.setattr(key_module, "PACKAGE", place)
                key_module.toolchain.cache_clear()
                keys[lines, place.parent == tmp_path] = kernel_key(SPEC)
    key_module.toolchain.cache_clear()
    assert keys["0", False] == keys["0", True]
    assert keys["1", False] != keys["1", True]


def test_key_depends_on_the_sources_of_the_kernel_only(tmp_path: Path) -> None:
    copy = tmp_path / "fa4_cute"
    shutil.copytree(key_module.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    base = source_hash(copy)
    assert base == source_hash()
    host = ("host/interface.py", "host/compile/cache.py", "host/run/simulator.py")
    for untouched in (*host, "__init__.py", "masks.py", "plan/launch/launch.py"):
        (copy / untouched).write_text("# changed\n")
        assert source_hash(copy) == base, untouched
    seen = {base}
    compiled = ("plan/config/config.py", "roles/softmax.py", "kernel_sm100.py", "work/tile.py")
    for name in (*compiled, "host/compile/compiler.py"):
        (copy / name).write_text("# changed\n")
        seen.add(source_hash(copy))
    (copy / "roles" / "new.py").write_text("")
    seen.add(source_hash(copy))
    assert len(seen) == 7


def test_every_traced_file_counts() -> None:
    counted = {str(p.relative_to(key_module.PACKAGE)) for p in kernel_sources()}
    assert {"kernel_base.py", "plan/compute/exp2_plan.py", "device/math/arith.py"} <= counted
    assert {"work/tile.py", "output/two_q.py", "operands/scores.py", "roles/load.py"} <= counted


def test_a_file_that_imports_the_dsl_counts() -> None:
    """Folders are listed; nothing that is traced may lie outside of them."""
    counted = set(kernel_sources())
    for path in key_module.PACKAGE.rglob("*.py"):
        imported = re.search(r"^(import|from) cutlass", path.read_text(), re.MULTILINE)
        assert path in counted or not imported, path


def test_canonical_refuses_what_does_not_identify_itself() -> None:
    with pytest.raises(TypeError, match="has no place in the key"):
        canonical(object())
    assert canonical(SPEC) != canonical(OTHER)
