"""Libraries that a wheel carries, so that its users need no compiler.

Each is compiled once per level of the x86-64 psABI; the best one that the processor has is loaded.
Its name holds a digest of the sources: where these were changed, none fits any more, and ``build``
compiles them.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ..libraries import HERE, Library
from .build import build_library

FOLDER: Final = HERE / "lib"
"""Where wheels have them; a checkout has no such folder."""
LEVELS: Final = ("x86-64-v3", "x86-64-v2")
"""Names that compilers take as ``-march``, best first."""
REQUIRED: Final = {
    "x86-64-v2": frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    "x86-64-v3": frozenset({"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}),
}
"""What each level adds to the one before, as Linux names it (x86-64 psABI, "Micro-Architecture
Levels")."""
PROCESSORS: Final = Path("/proc/cpuinfo")


def find_library(library: Library, announce: str = "") -> Path:
    """Return the library of the wheel, or else that of the cache, which is compiled when missing.

    Args:
        library: what to find.
        announce: what to call it in a line on standard error before it is compiled.

    Raises:
        CompilerError: it has to be compiled, and cannot be.
    """
    found = shipped_library(library)
    if found is not None:
        return found
    flags = (*library.flags, "-march=native")
    return build_library(library.name, library.files, flags, library.include, announce)


def shipped_library(library: Library, folder: Path = FOLDER) -> Path | None:
    """Return the file in ``folder`` that was made of today's sources and suits the processor."""
    if not folder.is_dir() or platform.machine() != "x86_64":
        return None
    names = (file_name(library, level) for level in levels_of(processor_flags()))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def compile_levels(library: Library, folder: Path, command: Sequence[str]) -> Iterator[Path]:
    """Compile a library for every level into ``folder``, and yield the files.

    Raises:
        subprocess.CalledProcessError: the compiler refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    include = [] if library.include is None else [f"-I{library.include}"]
    for level in LEVELS:
        target = folder / file_name(library, level)
        flags = [*library.flags, f"-march={level}", *include]
        subprocess.run([*command, *flags, *library.files, "-lm", "-o", target], check=True)
        yield target


def file_name(library: Library, level: str) -> str:
    """Return the name of a shipped library: what it is, for whom, and of which sources."""
    digest = hashlib.sha256(repr(library.flags).encode())
    for path in (*library.files, *library.headers):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{library.name}-{level}-{digest.hexdigest()[:16]}.so"


def processor_flags(path: Path = PROCESSORS) -> frozenset[str]:
    """Return what Linux says that every processor can do; empty where it does not say."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return frozenset()
    named = (line.partition(":")[2] for line in lines if line.startswith("flags"))
    found = [frozenset(flags.split()) for flags in named]
    return frozenset.intersection(*found) if found else frozenset()


def levels_of(flags: frozenset[str]) -> list[str]:
    """Return the levels of a processor with ``flags``, best first."""
    reached: list[str] = []
    needed: frozenset[str] = frozenset()
    for level in reversed(LEVELS):
        needed |= REQUIRED[level]
        if needed <= flags:
            reached.insert(0, level)
    return reached
