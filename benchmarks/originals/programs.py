"""Programs that call Modular's kernels: an environment for each release, and what it compiles."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".venv-originals"
SOURCES: Final = Path(__file__).with_name("mojo")
SHARED: Final = "raw_files"
"""What all programs import."""
RELEASES: Final = {"26.6": "26.6.0", "26.7": "26.7.0"}
"""Releases whose kernels are compared -> version of PyPI ``max-core``."""
TARGET: Final = "sm_100a"
Defines = Mapping[str, int]


def compiler(release: str) -> Path:
    """Where the Mojo compiler of a release is, or would be."""
    return FOLDER / release / "bin" / "mojo"


def installed(release: str) -> bool:
    """Whether a release's environment is there."""
    return compiler(release).is_file()


def install(release: str) -> None:
    """Make the environment of a release: 230 MB to load, 700 MB on disk.

    Raises:
        subprocess.CalledProcessError: no environment, or no such package.
    """
    folder = FOLDER / release
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    package = f"max-core=={RELEASES[release]}"
    subprocess.run([*pip, "--disable-pip-version-check", package], check=True)


def source(release: str, program: str) -> Path:
    """The text of a program: a release's own, where its entry point takes other types."""
    own = SOURCES / f"{program}_{release.replace('.', '_')}.mojo"
    return own if own.is_file() else SOURCES / f"{program}.mojo"


def place(release: str, program: str, defines: Defines) -> Path:
    """Where the executable of a program is kept: its name follows from sources and definitions."""
    text = [source(release, name).read_text() for name in (SHARED, program)]
    mark = hashlib.sha256(repr((text, sorted(defines.items()))).encode()).hexdigest()[:16]
    return FOLDER / release / "programs" / f"{program}-{mark}"


def built(release: str, program: str, defines: Defines) -> Path:
    """The executable of a program, compiled if it is not there: one to five minutes.

    Args:
        release: one of ``RELEASES``, installed.
        program: name of a file in ``mojo``.
        defines: its compile-time parameters.

    Raises:
        subprocess.CalledProcessError: the compiler refuses it.
    """
    target = place(release, program, defines)
    if not target.is_file():
        target.parent.mkdir(exist_ok=True)
        given = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
        unfinished = target.with_suffix(".unfinished")
        subprocess.run(
            [str(compiler(release)), "build", *given, "--target-accelerator", TARGET, "-I",
             str(SOURCES), "-o", str(unfinished), str(source(release, program))],
            check=True,
        )  # fmt: skip
        unfinished.rename(target)
    return target
