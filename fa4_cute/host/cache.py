"""Compiled kernels, kept in memory and on disk, so that a second process need not compile.

The key of a kernel is a hash of all that shapes it: its specification, the sources of this package
that take part in compiling, the versions of the DSL and of its libraries, the architecture and the
compile options. A stale file is therefore never used; it is only left behind.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from ..plan.kernel_spec import KernelSpec
from ..settings import Settings, read_settings
from . import cache_files
from .cache_files import CorruptEntry, StoredKernel
from .compiler import ARCH, CompiledArtifact, compile_kernel

PACKAGE: Final = Path(__file__).resolve().parent.parent
_NOT_COMPILED: Final = ("__init__.py", "settings.py", "simulator.py")
_COMPILING_HOST: Final = "compiler.py"
_DSL_PACKAGES: Final = (
    "nvidia-cutlass-dsl",
    "nvidia-cutlass-dsl-libs-base",
    "nvidia-cutlass-dsl-libs-core",
    "nvidia-cutlass-dsl-libs-cu12",
    "nvidia-cutlass-dsl-libs-cu13",
)
_KEY_CHARACTERS: Final = 24

Compiler = Callable[[KernelSpec], CompiledArtifact]


@dataclass(frozen=True)
class CacheInfo:
    """State of the cache of compiled kernels in this process.

    Attributes:
        directory: where kernels are kept, or None when only memory is used.
        files, bytes: kernels on disk, of all versions and processes.
        in_memory: kernels loaded or compiled by this process.
        memory_hits, disk_hits, compiles: where the requested kernels came from.
        corrupt: damaged files met, each of which was compiled anew.
    """

    directory: str | None
    files: int
    bytes: int
    in_memory: int
    memory_hits: int
    disk_hits: int
    compiles: int
    corrupt: int


@dataclass
class _Counts:
    memory_hits: int = 0
    disk_hits: int = 0
    compiles: int = 0
    corrupt: int = 0


class KernelCache:
    """Gives compiled kernels: from memory, from disk, or from the compiler.

    Args:
        settings: where to keep kernels and how long to wait for other processes.
        compiler: compiles one specification.
    """

    def __init__(self, settings: Settings, compiler: Compiler = compile_kernel) -> None:
        """Start with nothing in memory."""
        self._settings = settings
        self._compiler = compiler
        self._memory: dict[KernelSpec, CompiledArtifact] = {}
        self._by_identity: dict[int, tuple[KernelSpec, CompiledArtifact]] = {}
        self._locks: dict[KernelSpec, threading.Lock] = {}
        self._guard = threading.Lock()
        self._counts = _Counts()
        self._disk_works = settings.cache_dir is not None

    def get(self, spec: KernelSpec) -> CompiledArtifact:
        """Return the compiled kernel of ``spec``; threads that ask for it meanwhile wait."""
        # Hashing a specification visits all its fields; its identity is the quick way in.
        quick = self._by_identity.get(id(spec))
        if quick is not None and quick[0] is spec:
            self._counts.memory_hits += 1
            return quick[1]
        with self._guard:
            lock = self._locks.setdefault(spec, threading.Lock())
        with lock:
            found = self._memory.get(spec)
            if found is None:
                found = self._memory[spec] = self._from_disk_or_compiler(spec)
            else:
                self._counts.memory_hits += 1
            self._by_identity[id(spec)] = (spec, found)
        return found

    def info(self) -> CacheInfo:
        """Return counts and sizes."""
        paths = self._entries()
        sizes = [path.stat().st_size for path in paths if path.exists()]
        directory = self._settings.cache_dir if self._disk_works else None
        return CacheInfo(
            directory=None if directory is None else str(directory),
            files=len(sizes),
            bytes=sum(sizes),
            in_memory=len(self._memory),
            **asdict(self._counts),
        )

    def clear(self) -> int:
        """Forget all kernels, on disk too, and return how many files were removed."""
        with self._guard:
            self._memory.clear()
            self._by_identity.clear()
        removed = 0
        for path in self._entries():
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            removed += 1
        if self._settings.cache_dir is not None:
            cache_files.remove_leftovers(self._settings.cache_dir)
        return removed

    def path_of(self, spec: KernelSpec) -> Path | None:
        """Return the file that holds, or would hold, the kernel; None without a directory."""
        directory = self._settings.cache_dir
        if directory is None:
            return None
        return directory / f"{spec.name}-{kernel_key(spec)[:_KEY_CHARACTERS]}{cache_files.SUFFIX}"

    def _entries(self) -> list[Path]:
        directory = self._settings.cache_dir
        return [] if directory is None else cache_files.entries(directory)

    def _from_disk_or_compiler(self, spec: KernelSpec) -> CompiledArtifact:
        path = self.path_of(spec)
        if path is None or not self._disk_works:
            return self._compile(spec)
        key = kernel_key(spec)
        with ExitStack() as stack:
            try:
                found = self._load(spec, path, key)
                if found is not None:
                    return found
                lock = cache_files.publishing_lock(path, self._settings.lock_timeout)
                held = stack.enter_context(lock)
                # Another process may have published it while this one waited for the lock.
                found = self._load(spec, path, key)
                if found is not None:
                    return found
            except OSError as error:
                self._give_up_disk(path.parent, error)
                return self._compile(spec)
            artifact = self._compile(spec)
            try:
                cache_files.write_entry(path, key, _stored(spec, artifact, locked=held))
            except OSError as error:
                self._give_up_disk(path.parent, error)
        return artifact

    def _load(self, spec: KernelSpec, path: Path, key: str) -> CompiledArtifact | None:
        try:
            artifact = _artifact(spec, cache_files.read_entry(path, key))
        except FileNotFoundError:
            return None
        except CorruptEntry:
            self._counts.corrupt += 1
            path.unlink(missing_ok=True)
            return None
        self._counts.disk_hits += 1
        return artifact

    def _compile(self, spec: KernelSpec) -> CompiledArtifact:
        self._counts.compiles += 1
        return self._compiler(spec)

    def _give_up_disk(self, directory: Path, error: OSError) -> None:
        """Use memory only from now on, and say so once."""
        if self._disk_works:
            self._disk_works = False
            warnings.warn(
                f"compiled kernels are kept in memory only: {directory} cannot be used ({error}); "
                f"set FA4_CUTE_CACHE_DIR to a writable directory, or FA4_CUTE_CACHE=0",
                RuntimeWarning,
                stacklevel=2,
            )


def kernel_key(spec: KernelSpec) -> str:
    """Return the key of the kernel of ``spec`` as 64 hexadecimal characters."""
    text = json.dumps({**toolchain(), "spec": canonical(spec)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def toolchain() -> dict[str, str]:
    """Return what a compiled kernel depends on besides its specification: names to versions."""
    found = {"arch": ARCH, "sources": source_hash(), "format": str(cache_files.FORMAT)}
    found["python"] = ".".join(map(str, sys.version_info[:2]))
    for name in _DSL_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def source_hash(package: Path = PACKAGE) -> str:
    """Return a hash over the sources that take part in compiling, names included."""
    content = hashlib.sha256()
    for path in kernel_sources(package):
        content.update(f"{path.relative_to(package)}\0".encode())
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def kernel_sources(package: Path = PACKAGE) -> list[Path]:
    """Return the package's files that take part in compiling: all but the host's, save one."""
    found = []
    for path in sorted(package.rglob("*.py")):
        top = path.relative_to(package).parts[0]
        host = top == "host" and path.name != _COMPILING_HOST
        if not host and top not in _NOT_COMPILED:
            found.append(path)
    return found


def canonical(value: Any) -> Any:
    """Return ``value`` as JSON data that is equal exactly when ``value`` is.

    Raises:
        TypeError: for a value whose text would not identify it.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {f.name: canonical(getattr(value, f.name)) for f in fields(value)}
        return {"type": type(value).__qualname__, **named}
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, tuple):
        return [canonical(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r}: {type(value).__name__} has no place in the key of a kernel")


def _stored(spec: KernelSpec, artifact: CompiledArtifact, *, locked: bool) -> StoredKernel:
    meta = {
        "kernel_name": artifact.kernel_name,
        "smem_bytes": artifact.smem_bytes,
        "threads": artifact.threads,
        "cluster": list(artifact.cluster),
        "spec": canonical(spec),
        "toolchain": toolchain(),
        "locked": locked,
    }
    return StoredKernel(artifact.ptx, artifact.cubin, meta)


def _artifact(spec: KernelSpec, stored: StoredKernel) -> CompiledArtifact:
    meta = stored.meta
    try:
        x, y, z = (int(n) for n in meta["cluster"])
        return CompiledArtifact(
            ptx=stored.ptx,
            cubin=stored.cubin,
            kernel_name=str(meta["kernel_name"]),
            params=spec.params,
            smem_bytes=int(meta["smem_bytes"]),
            threads=int(meta["threads"]),
            cluster=(x, y, z),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptEntry(f"{spec.name}: {error}") from error


_process_cache: KernelCache | None = None
_process_settings: Settings | None = None


def process_cache() -> KernelCache:
    """Return the cache of this process; a new one when the settings changed."""
    global _process_cache, _process_settings
    settings = read_settings()
    if _process_cache is None or settings != _process_settings:
        _process_cache, _process_settings = KernelCache(settings), settings
    return _process_cache


def compiled(spec: KernelSpec) -> CompiledArtifact:
    """Return the compiled kernel of ``spec`` from the process's cache."""
    return process_cache().get(spec)


def cache_info() -> CacheInfo:
    """Return where compiled kernels are kept and where the requested ones came from."""
    return process_cache().info()


def clear_cache() -> int:
    """Remove all compiled kernels from memory and from the cache directory.

    Returns:
        The number of files removed.
    """
    return process_cache().clear()
