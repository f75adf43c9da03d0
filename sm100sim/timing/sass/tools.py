"""NVIDIA's assembler and disassembler: of their packages, on the path, or the copy of Triton."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

PACKAGES = {"nvdisasm": "nvidia-cuda-nvdisasm", "ptxas": "nvidia-cuda-nvcc"}
"""Tool -> package that brings it."""
TRITON = "backends/nvidia/bin"
"""Where Triton keeps its copies; `ptxas-blackwell` is the newer of two."""


def _in_package(package: str, *patterns: str) -> str | None:
    """The first file of an installed package that matches a pattern."""
    spec = importlib.util.find_spec(package)
    for root in spec.submodule_search_locations or () if spec else ():
        for pattern in patterns:
            for candidate in sorted(Path(root).glob(pattern)):
                return str(candidate)
    return None


def tool(name: str) -> str:
    """Return the path of a tool of `PACKAGES`.

    Raises:
        FileNotFoundError: there is none; names the package.
    """
    found = (
        _in_package("nvidia", f"*/bin/{name}")
        or shutil.which(name)
        or _in_package("triton", f"{TRITON}/{name}-blackwell", f"{TRITON}/{name}")
    )
    if found is None:
        raise FileNotFoundError(f"{name}: install the package {PACKAGES[name]}")
    return found


def assemblers() -> list[str]:
    """Return the paths of the assemblers on this machine: `tool`'s, then Triton's where it has one.

    Raises:
        FileNotFoundError: there is none; names the package.
    """
    triton = _in_package("triton", f"{TRITON}/ptxas-blackwell", f"{TRITON}/ptxas")
    return list(dict.fromkeys(path for path in (tool("ptxas"), triton) if path))


def assembled(ptx: str, arch: str, *options: str, ptxas: str | None = None) -> bytes:
    """Return the cubin that ptxas makes of a PTX module.

    Args:
        ptx: the module's text.
        arch: target, e.g. "sm_90a".
        options: further ones of ptxas.
        ptxas: its path; the package's when not given.

    Raises:
        FileNotFoundError: there is no ptxas.
        ValueError: ptxas refuses the text; holds what it says.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_text(ptx)
        command = [ptxas or tool("ptxas"), "-arch", arch, *options, str(source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"ptxas refuses the PTX for {arch}: {done.stderr.strip()[:2000]}")
        if not out.exists():
            raise ValueError(f"{command[0]} ends without an error and writes no cubin: no ptxas?")
        return out.read_bytes()


@lru_cache
def version(ptxas: str | None = None) -> str:
    """Return the version of an assembler, e.g. "12.9.86", or "" where it does not say."""
    command = [ptxas or tool("ptxas"), "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bV(\d+\.\d+\.\d+)", told)
    return found[1] if found else ""


def listing(cubin: bytes) -> str:
    """Return nvdisasm's listing of a cubin: code, its bits, and lines where it has them.

    Raises:
        FileNotFoundError: there is no nvdisasm.
        ValueError: nvdisasm refuses the file; holds what it says.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool("nvdisasm"), "-hex", "-c", "-g", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"nvdisasm refuses the cubin: {done.stderr.strip()[:2000]}")
    return done.stdout
