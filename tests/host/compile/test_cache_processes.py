"""Several processes share a cache: one compiles, none waits for the dead or reads half a file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from fa4_cute.host.compile import cache_files
from fa4_cute.host.compile.cache import KernelCache
from fa4_cute.host.compile.cache_files import LOCK_SUFFIX, publishing_lock, read_entry, write_entry
from fa4_cute.host.compile.kernel_key import kernel_key
from fa4_cute.host.compile.settings import Settings
from tests.host.compilers import SPEC, CountingCompiler, artifact_of

ROOT = Path(__file__).resolve().parents[3]
WORKER = """
import sys
from pathlib import Path
from fa4_cute.host.compile.cache import KernelCache
from fa4_cute.host.compile.settings import Settings
from tests.host.compilers import SPEC, CountingCompiler, artifact_of
compiler = CountingCompiler(seconds=0.5)
cache = KernelCache(Settings(Path(sys.argv[1]), 30.0), compiler)
print("ready", flush=True)
sys.stdin.readline()
assert cache.get(SPEC) == artifact_of(SPEC)
print(len(compiler.compiled))
"""

HOLDER = """
import sys
from pathlib import Path
from fa4_cute.host.compile.cache_files import publishing_lock
with publishing_lock(Path(sys.argv[1]), 1.0) as held:
    print("held" if held else "not held", flush=True)
    sys.stdin.readline()
"""


def lock_of(cache: KernelCache) -> Path:
    path = cache.path_of(SPEC)
    assert path is not None
    return path.with_name(path.name + LOCK_SUFFIX)


def cache_in(directory: Path, timeout: float = 20.0) -> tuple[KernelCache, CountingCompiler]:
    compiler = CountingCompiler()
    return KernelCache(Settings(directory, timeout), compiler), compiler


def test_processes_compile_once_between_them(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    outputs = []
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        outputs.append(worker.communicate(timeout=60)[0].strip())
        assert worker.returncode == 0
    assert sorted(outputs) == ["0", "0", "0", "1"]
    assert {p.suffix for p in tmp_path.iterdir()} <= {cache_files.SUFFIX, LOCK_SUFFIX}


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    cache, compiler = cache_in(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(cache.path_of(SPEC))],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with publishing_lock(tmp_path / lock_of(cache).stem, 0.1) as held:
        assert not held
    holder.kill()
    holder.communicate()
    start = time.monotonic()
    cache.get(SPEC)
    assert time.monotonic() - start < 5
    assert compiler.compiled == [SPEC.name]


@pytest.mark.parametrize("content", [b"another-host 1 1", b"", b"\x00\xff"])
def test_a_lock_file_that_nobody_holds_delays_nothing(tmp_path: Path, content: bytes) -> None:
    """Those of earlier versions, too, whatever their age."""
    cache, compiler = cache_in(tmp_path, timeout=30)
    lock_of(cache).write_bytes(content)
    start = time.monotonic()
    assert cache.get(SPEC) == artifact_of(SPEC)
    assert time.monotonic() - start < 5
    assert compiler.compiled == [SPEC.name]


def test_a_lock_that_is_not_released_delays_but_does_not_block(tmp_path: Path) -> None:
    cache, compiler = cache_in(tmp_path, timeout=0.2)
    with FileLock(lock_of(cache)):
        start = time.monotonic()
        assert cache.get(SPEC) == artifact_of(SPEC)
        assert 0.1 < time.monotonic() - start < 5
    assert compiler.compiled == [SPEC.name]
    # The private compile was published all the same.
    again, unused = cache_in(tmp_path)
    again.get(SPEC)
    assert unused.compiled == []


def test_waiting_ends_when_the_entry_appears(tmp_path: Path) -> None:
    cache, compiler = cache_in(tmp_path, timeout=30)
    path = cache.path_of(SPEC)
    assert path is not None
    made = artifact_of(SPEC)
    meta = {
        "kernel_name": made.kernel_name, "smem_bytes": made.smem_bytes, "threads": made.threads,
        "cluster": list(made.cluster),
    }  # fmt: skip
    stored = cache_files.StoredKernel(made.ptx, made.cubin, meta)
    with FileLock(lock_of(cache)):
        later = threading.Timer(0.2, write_entry, (path, kernel_key(SPEC), stored))
        later.start()
        assert cache.get(SPEC) == made
        later.join()
    assert compiler.compiled == []


def test_lock_is_exclusive_and_released(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    for _ in range(2):
        with publishing_lock(path, 1.0) as first:
            assert first
            with publishing_lock(path, 0.1) as second:
                assert not second


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / f"kernel{cache_files.SUFFIX}"
    stored = cache_files.StoredKernel("x" * 200_000, os.urandom(200_000), {})
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            write_entry(path, "key", stored)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = 0
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            try:
                assert read_entry(path, "key").cubin == stored.cubin
                seen += 1
            except FileNotFoundError:
                continue
    finally:
        stop.set()
        writer.join()
    assert seen > 3


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("fa4_cute.host.compile.cache_files.os.replace", refuse)
    stored = cache_files.StoredKernel("ptx", b"cubin", {})
    with pytest.raises(OSError, match="no"):
        write_entry(tmp_path / "kernel.fa4k", "key", stored)
    assert not list(tmp_path.iterdir())
