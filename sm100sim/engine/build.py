"""Compile C sources with the machine's C compiler into a cached shared library.

The cache key is a hash of the sources, the flags, the C library and, for ``-march=native``, the
processor. The compiler is no part of it: a library is found again where there is none. What may be
executed from the cache is the affair of :mod:`.cache`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from . import cache

DEFAULT_FLAGS = ("-O2", "-std=c11", "-shared", "-fPIC")
REQUIRED_FLAGS = ("-shared", "-fPIC")
CANDIDATES = ("cc", "gcc", "clang")
HEADER_SUFFIXES = (".h", ".inc")


class CompilerError(RuntimeError):
    """No C compiler, or the compiler refused a source; the message holds the command line."""


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


def _c_library() -> str:
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    return ""


def _key(files: Sequence[Path], flags: Sequence[str]) -> str:
    digest = hashlib.sha256()
    digest.update(repr((sys.platform, platform.machine(), _c_library(), list(flags))).encode())
    if any(flag.endswith("=native") for flag in flags):
        digest.update(_processor().encode())
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class Recipe:
    """What a library is compiled from.

    Attributes:
        name: stem of the library's file name.
        files: C files.
        headers: headers that take part in the cache key.
        flags: compiler flags.
        include: folder from which the sources name their headers.
    """

    name: str
    files: tuple[Path, ...]
    headers: tuple[Path, ...]
    flags: tuple[str, ...]
    include: Path | None

    @property
    def stem(self) -> str:
        """The library's file name, without the digest of its content."""
        return f"{self.name}-{_key([*self.files, *self.headers], self.flags)}"


def build_library(
    name: str,
    sources: Iterable[Path],
    flags: Sequence[str] = DEFAULT_FLAGS,
    include: Path | None = None,
    announce: str = "",
) -> Path:
    """Compile ``sources`` into one shared library, or find the one compiled before.

    Args:
        name: stem of the library's file name.
        sources: C files; headers (``.h``, ``.inc``) beside them or under `include` take part in the
            cache key.
        flags: compiler flags; ``-shared`` and ``-fPIC`` are added when missing.
        include: folder from which the sources name their headers.
        announce: what to call the library in a line on standard error before it is compiled.

    Returns:
        The library's path, inside the first of :func:`.cache.folders` that can hold it.

    Raises:
        CompilerError: no compiler, or it failed; the message holds the command and its output. Or
            no folder can hold the library.
    """
    files = [Path(source) for source in sources]
    missing = [str(file) for file in files if not file.is_file()]
    if missing or not files:
        raise CompilerError(f"{name}: no such C source: {', '.join(missing) or '(none given)'}")
    all_flags = [*flags, *(flag for flag in REQUIRED_FLAGS if flag not in flags)]
    headers = _headers({f.parent for f in files} if include is None else {include})
    recipe = Recipe(name, tuple(files), tuple(headers), tuple(all_flags), include)
    for folder in cache.folders():
        try:
            found = cache.stored(folder, recipe.stem, ".so") or _build(recipe, folder, announce)
            ctypes.CDLL(str(found))
        except OSError as error:
            cache.warn_of(folder, f"cannot be used ({error})")
            continue
        return found
    raise CompilerError(
        f"{name}: no folder can hold the library, not even a temporary one; set "
        f"{cache.CACHE_VARIABLE} to one that can be written and is not mounted noexec"
    )


def _build(recipe: Recipe, folder: Path, announce: str) -> Path:
    """Compile the library into a folder.

    Raises:
        OSError: the folder cannot be written.
    """
    command, stem = find_compiler(), recipe.stem
    with cache.one_at_a_time(folder, stem):
        # Another process may have made it while this one waited.
        found = cache.stored(folder, stem, ".so")
        if found is not None:
            return found
        if announce:
            _say(f"sm100sim: compiling {announce} with {command[0]}, once, into {folder}")
        (folder / "objects").mkdir(mode=0o700, exist_ok=True)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            objects = list(
                pool.map(lambda file: _object(recipe, command, folder / "objects", file),
                         recipe.files)
            )  # fmt: skip
        line = [*command, *recipe.flags, *map(str, objects), "-lm"]
        return _compile(line, folder, stem, lambda: recipe.stem, ".so")


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)


def _object(recipe: Recipe, command: list[str], folder: Path, file: Path) -> Path:
    """The object file of one source, kept while it, the headers and the compiler are unchanged."""
    flags = [*recipe.flags, *command, _compiler_version(tuple(command))]

    def named() -> str:
        return f"{file.stem}-{_key([file, *recipe.headers], flags)}"

    stem = named()
    found = cache.stored(folder, stem, ".o")
    if found is not None:
        return found
    line = [*command, *(f for f in recipe.flags if f != "-shared" and not f.startswith("-l"))]
    if recipe.include is not None:
        line.append(f"-I{recipe.include}")
    return _compile([*line, "-c", str(file)], folder, stem, named, ".o")


def _compile(
    line: list[str], folder: Path, stem: str, named: Callable[[], str], suffix: str
) -> Path:
    """Run the compiler into a private file, and publish that when it succeeded.

    Not if the sources have another name than `stem` by then: others would be served a mixture.
    """
    handle, name = tempfile.mkstemp(dir=folder, prefix=stem, suffix=".partial")
    os.close(handle)
    partial = Path(name)
    full = [*line, "-o", name]
    try:
        try:
            done = subprocess.run(full, capture_output=True, text=True, check=False)
        except OSError as error:
            raise CompilerError(f"{full[0]} cannot be executed: {error}") from error
        if done.returncode:
            raise CompilerError(
                f"compiling {stem}{suffix} failed with status {done.returncode}\n"
                f"$ {shlex.join(full)}\n{(done.stderr or done.stdout).strip()}"
            )
        if named() != stem:
            raise CompilerError(f"the sources of {stem}{suffix} changed meanwhile: call again")
        return cache.publish(partial, stem, suffix)
    finally:
        partial.unlink(missing_ok=True)
