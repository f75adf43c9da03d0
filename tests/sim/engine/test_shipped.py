"""Libraries of a wheel: which one a processor gets, and when none fits."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from sm100sim.engine import shipped
from sm100sim.engine.build import find_compiler
from sm100sim.libraries import Library

V2 = shipped.REQUIRED["x86-64-v2"]
V3 = V2 | shipped.REQUIRED["x86-64-v3"]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A library of one function."""
    source = tmp_path / "answer.c"
    source.write_text("int answer(void) { return 42; }\n")
    return Library("answer", (source,), ("-O1", "-shared", "-fPIC"))


def test_a_processor_gets_the_best_level_that_it_has() -> None:
    assert shipped.levels_of(V3 | {"avx512f"}) == ["x86-64-v3", "x86-64-v2"]
    assert shipped.levels_of(V3 - {"fma"}) == ["x86-64-v2"]
    assert shipped.levels_of(V2 - {"popcnt"}) == []
    # Without what v2 needs, what v3 adds does not help.
    assert shipped.levels_of(V3 - {"ssse3"}) == []


def test_a_processor_can_do_what_all_its_cores_can_do(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("flags\t\t: fma avx\nmodel\t: 1\nflags\t\t: avx bmi1\n")
    assert shipped.processor_flags(path) == {"avx"}
    assert shipped.processor_flags(tmp_path / "none") == frozenset()


def test_a_shipped_library_is_found_while_its_sources_are_the_same(
    library: Library, tmp_path: Path
) -> None:
    folder = tmp_path / "lib"
    assert shipped.shipped_library(library, folder) is None
    files = list(shipped.compile_levels(library, folder, find_compiler()))
    assert [path.name.rpartition("-")[0] for path in files] == [
        "answer-x86-64-v3", "answer-x86-64-v2",
    ]  # fmt: skip
    found = shipped.shipped_library(library, folder)
    assert found == files[shipped.LEVELS.index(shipped.levels_of(shipped.processor_flags())[0])]
    assert ctypes.CDLL(str(found)).answer() == 42
    library.files[0].write_text("int answer(void) { return 43; }\n")
    assert shipped.shipped_library(library, folder) is None


def test_a_processor_of_no_level_gets_the_compiled_one(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lib"
    list(shipped.compile_levels(library, folder, find_compiler()))
    monkeypatch.setattr(shipped, "FOLDER", folder)
    monkeypatch.setattr(shipped, "processor_flags", lambda: frozenset({"sse4_1"}))
    monkeypatch.setenv("SM100SIM_CACHE_DIR", str(tmp_path / "cache"))
    assert shipped.find_library(library).is_relative_to(tmp_path / "cache")
