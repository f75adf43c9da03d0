"""Which compiled libraries are executed: whole ones, in folders that others cannot write to."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sm100sim.engine import cache
from sm100sim.engine.build import CompilerError, build_library

OTHER_USER = 65534
ROOT = os.geteuid() == 0
CONFIGURED = os.environ.get(cache.CACHE_VARIABLE)
"""What the tests run with; the fixture sets another value."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configured folder; the temporary one is of the test, too."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "deep" / "cache"))
    cache._last_resort.cache_clear()
    cache.warn_of.cache_clear()
    return tmp_path / "deep" / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "answer.c"
    file.write_text("int answer(void) { return 42; }\n")
    return file


def build(source: Path) -> Path:
    found = build_library("answer", [source])
    assert ctypes.CDLL(str(found)).answer() == 42
    return found


def put(path: Path, content: bytes) -> None:
    """Another file of that name; the old one may be mapped."""
    path.unlink()
    path.write_bytes(content)


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file be another user's."""
    if ROOT:
        os.lchown(path, OTHER_USER, OTHER_USER)
    else:
        mine = os.geteuid()
        monkeypatch.setattr("sm100sim.engine.cache.os.geteuid", lambda: mine + 1)


def test_it_is_found_again_without_a_compiler(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = build(source)
    monkeypatch.setenv("CC", "no-such-compiler")
    assert build(source) == found
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    assert build(source) == found


def test_the_engine_is_found_again_without_a_compiler() -> None:
    """In a new process, with the engine that this one has built or found."""
    from sm100sim.engine.binding import load_engine

    with pytest.MonkeyPatch.context() as patch:
        if CONFIGURED is None:
            patch.delenv(cache.CACHE_VARIABLE)
        else:
            patch.setenv(cache.CACHE_VARIABLE, CONFIGURED)
        library = Path(load_engine()._name)
    code = "from sm100sim.engine.binding import load_engine; print(load_engine()._name)"
    variables = {**os.environ, "CC": "no-such-compiler", cache.CACHE_VARIABLE: str(library.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(library)
    assert done.stderr == ""


def test_a_compilation_is_announced_in_one_line(
    source: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        build_library("answer", [source], announce="the answer")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("sm100sim: compiling the answer with ")
    assert line.endswith(f", once, into {folder}")


def test_a_silent_process_says_nothing(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    build_library("answer", [source], announce="the answer")


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda b: b[:3000], flipped], ids=["empty", "truncated", "flipped"]
)
def test_a_damaged_library_is_compiled_anew(
    source: Path, damage: Callable[[bytes], bytes]
) -> None:
    found = build(source)
    whole = found.read_bytes()
    put(found, damage(whole))
    again = build(source)
    assert again.parent == found.parent
    assert again.read_bytes() == whole


def test_a_damaged_object_is_not_linked(source: Path, folder: Path) -> None:
    found = build(source)
    found.unlink()
    (part,) = (folder / "objects").glob("*.o")
    put(part, b"")
    build(source)


def test_a_pipe_in_its_place_does_not_hang(source: Path) -> None:
    found = build(source)
    found.unlink()
    os.mkfifo(found)
    assert build(source) == found
    assert found.is_file()


def test_a_link_in_its_place_is_not_followed(source: Path, tmp_path: Path) -> None:
    found = build(source)
    elsewhere = tmp_path / "elsewhere.so"
    found.rename(elsewhere)
    found.symlink_to(elsewhere)
    assert build(source) == found
    assert not found.is_symlink()
    assert elsewhere.exists()


def test_a_folder_in_its_place_costs_a_temporary_one(source: Path, tmp_path: Path) -> None:
    found = build(source)
    found.unlink()
    found.mkdir()
    with pytest.warns(RuntimeWarning, match="SM100SIM_CACHE_DIR"):
        again = build(source)
    assert again.is_relative_to(tmp_path / "tmp")


def test_a_library_of_another_user_is_not_executed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = build(source)
    evil = tmp_path / "evil.c"
    evil.write_text(
        "#include <stdio.h>\nint answer(void) { return 42; }\n"
        f'__attribute__((constructor)) void run(void) {{ fclose(fopen("{tmp_path}/ran", "w")); }}\n'
    )
    planted = build_library("evil", [evil]).read_bytes()
    (tmp_path / "ran").unlink()
    stem, digest = found.stem.rpartition("-")[0], cache.digest_of(planted)
    found.unlink()
    trap = found.with_name(f"{stem}-{digest}.so")
    trap.write_bytes(planted)
    give_away(trap, monkeypatch)
    if not ROOT:  # then the folder is somebody else's, too
        with pytest.warns(RuntimeWarning, match="belongs to user"):
            build(source)
    else:
        build(source)
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_others_may_write_to_is_not_used(source: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o1777)
    with pytest.warns(RuntimeWarning, match=f"may be written by others .chmod go-w {folder}"):
        found = build(source)
    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700


def test_a_folder_of_another_user_is_not_used(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True, mode=0o700)
    give_away(folder, monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        assert build(source).parent != folder


@pytest.mark.parametrize("name", ["/proc/nope", "/dev/null/cache"])
def test_a_folder_that_cannot_be_had_costs_a_warning_and_a_temporary_one(
    source: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, name)
    with pytest.warns(RuntimeWarning, match=f"{name}, which .*Set SM100SIM_CACHE_DIR") as caught:
        found = build(source)
    assert len(caught) == 1
    assert found.parent == tmp_path / "tmp" / f"sm100sim-{os.geteuid()}"
    # A further process finds it there, and this one is not warned again.
    assert build(source) == found


def test_a_relative_folder_is_one_of_the_working_directory(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(cache.CACHE_VARIABLE, "here")
    assert build(source).parent == tmp_path / "here"


def test_without_a_home_directory_a_temporary_one_serves(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(cache.CACHE_VARIABLE)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/sm100sim"))
    with pytest.warns(RuntimeWarning, match="not below a home directory"):
        assert build(source).is_relative_to(tmp_path / "tmp")


def test_a_folder_without_execution_is_not_used(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs

    class NoExec:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr(
        "sm100sim.engine.cache.os.statvfs",
        lambda path: NoExec() if Path(path) == folder else real(path)
    )
    with pytest.warns(RuntimeWarning, match="is mounted noexec"):
        assert build(source).parent != folder


def test_a_prepared_temporary_folder_is_not_trusted(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, "/proc/nope")
    trap = tmp_path / "tmp" / f"sm100sim-{os.geteuid()}"
    trap.symlink_to(tmp_path)
    with pytest.warns(RuntimeWarning, match="proc"):
        found = build(source)
    assert found.parent.parent == tmp_path / "tmp"
    assert found.parent != trap
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700


def test_without_any_folder_the_variable_is_named(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "folders", lambda: iter([Path("/proc/nope")]))
    with (
        pytest.warns(RuntimeWarning, match="proc"),
        pytest.raises(CompilerError, match=r"no folder can hold the library.*SM100SIM_CACHE_DIR"),
    ):
        build(source)


def test_nobody_else_can_write_what_is_made(source: Path, folder: Path) -> None:
    before = os.umask(0)
    try:
        found = build(source)
    finally:
        os.umask(before)
    for path in (found, found.parent, folder.parent, *folder.iterdir()):
        assert not path.stat().st_mode & 0o022, path


def test_an_administrators_library_is_used_as_it_is(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root compiled it, for instance while an image was made; the folder cannot be written now."""
    found = build(source)
    if ROOT:
        monkeypatch.setattr("sm100sim.engine.cache.os.geteuid", lambda: 1000)
    folder.chmod(0o555)
    assert build(source) == found
