"""Where compiled libraries are kept, and which files there may be executed.

A file is executed when its folder and the file itself belong to this user or to root, nobody else
may write to them, and its content has the digest that its name ends with. Anything else is passed
over and compiled anew; what this user owns and is damaged is removed.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

CACHE_VARIABLE = "SM100SIM_CACHE_DIR"
DIGEST_CHARACTERS = 32
LOCK_SECONDS = 300.0
"""How long to wait for another process that compiles the same library."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_dir() -> Path:
    """The per-user folder of compiled libraries (``SM100SIM_CACHE_DIR`` overrides it)."""
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        return Path(override).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("sm100sim", appauthor=False)


def _trusted(info: os.stat_result) -> bool:
    return info.st_uid in (os.geteuid(), 0) and not info.st_mode & _OTHERS_WRITE


def refusal(folder: Path) -> str:
    """Why a folder, which is made when it is missing, cannot hold libraries; "" when it can."""
    if not folder.is_absolute():
        return "is not below a home directory"
    try:
        for missing in reversed([p for p in (folder, *folder.parents) if not p.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        info, mount = folder.stat(), os.statvfs(folder)
    except OSError as error:
        return f"cannot be used ({error.strerror or error})"
    if not stat.S_ISDIR(info.st_mode):
        return "is no folder"
    if info.st_uid not in (os.geteuid(), 0):
        return f"belongs to user {info.st_uid}"
    if info.st_mode & _OTHERS_WRITE:
        return f"may be written by others (chmod go-w {folder})"
    return "is mounted noexec" if mount.f_flag & getattr(os, "ST_NOEXEC", 0) else ""


@cache
def _last_resort() -> Path:
    """A folder of this process."""
    folder = Path(tempfile.mkdtemp(prefix="sm100sim-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def folders() -> Iterator[Path]:
    """Folders that may hold libraries, best first; one that is refused is warned of.

    After the configured one comes a private folder below the temporary directory, which further
    processes find again, and then one that ends with this process.
    """
    chosen = cache_dir()
    why = refusal(chosen)
    if not why:
        yield chosen
    else:
        warn_of(chosen, why)
    shared = Path(tempfile.gettempdir()) / f"sm100sim-{os.geteuid()}"
    if not refusal(shared) and not shared.is_symlink():
        yield shared
    yield _last_resort()


@cache
def warn_of(folder: Path, why: str) -> None:
    """Say once that a folder is not used."""
    warnings.warn(
        f"sm100sim does not keep its compiled engine in {folder}, which {why}; it takes a "
        f"temporary folder. Set {CACHE_VARIABLE} to a folder of your own.",
        RuntimeWarning,
        stacklevel=2,
    )


def digest_of(content: bytes) -> str:
    """What the name of a file with this content ends with."""
    return hashlib.sha256(content).hexdigest()[:DIGEST_CHARACTERS]


def _intact(path: Path) -> bool:
    """Whether a file is trusted and holds what its name says; a damaged one of ours is removed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, flags), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode) or not _trusted(info):
                return False
            if digest_of(file.read()) == path.stem.rpartition("-")[2]:
                return True
    except OSError:
        return False
    with contextlib.suppress(OSError):
        path.unlink()
    return False


def stored(folder: Path, stem: str, suffix: str) -> Path | None:
    """The intact file `stem-DIGEST.suffix` of a folder, or None."""
    return next((p for p in sorted(folder.glob(f"{stem}-*{suffix}")) if _intact(p)), None)


def publish(partial: Path, stem: str, suffix: str) -> Path:
    """Give a finished file its name, which says its content; readers see all of it or nothing.

    Raises:
        OSError: the name is taken by something that is no file.
    """
    target = partial.with_name(f"{stem}-{digest_of(partial.read_bytes())}{suffix}")
    partial.chmod(0o755)
    os.replace(partial, target)
    return target


@contextmanager
def one_at_a_time(folder: Path, stem: str) -> Iterator[None]:
    """Keep other processes and threads from compiling the same; after a while do without.

    Raises:
        OSError: nothing can be written to the folder.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / f"{stem}.lock", timeout=LOCK_SECONDS, mode=0o600)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Timeout):
            stack.enter_context(lock)
        yield
