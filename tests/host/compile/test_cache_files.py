"""Files of the cache that somebody forged, planted or put in the way are not used."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fa4_cute.host.compile import cache_files
from fa4_cute.host.compile.cache import KernelCache
from fa4_cute.host.compile.cache_files import CorruptEntry, read_entry
from fa4_cute.host.compile.kernel_key import kernel_key
from fa4_cute.host.compile.settings import Settings
from tests.host.compilers import SPEC, CountingCompiler, artifact_of

KEY = kernel_key(SPEC)


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """A good file of the cache."""
    cache = KernelCache(Settings(tmp_path, 5.0), CountingCompiler())
    cache.get(SPEC)
    path = cache.path_of(SPEC)
    assert path is not None
    read_entry(path, KEY)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, content: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def forge(path: Path, *, with_checksum: bool, **changes: Any) -> None:
    """Change metadata, or the PTX, and make the checksum fit if told to."""
    content = members(path)
    content["kernel.ptx"] = changes.pop("ptx", content["kernel.ptx"])
    meta = json.loads(content["meta.json"]) | changes
    if with_checksum:
        del meta["sha256"]
        code = content["kernel.ptx"], content["kernel.cubin"]
        meta["sha256"] = cache_files._digest(*code, meta)
    rewrite(path, {**content, "meta.json": json.dumps(meta).encode()})


def compiles_anew(path: Path) -> bool:
    """Whether a new process compiles, gets the right kernel and leaves a good file."""
    compiler = CountingCompiler()
    assert KernelCache(Settings(path.parent, 5.0), compiler).get(SPEC) == artifact_of(SPEC)
    read_entry(path, KEY)
    return bool(compiler.compiled)


FORGED = (
    {"threads": 0}, {"threads": None}, {"smem_bytes": 10**12}, {"cluster": [10**9, 1, 1]},
    {"cluster": "abc"}, {"kernel_name": "zz"}, {"kernel_name": None},
)  # fmt: skip


@pytest.mark.parametrize("with_checksum", [False, True])
@pytest.mark.parametrize("changes", FORGED, ids=str)
def test_forged_metadata_is_not_used(
    entry: Path, changes: dict[str, Any], with_checksum: bool
) -> None:
    forge(entry, with_checksum=with_checksum, **changes)
    assert compiles_anew(entry)


def test_the_checksum_covers_code_metadata_and_key(entry: Path) -> None:
    good = members(entry)
    for changes in ({"ptx": b"// other"}, {"spec": "other"}, {"locked": None}):
        rewrite(entry, good)
        forge(entry, with_checksum=False, **changes)
        with pytest.raises(CorruptEntry, match="checksum"):
            read_entry(entry, KEY)
    rewrite(entry, good)
    with pytest.raises(CorruptEntry, match="key"):
        read_entry(entry, "another key")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def anybody_may_write(path: Path) -> None:
    path.chmod(0o666)


def bomb(path: Path) -> None:
    too_much = bytes(cache_files.MAX_BYTES + 1)
    rewrite(path, {**members(path), "kernel.ptx": too_much})


@pytest.mark.timeout(60)
@pytest.mark.parametrize("trap", [pipe, link, anybody_may_write, bomb], ids=lambda f: f.__name__)
def test_only_regular_files_of_the_user_are_read(
    entry: Path, trap: Callable[[Path], None]
) -> None:
    trap(entry)
    with pytest.raises(CorruptEntry):
        read_entry(entry, KEY)
    assert compiles_anew(entry)


def test_a_file_of_another_user_is_not_read(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = entry.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(CorruptEntry, match=f"user {owner}"):
        read_entry(entry, KEY)


def test_new_directories_are_the_users_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        KernelCache(Settings(tmp_path / "a" / "b", 5.0), CountingCompiler()).get(SPEC)
    finally:
        os.umask(old)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")]
    assert modes == [0o700, 0o700]
