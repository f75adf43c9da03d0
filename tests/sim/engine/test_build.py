from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sm100sim.engine import cache
from sm100sim.engine.build import CompilerError, build_library


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "answer.c"
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    file.write_text('#include "answer.h"\nint answer(void) { return ANSWER; }\n')
    return file


def answer(path: Path) -> int:
    return int(ctypes.CDLL(str(path)).answer())


def test_builds_a_library_that_works_and_finds_it_again(source: Path) -> None:
    first = build_library("answer", [source])
    stamp = first.stat().st_mtime_ns
    assert answer(first) == 42
    assert build_library("answer", [source]) == first
    assert first.stat().st_mtime_ns == stamp


def test_a_changed_source_header_or_flag_gives_another_library(source: Path) -> None:
    first = build_library("answer", [source])
    source.with_suffix(".h").write_text("#define ANSWER 43\n")
    second = build_library("answer", [source])
    third = build_library("answer", [source], ["-O1", "-DANSWERED"])
    assert len({first, second, third}) == 3
    assert answer(second) == 43


def test_two_sources_are_linked_together(source: Path) -> None:
    other = source.with_name("twice.c")
    other.write_text("int answer(void);\nint twice(void) { return 2 * answer(); }\n")
    assert ctypes.CDLL(str(build_library("pair", [source, other]))).twice() == 84


def test_a_refused_source_shows_the_command_and_the_compilers_words(source: Path) -> None:
    source.write_text("int broken(void) { return missing_name; }\n")
    with pytest.raises(CompilerError) as caught:
        build_library("broken", [source])
    assert "missing_name" in str(caught.value)
    assert str(source) in str(caught.value)
    assert "-shared" in str(caught.value) or "-c" in str(caught.value)


def test_a_failed_build_leaves_no_partial_file(source: Path, private_cache: Path) -> None:
    source.write_text("#error no\n")
    with pytest.raises(CompilerError):
        build_library("broken", [source])
    assert not list(private_cache.rglob("*.partial"))
    assert not list(private_cache.rglob("*.so"))


def test_sources_that_change_while_they_are_compiled_are_not_kept(
    source: Path, tmp_path: Path, private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, header = tmp_path / "slow-cc", source.with_suffix(".h")
    change = f'case "$*" in *" -c "*) echo "#define ANSWER 43" > {header};; esac'
    slow.write_text(f'#!/bin/sh\ncc "$@" && {change}\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CC", str(slow))
    with pytest.raises(CompilerError, match=r"answer-.*\.o changed meanwhile: call again"):
        build_library("answer", [source])
    assert not [*private_cache.rglob("*.o"), *private_cache.rglob("*.so")]
    assert answer(build_library("answer", [source])) == 43


def test_no_compiler_is_a_clear_error(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match=r"needs a C compiler.*no-such-compiler"):
        build_library("answer", [source])


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match=r"nowhere\.c"):
        build_library("answer", [tmp_path / "nowhere.c"])


def test_parallel_builds_agree_on_one_complete_file(source: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: build_library("answer", [source]), range(8)))
    assert len(paths) == 1
    assert answer(paths.pop()) == 42


def test_the_cache_is_per_user_when_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join(os.sep, "somewhere"))
    assert cache.cache_dir() == Path(os.sep, "somewhere", "sm100sim")
