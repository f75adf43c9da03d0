"""Compiled kernels, kept in memory and on disk, so that a second process need not compile.

The key of a kernel is a hash of all that shapes it: its specification, the sources of this package
that take part in compiling, the versions of the DSL and of its libraries, the architecture and the
compile options. So a stale file is never used; it just stays on disk.

Without CuTe DSL those versions are unknown, and nothing can be compiled. A process then uses a
kernel that was compiled elsewhere from the same sources, for the same specification.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ...plan.config.config import FA4Config
from ...plan.facts.hardware import SM100A
from ...plan.masks.masks import CAUSAL, NULL
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.combine_spec import CombineSpec
from ...plan.spec.variant import Variant
from . import cache_files
from .cache_files import CorruptEntry, StoredKernel
from .compiler import CompiledArtifact, compile_kernel, has_compiler
from .kernel_key import canonical, kernel_key, source_hash, toolchain
from .settings import Settings, read_settings

_KEY_CHARACTERS: Final = 24

KernelSpecification = AttentionSpec | CombineSpec
Compiler = Callable[[KernelSpecification], CompiledArtifact]


@dataclass(frozen=True)
class CacheInfo:
    """State of the cache of compiled kernels in this process.

    Attributes:
        directory: where kernels are kept, or None when only memory is used.
        files, bytes: kernels on disk, of all versions and processes.
        in_memory: kernels loaded or compiled by this process.
        memory_hits, disk_hits, compiles: where the requested kernels came from.
        corrupt: damaged files found; their kernels were compiled anew.
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
        self._memory: dict[KernelSpecification, CompiledArtifact] = {}
        self._by_identity: dict[int, tuple[KernelSpecification, CompiledArtifact]] = {}
        self._locks: dict[KernelSpecification, threading.Lock] = {}
        self._guard = threading.Lock()
        self._counts = _Counts()
        self._disk_works = settings.cache_dir is not None

    def get(self, spec: KernelSpecification) -> CompiledArtifact:
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

    def path_of(self, spec: KernelSpecification) -> Path | None:
        """Return the file that holds, or would hold, the kernel; None without a directory."""
        directory = self._settings.cache_dir
        if directory is None:
            return None
        return directory / f"{spec.name}-{kernel_key(spec)[:_KEY_CHARACTERS]}{cache_files.SUFFIX}"

    def _entries(self) -> list[Path]:
        directory = self._settings.cache_dir
        return [] if directory is None else cache_files.entries(directory)

    def _from_disk_or_compiler(self, spec: KernelSpecification) -> CompiledArtifact:
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

    def _load(self, spec: KernelSpecification, path: Path, key: str) -> CompiledArtifact | None:
        try:
            stored = _stored_kernel(spec, path, key)
            artifact = _artifact(spec, stored)
        except FileNotFoundError:
            return None
        except CorruptEntry:
            self._counts.corrupt += 1
            path.unlink(missing_ok=True)
            return None
        self._counts.disk_hits += 1
        return artifact

    def _compile(self, spec: KernelSpecification) -> CompiledArtifact:
        self._counts.compiles += 1
        try:
            return self._compiler(spec)
        except Exception as error:
            error.add_note(_circumstances(spec))
            raise

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


def _circumstances(spec: KernelSpecification) -> str:
    """Return what was compiled, with what, and how to do it again."""
    versions = ", ".join(f"{name} {text}" for name, text in toolchain().items() if "-" in name)
    compiling = f"while compiling {spec.name} for {spec.arch} with {versions}"
    if isinstance(spec, CombineSpec):
        return compiling
    config = spec.config
    depth = config.qk_depth if isinstance(config, FA4Config) else config.depth
    problem = {
        "head_dim": depth,
        "dtype": config.qkv_dtype.value,
        "heads_q": config.group,
        "heads_k": 1,
        "causal": spec.causal,
        "return_lse": spec.return_lse,
    }
    if spec.arch != SM100A:
        problem["arch"] = spec.arch
    plain = Variant(CAUSAL if spec.causal else NULL, spec.return_lse)
    if spec.variant != plain:
        return f"{compiling}; {problem} with {spec.variant}"
    return (
        f"{compiling}; to repeat it: FA4_CUTE_CACHE=0 "
        f"""python -c "import fa4_cute; fa4_cute.warmup([{problem}])\""""
    )


def _stored(spec: KernelSpecification, artifact: CompiledArtifact, *, locked: bool) -> StoredKernel:
    meta = {
        "kernel_name": artifact.kernel_name,
        **_launch_of(artifact),
        "spec": canonical(spec),
        "toolchain": {**toolchain(), "arch": spec.arch},
        "locked": locked,
    }
    return StoredKernel(artifact.ptx, artifact.cubin, meta)


def _stored_kernel(spec: KernelSpecification, path: Path, key: str) -> StoredKernel:
    """Return the kernel at ``path``; without a compiler, also one that was compiled elsewhere.

    Raises:
        FileNotFoundError: there is none.
        OSError, CorruptEntry: as of ``cache_files.read_entry``.
    """
    try:
        return cache_files.read_entry(path, key)
    except FileNotFoundError:
        if has_compiler():
            raise
        for other in path.parent.glob(f"{spec.name}-*{cache_files.SUFFIX}"):
            stored = cache_files.read_entry(other, None)
            same = stored.meta["spec"] == json.loads(json.dumps(canonical(spec)))
            if same and stored.meta["toolchain"]["sources"] == source_hash():
                return stored
        raise


def _artifact(spec: KernelSpecification, stored: StoredKernel) -> CompiledArtifact:
    """Return the kernel as it was compiled; its launch is that of ``spec``, or it is not used."""
    meta, name = stored.meta, str(stored.meta.get("kernel_name"))
    found = CompiledArtifact.of(spec, stored.ptx, stored.cubin, name)
    launch = {field: meta.get(field) for field in _LAUNCH_FIELDS}
    if not name.startswith(spec.name) or launch != _launch_of(found):
        raise CorruptEntry(f"{spec.name}: stored as {name} with {launch}")
    return found


_LAUNCH_FIELDS: Final = ("smem_bytes", "threads", "cluster")


def _launch_of(artifact: CompiledArtifact) -> dict[str, Any]:
    return {
        "smem_bytes": artifact.smem_bytes,
        "threads": artifact.threads,
        "cluster": list(artifact.cluster),
    }


_forgets: list[Callable[[], None]] = []
_process_cache: KernelCache | None = None
_process_settings: Settings | None = None


def process_cache() -> KernelCache:
    """Return the cache of this process; a new one when the settings changed."""
    global _process_cache, _process_settings
    settings = read_settings()
    if _process_cache is None or settings != _process_settings:
        _process_cache, _process_settings = KernelCache(settings), settings
    return _process_cache


def compiled(spec: KernelSpecification) -> CompiledArtifact:
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
    for forget in _forgets:
        forget()
    return process_cache().clear()


def when_cleared(forget: Callable[[], None]) -> None:
    """Have ``forget`` called whenever the kernels are forgotten."""
    _forgets.append(forget)
