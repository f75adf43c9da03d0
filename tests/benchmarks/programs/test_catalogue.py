"""The lists of programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.programs.catalogue import projects, read

LIST = """
project = "owner/name"
revision = "1234567"
language = "CUDA C++"
rule = "all"
built = "nvcc"
[common]
flags = "-O3"
right = "PASS"
[programs]
one = { file = "one.cu" }
two = { file = "two.cu", flags = "-lcuda", right = "", arguments = "8 1" }
"""


def test_the_lists_are_readable_and_name_a_program_once() -> None:
    found = projects()
    assert len({project.name for project in found}) == len(found)
    assert sum(len(project.programs) for project in found) > 200


def test_a_program_adds_its_flags_and_replaces_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(LIST)
    one, two = read(tmp_path / "a.toml").programs
    assert (one.flags, one.right, one.arguments) == (("-O3",), "PASS", ())
    assert (two.flags, two.right, two.arguments) == (("-O3", "-lcuda"), "", ("8", "1"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [('fil = "x"', "fil: expected"), ('file = "x", state = "fine"', "state 'fine'")],
)
def test_what_it_refuses(tmp_path: Path, entry: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(LIST + f"three = {{ {entry} }}\n")
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.toml")
