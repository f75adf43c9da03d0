"""Compiled kernels on disk: one zip file per kernel, published atomically, checked when read.

A file holds ``kernel.ptx``, ``kernel.cubin`` and ``meta.json``. It is written under a temporary
name and renamed, so a reader sees all of it or nothing. Writers exclude one another with a lock,
which only saves work: when it cannot be had in time, both compile, and the later rename wins with
an equal file. The operating system frees the lock of a process that ends.

What is read runs on the reader's device, so only regular files are read that belong to the user and
that nobody else may write. The checksum covers everything in a file, and the kernel's key with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from filelock import BaseFileLock

SUFFIX: Final = ".fa4k"
LOCK_SUFFIX: Final = ".lock"
FORMAT: Final = 2
MAX_BYTES: Final = 1 << 24
"""Most that a member of a file may hold; the largest kernels have about a megabyte."""
_PTX, _CUBIN, _META = "kernel.ptx", "kernel.cubin", "meta.json"
_POLL_SECONDS: Final = 0.02
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


class CorruptEntry(Exception):
    """A file of the cache is not what was written."""


@dataclass(frozen=True)
class StoredKernel:
    """Content of one file."""

    ptx: str
    cubin: bytes
    meta: dict[str, Any]


def read_entry(path: Path, key: str | None) -> StoredKernel:
    """Return the kernel stored at ``path``; a ``key`` of None takes any that is whole.

    Raises:
        FileNotFoundError: there is none.
        OSError: the directory cannot be read.
        CorruptEntry: the file is damaged, or holds another kernel than ``key``.
    """
    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            ptx, cubin, text = (_member(archive, name) for name in (_PTX, _CUBIN, _META))
        meta = json.loads(text)
        found = (meta["format"], key and meta["key"], meta.pop("sha256"))
        stored = StoredKernel(ptx.decode(), cubin, meta)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        raise
    # zlib, zipfile, struct, json and unicode errors: a damaged file can fail anywhere in between.
    except Exception as error:
        raise CorruptEntry(f"{path}: {type(error).__name__}: {error}") from error
    if found != (FORMAT, key, _digest(ptx, cubin, meta)):
        raise CorruptEntry(f"{path}: format, key or checksum differ")
    return stored


def _opened(path: Path) -> IO[bytes]:
    """Open a file of the cache; without waiting, which a FIFO would make a reader do.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be opened, or is a symbolic link.
        CorruptEntry: it is no regular file, or somebody else's.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CorruptEntry(f"{path}: no regular file")
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            raise CorruptEntry(f"{path}: belongs to user {status.st_uid}")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CorruptEntry(f"{path}: others may write it")
    except BaseException:
        file.close()
        raise
    return file


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member of a file, unless it is too large to be one."""
    size = archive.getinfo(name).file_size
    if size > MAX_BYTES:
        raise CorruptEntry(f"{name} of {size} bytes")
    return archive.read(name)


def _make_private(directory: Path) -> None:
    """Make ``directory`` and what is missing above it, for the user alone."""
    for folder in (*reversed(directory.parents), directory):
        if not folder.exists():
            folder.mkdir(exist_ok=True, mode=0o700)


def write_entry(path: Path, key: str, stored: StoredKernel) -> None:
    """Publish ``stored`` at ``path``; readers never see a part of it.

    Raises:
        OSError: the directory cannot be written.
    """
    ptx = stored.ptx.encode()
    meta = {**stored.meta, "format": FORMAT, "key": key}
    meta["sha256"] = _digest(ptx, stored.cubin, meta)
    _make_private(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            members = {_PTX: ptx, _CUBIN: stored.cubin, _META: json.dumps(meta, indent=1).encode()}
            for member, content in members.items():
                info = zipfile.ZipInfo(member, _EPOCH)
                archive.writestr(info, content, zipfile.ZIP_DEFLATED, compresslevel=1)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def entries(directory: Path) -> list[Path]:
    """Return the kernel files of ``directory``, sorted; none when it does not exist."""
    return sorted(directory.glob(f"*{SUFFIX}"))


def remove_leftovers(directory: Path) -> None:
    """Remove lock files, and temporary files that killed processes left in ``directory``."""
    for pattern in (f"*{SUFFIX}{LOCK_SUFFIX}", f".*{SUFFIX}.*"):
        for path in directory.glob(pattern):
            path.unlink(missing_ok=True)


@contextmanager
def publishing_lock(path: Path, timeout: float) -> Iterator[bool]:
    """Hold the lock of the entry ``path``, or learn that there is no need to or no way to.

    Yields whether the lock is held. It is not when the entry appeared while waiting, or when
    ``timeout`` seconds passed; then the caller works without it.

    Raises:
        OSError: the directory cannot be written.
    """
    from filelock import FileLock

    _make_private(path.parent)
    lock = FileLock(path.with_name(path.name + LOCK_SUFFIX), mode=0o600)
    deadline = time.monotonic() + timeout
    held = _take(lock)
    while not held and not path.exists() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        held = _take(lock)
    try:
        yield held
    finally:
        if held:
            lock.release()


def _take(lock: BaseFileLock) -> bool:
    """Try once."""
    from filelock import Timeout

    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    return True


def _digest(ptx: bytes, cubin: bytes, meta: dict[str, Any]) -> str:
    """Return the checksum of a file: of code and of all metadata, the key among them."""
    content = hashlib.sha256()
    for part in (ptx, cubin, json.dumps(meta, sort_keys=True).encode()):
        content.update(len(part).to_bytes(8, "little"))
        content.update(part)
    return content.hexdigest()
