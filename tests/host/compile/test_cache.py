"""Kernels come from memory, from disk or from the compiler; damage and full disks are survived."""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import fa4_cute
from fa4_cute.host.ask.described import described
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.host.compile import cache as cache_module
from fa4_cute.host.compile.cache import KernelCache
from fa4_cute.host.compile.cache_files import LOCK_SUFFIX, publishing_lock
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.compile.settings import Settings
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.combine_spec import CombineSpec
from tests.host.compilers import OTHER, SPEC, CountingCompiler, artifact_of


def new_cache(
    directory: Path | None, compiler: CountingCompiler, timeout: float = 20.0
) -> KernelCache:
    """A cache as a new process would have it."""
    return KernelCache(Settings(directory, timeout), compiler)


def test_memory_then_disk_then_compiler(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    first = new_cache(tmp_path, compiler)
    artifact = first.get(SPEC)
    assert first.get(SPEC) is artifact
    second = new_cache(tmp_path, compiler)
    assert second.get(SPEC) == artifact == artifact_of(SPEC)
    assert compiler.compiled == [SPEC.name]
    info = first.info()
    assert (info.compiles, info.disk_hits, info.memory_hits, info.in_memory) == (1, 0, 1, 1)
    info = second.info()
    assert (info.compiles, info.disk_hits, info.memory_hits, info.in_memory) == (0, 1, 0, 1)
    assert info.directory == str(tmp_path)
    assert info.files == 1
    path = second.path_of(SPEC)
    assert path is not None
    assert info.bytes == path.stat().st_size


def test_specifications_do_not_mix(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    cache = new_cache(tmp_path, compiler)
    assert cache.get(SPEC) == artifact_of(SPEC)
    assert cache.get(OTHER) == artifact_of(OTHER)
    assert cache.info().files == 2


def test_without_directory_only_memory_is_used() -> None:
    compiler = CountingCompiler()
    cache = new_cache(None, compiler)
    cache.get(SPEC)
    cache.get(SPEC)
    assert compiler.compiled == [SPEC.name]
    info = cache.info()
    assert (info.directory, info.files, info.bytes) == (None, 0, 0)


def test_clear_removes_files_memory_and_leftovers(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    cache = new_cache(tmp_path, compiler)
    cache.get(SPEC)
    cache.get(OTHER)
    path = cache.path_of(SPEC)
    assert path is not None
    path.with_name(path.name + ".lock").write_text("left behind")
    path.with_name(f".{path.name}.abc").write_text("left behind")
    (tmp_path / "notes.txt").write_text("somebody else's")
    assert cache.clear() == 2
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    assert cache.info().in_memory == 0
    cache.get(SPEC)
    assert len(compiler.compiled) == 3


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "other kernel", "text"])
def test_damaged_files_are_compiled_anew(tmp_path: Path, damage: str) -> None:
    compiler = CountingCompiler()
    cache = new_cache(tmp_path, compiler)
    cache.get(SPEC)
    cache.get(OTHER)
    path, other = cache.path_of(SPEC), cache.path_of(OTHER)
    assert path is not None
    assert other is not None
    content = path.read_bytes()
    if damage == "other kernel":
        shutil.copy(other, path)
    else:
        middle = len(content) // 2
        path.write_bytes(
            {
                "truncated": content[:middle],
                "flipped": content[:middle]
                + bytes([content[middle] ^ 0x40])
                + content[middle + 1 :],
                "empty": b"",
                "text": b"not a kernel\n" * 100,
            }[damage]
        )
    again = new_cache(tmp_path, compiler)
    assert again.get(SPEC) == artifact_of(SPEC)
    assert again.info().corrupt == 1
    assert compiler.compiled == [SPEC.name, OTHER.name, SPEC.name]
    # The file was repaired.
    assert new_cache(tmp_path, compiler).get(SPEC) == artifact_of(SPEC)
    assert len(compiler.compiled) == 3


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    cache = new_cache(tmp_path, compiler)
    cache.get(SPEC)
    path = cache.path_of(SPEC)
    assert path is not None
    content = path.read_bytes()
    for at in range(0, len(content), max(1, len(content) // 97)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        assert new_cache(tmp_path, compiler).get(SPEC) == artifact_of(SPEC)


def unusable_directories(tmp_path: Path) -> dict[str, Path]:
    file = tmp_path / "file"
    file.write_text("in the way")
    return {"a file": file, "below a file": file / "below", "no such device": Path("/dev/null/x")}


@pytest.mark.parametrize("kind", ["a file", "below a file", "no such device"])
def test_unusable_directory_degrades_to_memory_with_one_warning(tmp_path: Path, kind: str) -> None:
    compiler = CountingCompiler()
    cache = new_cache(unusable_directories(tmp_path)[kind], compiler)
    with pytest.warns(RuntimeWarning, match="in memory only.*FA4_CUTE_CACHE_DIR") as warned:
        found = [cache.get(spec) for spec in (SPEC, OTHER, SPEC)]
    assert found == [artifact_of(spec) for spec in (SPEC, OTHER, SPEC)]
    assert len(warned) == 1
    assert compiler.compiled == [SPEC.name, OTHER.name]
    assert cache.info().directory is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_directory_degrades_to_memory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.warns(RuntimeWarning, match="in memory only"):
        new_cache(tmp_path, CountingCompiler()).get(SPEC)


def test_full_disk_degrades_to_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fa4_cute.host.compile.cache_files.write_entry", full)
    compiler = CountingCompiler()
    cache = new_cache(tmp_path, compiler)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert cache.get(SPEC) == artifact_of(SPEC)
    assert compiler.compiled == [SPEC.name]
    assert_nothing_stays(cache, tmp_path)


def assert_nothing_stays(cache: KernelCache, directory: Path) -> None:
    """No file but the lock's, and that lock is free."""
    path = cache.path_of(SPEC)
    assert path is not None
    assert {file.name for file in directory.iterdir()} <= {path.name + LOCK_SUFFIX}
    with publishing_lock(path, 0.0) as held:
        assert held, "the lock is released"


def test_errors_of_the_compiler_are_passed_on(tmp_path: Path) -> None:
    def failing(spec: AttentionSpec | CombineSpec) -> CompiledArtifact:
        raise OSError("libnvvm not found")

    cache = KernelCache(Settings(tmp_path, 1.0), failing)
    for _ in range(2):
        with pytest.raises(OSError, match="libnvvm"):
            cache.get(SPEC)
    assert_nothing_stays(cache, tmp_path)
    assert cache.info().directory is not None


@pytest.mark.parametrize("head_dim", [64, 256])
def test_errors_of_the_compiler_say_how_to_repeat_them(tmp_path: Path, head_dim: int) -> None:
    def failing(spec: AttentionSpec | CombineSpec) -> CompiledArtifact:
        raise RuntimeError("MLIR says no")

    choice = choose(Problem("fp16", 1, 9, 9, 6, 2, head_dim, head_dim, True, None, True))
    assert isinstance(choice, Choice)
    with pytest.raises(RuntimeError, match="MLIR says no") as caught:
        KernelCache(Settings(tmp_path, 1.0), failing).get(choice.spec)
    (note,) = caught.value.__notes__
    assert choice.spec.name in note
    assert "nvidia-cutlass-dsl 4." in note
    command = re.search(r'python -c "(.*)"', note)
    assert command
    asked: list[object] = []
    warmup = SimpleNamespace(warmup=asked.extend)
    exec(command[1].replace("import fa4_cute; ", ""), {"fa4_cute": warmup})
    (problem,) = asked
    assert isinstance(problem, dict)
    again = choose(described(**problem))
    assert isinstance(again, Choice)
    assert again.spec == choice.spec


def test_threads_compile_once(tmp_path: Path) -> None:
    compiler = CountingCompiler(seconds=0.05)
    cache = new_cache(tmp_path, compiler)
    found: list[CompiledArtifact] = []
    threads = [threading.Thread(target=lambda: found.append(cache.get(SPEC))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiler.compiled == [SPEC.name]
    assert len({id(artifact) for artifact in found}) == 1


def test_settings_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FA4_CUTE_CACHE_DIR", str(tmp_path / "a"))
    assert fa4_cute.cache_info().directory == str(tmp_path / "a")
    monkeypatch.setenv("FA4_CUTE_CACHE_DIR", str(tmp_path / "b"))
    assert fa4_cute.cache_info().directory == str(tmp_path / "b")
    monkeypatch.setenv("FA4_CUTE_CACHE", "0")
    assert fa4_cute.cache_info().directory is None
    assert fa4_cute.clear_cache() == 0


def test_without_a_compiler_a_kernel_from_elsewhere_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = CountingCompiler()
    new_cache(tmp_path, compiler).get(SPEC)
    # Another version of Python has another key.
    monkeypatch.setattr(cache_module, "kernel_key", lambda spec: "0" * 64)
    monkeypatch.setattr(cache_module, "has_compiler", lambda: False)
    here = new_cache(tmp_path, compiler)
    assert here.get(SPEC) == artifact_of(SPEC)
    assert here.info().disk_hits == 1
    here.get(OTHER)
    assert compiler.compiled == [SPEC.name, OTHER.name]
    monkeypatch.setattr(cache_module, "source_hash", lambda: "other sources")
    new_cache(tmp_path, compiler).get(SPEC)
    assert compiler.compiled == [SPEC.name, OTHER.name, SPEC.name]
