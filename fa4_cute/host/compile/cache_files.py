"""Compiled kernels on disk: one zip file per kernel, published atomically, checked when read.

A file holds ``kernel.ptx``, ``kernel.cubin`` and ``meta.json``. It is written under a temporary
name and renamed, so a reader sees all of it or nothing. Writers exclude one another with a lock
file, which only saves work: when it cannot be had in time, or its holder has died, both compile,
and the later rename wins with an equal file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SUFFIX: Final = ".fa4k"
LOCK_SUFFIX: Final = ".lock"
FORMAT: Final = 1
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


def read_entry(path: Path, key: str) -> StoredKernel:
    """Return the kernel stored at ``path``.

    Raises:
        FileNotFoundError: there is none.
        OSError: the directory cannot be read.
        CorruptEntry: the file is damaged, or holds another kernel than ``key``.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            ptx, cubin = archive.read(_PTX), archive.read(_CUBIN)
            meta = json.loads(archive.read(_META))
        stored = StoredKernel(ptx.decode(), cubin, meta)
        found = (meta["format"], meta["key"], meta["sha256"])
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        raise
    # zlib, zipfile, struct, json and unicode errors: a damaged file can fail anywhere in between.
    except Exception as error:
        raise CorruptEntry(f"{path}: {type(error).__name__}: {error}") from error
    if found != (FORMAT, key, _digest(ptx, cubin)):
        raise CorruptEntry(f"{path}: format, key or checksum differ")
    return stored


def write_entry(path: Path, key: str, stored: StoredKernel) -> None:
    """Publish ``stored`` at ``path``; readers never see a part of it.

    Raises:
        OSError: the directory cannot be written.
    """
    ptx = stored.ptx.encode()
    meta = {
        **stored.meta, "format": FORMAT, "key": key, "sha256": _digest(ptx, stored.cubin),
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
    """Remove lock and temporary files that killed processes left in ``directory``."""
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
    lock = path.with_name(path.name + LOCK_SUFFIX)
    owner = f"{socket.gethostname()} {os.getpid()} {time.monotonic_ns()}"
    deadline = time.monotonic() + timeout
    held = _take(lock, owner)
    while not held and not path.exists() and time.monotonic() < deadline:
        if _abandoned(lock, timeout):
            with contextlib.suppress(FileNotFoundError):
                lock.unlink()
        else:
            time.sleep(_POLL_SECONDS)
        held = _take(lock, owner)
    try:
        yield held
    finally:
        if held and _owner(lock) == owner:
            with contextlib.suppress(OSError):
                lock.unlink()


def _take(lock: Path, owner: str) -> bool:
    """Create the lock file with its owner in it; False when it exists already."""
    lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w") as file:
        file.write(owner)
    return True


def _owner(lock: Path) -> str | None:
    try:
        return lock.read_bytes().decode(errors="replace")
    except OSError:
        return None


def _abandoned(lock: Path, timeout: float) -> bool:
    """Whether the lock's holder is gone: its process ended, or the lock is older than a timeout.

    A process identifier may be in use again; then the age decides.
    """
    try:
        age = time.time() - lock.stat().st_mtime
    except FileNotFoundError:
        return False
    if age > timeout:
        return True
    host, _, rest = (_owner(lock) or "").partition(" ")
    number = rest.partition(" ")[0]
    if host != socket.gethostname() or not number.isdigit() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _digest(ptx: bytes, cubin: bytes) -> str:
    content = hashlib.sha256()
    for part in (ptx, cubin):
        content.update(len(part).to_bytes(8, "little"))
        content.update(part)
    return content.hexdigest()
