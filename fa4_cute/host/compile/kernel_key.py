"""What a compiled kernel is identified by: a hash over everything that shapes it."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.combine_spec import CombineSpec
from . import cache_files
from .settings import names_lines

PACKAGE: Final = Path(__file__).resolve().parents[2]
COMPILED_FOLDERS: Final = (
    *("device", "sync", "work", "operands", "output", "roles"),
    *(f"plan/{n}" for n in ("facts", "barriers", "config", "masks", "memory", "compute", "spec")),
)
"""Folders whose files shape kernels; ``plan/launch`` shapes only how they are launched."""
COMPILED_FILES: Final = (
    *("kernel_base.py", "kernel_sm90.py", "kernel_sm100.py", "depth512.py", "smem.py", "tma.py"),
    *("pipelines.py", "score_mods.py", "host/compile/compiler.py", "host/compile/tracing.py"),
)
"""The kernels' own files, modifiers that are traced, and what hands both to the DSL."""
_DSL_PACKAGES: Final = (
    "nvidia-cutlass-dsl",
    "nvidia-cutlass-dsl-libs-base",
    "nvidia-cutlass-dsl-libs-core",
    "nvidia-cutlass-dsl-libs-cu12",
    "nvidia-cutlass-dsl-libs-cu13",
)


def kernel_key(spec: AttentionSpec | CombineSpec) -> str:
    """Return the key of the kernel of ``spec`` as 64 hexadecimal characters."""
    text = json.dumps({**toolchain(), "arch": spec.arch, "spec": canonical(spec)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def toolchain() -> dict[str, str]:
    """Return what a compiled kernel depends on besides its specification: names to versions."""
    found = {"sources": source_hash(), "format": str(cache_files.FORMAT)}
    found["python"] = ".".join(map(str, sys.version_info[:2]))
    for name in _DSL_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if names_lines():
        # PTX with lines names files by their paths: those of another place may be gone.
        found["lines"] = f"of {PACKAGE}"
    return found


def source_hash(package: Path = PACKAGE) -> str:
    """Return a hash over the sources that take part in compiling, names included."""
    content = hashlib.sha256()
    for path in kernel_sources(package):
        content.update(f"{path.relative_to(package)}\0".encode())
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def kernel_sources(package: Path = PACKAGE) -> list[Path]:
    """Return the package's files that take part in compiling."""
    folders = [path for name in COMPILED_FOLDERS for path in (package / name).rglob("*.py")]
    return sorted([*folders, *(package / name for name in COMPILED_FILES)])


def canonical(value: Any) -> Any:
    """Return ``value`` as JSON data that is equal exactly when ``value`` is.

    Raises:
        TypeError: for a value whose text would not identify it.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {f.name: canonical(getattr(value, f.name)) for f in fields(value) if f.compare}
        return {"type": type(value).__qualname__, **named}
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, tuple):
        return [canonical(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r}: {type(value).__name__} has no place in the key of a kernel")
