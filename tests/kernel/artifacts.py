"""Compiled kernels shared by the tests of this folder, and a disassembler for them."""

import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import nvidia
import pytest

from fa4_cute.host.compile import cache
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.plan.spec.kernel_spec import KernelSpec


@lru_cache(maxsize=64)
def compiled(spec: KernelSpec) -> CompiledArtifact:
    """Compile ``spec`` once, for all processes of a test run."""
    return cache.compiled(spec)


def nvdisasm() -> str:
    """Path of nvdisasm: on PATH, or from the package nvidia-cuda-nvdisasm. Skips without one."""
    found = shutil.which("nvdisasm")
    for root in nvidia.__path__:
        for candidate in Path(root).glob("*/bin/nvdisasm"):
            found = found or str(candidate)
    if found is None:
        pytest.skip("nvdisasm is not installed (package nvidia-cuda-nvdisasm)")
    return found


@lru_cache(maxsize=8)
def sass(spec: KernelSpec) -> list[str]:
    """Disassemble the compiled kernel: one instruction per line."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled(spec).cubin)
        file.flush()
        run = subprocess.run([nvdisasm(), "-c", file.name], capture_output=True, check=True)
    return [line for line in run.stdout.decode().splitlines() if "/*" in line]
