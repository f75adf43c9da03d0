"""The key of a kernel changes with everything that shapes it, and with nothing else."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from fa4_cute.host import kernel_key as key_module
from fa4_cute.host.kernel_key import canonical, kernel_key, kernel_sources, source_hash
from fa4_cute.plan.variant import Variant

from .compilers import OTHER, SPEC


def test_key_depends_on_what_shapes_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    base = kernel_key(SPEC)
    assert base == kernel_key(dataclasses.replace(SPEC))
    assert base != kernel_key(OTHER)
    assert base != kernel_key(dataclasses.replace(SPEC, variant=Variant(return_lse=True)))
    facts = key_module.toolchain()
    assert {"arch", "sources", "nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base"} <= set(facts)
    for name in facts:
        monkeypatch.setattr(key_module, "toolchain", lambda n=name: {**facts, n: "changed"})
        assert kernel_key(SPEC) != base


def test_key_depends_on_the_sources_of_the_kernel_only(tmp_path: Path) -> None:
    copy = tmp_path / "fa4_cute"
    shutil.copytree(key_module.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    base = source_hash(copy)
    assert base == source_hash()
    for untouched in ("host/interface.py", "host/cache.py", "__init__.py", "simulator.py"):
        (copy / untouched).write_text("# changed\n")
        assert source_hash(copy) == base, untouched
    seen = {base}
    for name in ("plan/config.py", "roles/softmax.py", "kernel_sm100.py", "host/compiler.py"):
        (copy / name).write_text("# changed\n")
        seen.add(source_hash(copy))
    (copy / "roles" / "new.py").write_text("")
    seen.add(source_hash(copy))
    assert len(seen) == 6


def test_every_traced_file_counts() -> None:
    counted = {str(p.relative_to(key_module.PACKAGE)) for p in kernel_sources()}
    assert {"trace.py", "plan/exp2_plan.py", "device/arith.py", "roles/load.py"} <= counted
    assert not {name for name in counted if name.startswith("host/")} - {"host/compiler.py"}


def test_canonical_refuses_what_does_not_identify_itself() -> None:
    with pytest.raises(TypeError, match="has no place in the key"):
        canonical(object())
    assert canonical(SPEC) != canonical(OTHER)
