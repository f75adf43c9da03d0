"""Compile C sources with the machine's C compiler into a cached shared library.

The cache key is a hash of the sources, the flags and the compiler's own version line, so an edited
source, another compiler or another flag gives another file; a finished file is never changed.
Several processes may build at once: each writes a private file and publishes it by ``os.replace``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

DEFAULT_FLAGS = ("-O2", "-std=c11", "-shared", "-fPIC")
REQUIRED_FLAGS = ("-shared", "-fPIC")
CACHE_VARIABLE = "SM100SIM_CACHE_DIR"
CANDIDATES = ("cc", "gcc", "clang")
HEADER_SUFFIXES = (".h", ".inc")


class CompilerError(RuntimeError):
    """No C compiler, or the compiler refused a source; the message holds the command line."""


def cache_dir() -> Path:
    """The per-user folder of compiled libraries (``SM100SIM_CACHE_DIR`` overrides it)."""
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "sm100sim"


def find_compiler() -> list[str]:
    """The C compiler's command: ``$CC`` if set, else the first of cc, gcc and clang on the path.

    Raises:
        CompilerError: none was found.
    """
    chosen = shlex.split(os.environ.get("CC", ""))
    for command in [chosen] if chosen else [[name] for name in CANDIDATES]:
        if shutil.which(command[0]):
            return command
    tried = shlex.join(chosen) if chosen else ", ".join(CANDIDATES)
    raise CompilerError(
        f"sm100sim needs a C compiler once, to build its engine, and found none (tried: {tried}). "
        "Install gcc or clang, or set CC to one."
    )


@lru_cache(maxsize=8)
def _compiler_version(command: tuple[str, ...]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0] if done.returncode == 0 else ""


@lru_cache(maxsize=1)
def _processor() -> str:
    """What ``-march=native`` depends on: a cache folder may be shared by different machines."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return hashlib.sha256(line.encode()).hexdigest()
    except OSError:
        pass
    return platform.processor()


def _headers(folders: Iterable[Path]) -> list[Path]:
    """Every header under the given folders."""
    files = (file for folder in folders for file in folder.rglob("*"))
    return sorted({file for file in files if file.suffix in HEADER_SUFFIXES})


def _key(files: Sequence[Path], flags: Sequence[str], command: Sequence[str]) -> str:
    digest = hashlib.sha256()
    digest.update(repr((platform.machine(), list(flags), list(command))).encode())
    digest.update(_compiler_version(tuple(command)).encode())
    if any(flag.endswith("=native") for flag in flags):
        digest.update(_processor().encode())
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def build_library(
    name: str,
    sources: Iterable[Path],
    flags: Sequence[str] = DEFAULT_FLAGS,
    include: Path | None = None,
) -> Path:
    """Compile ``sources`` into one shared library, or find the one compiled before.

    Args:
        name: stem of the library's file name.
        sources: C files; headers (``.h``, ``.inc``) beside them or under `include` take part in the
            cache key.
        flags: compiler flags; ``-shared`` and ``-fPIC`` are added when missing.
        include: folder from which the sources name their headers.

    Returns:
        The library's path inside :func:`cache_dir`.

    Raises:
        CompilerError: no compiler, or it failed; the message holds the command and its output.
    """
    files = [Path(source) for source in sources]
    missing = [str(file) for file in files if not file.is_file()]
    if missing or not files:
        raise CompilerError(f"{name}: no such C source: {', '.join(missing) or '(none given)'}")
    command = find_compiler()
    all_flags = [*flags, *(flag for flag in REQUIRED_FLAGS if flag not in flags)]
    headers = _headers({f.parent for f in files} if include is None else {include})
    folder = cache_dir()
    target = folder / f"{name}-{_key([*files, *headers], all_flags, command)}.so"
    if target.is_file():
        return target
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        objects = list(
            pool.map(lambda file: _object(command, all_flags, file, headers, include), files)
        )
    _run_compiler(command, [*all_flags, *map(str, objects), "-lm"], target)
    return target


def _object(
    command: list[str], flags: list[str], file: Path, headers: list[Path], include: Path | None
) -> Path:
    """The object file of one source, kept while it and the headers are unchanged."""
    key = _key([file, *headers], flags, command)
    target = cache_dir() / "objects" / f"{file.stem}-{key}.o"
    if not target.is_file():
        compile_flags = [flag for flag in flags if flag != "-shared" and not flag.startswith("-l")]
        if include is not None:
            compile_flags.append(f"-I{include}")
        _run_compiler(command, [*compile_flags, "-c", str(file)], target)
    return target


def _run_compiler(command: list[str], arguments: list[str], target: Path) -> None:
    """Run the compiler into a private file and publish that as `target` when it succeeded."""
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=target.stem, suffix=".partial")
    os.close(handle)
    line = [*command, *arguments, "-o", partial]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompilerError(
                f"compiling {target.name} failed with status {done.returncode}\n"
                f"$ {shlex.join(line)}\n{(done.stderr or done.stdout).strip()}"
            )
        os.chmod(partial, 0o755)
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
