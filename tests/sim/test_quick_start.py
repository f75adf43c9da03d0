"""The quick start: its files are written, its commands are run, and they print what it says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quick_start.md"
BLOCK = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "sm100sim": ["-m", "sm100sim"],
    "python": [],
    "pytest": ["-m", "pytest", "-p", "sm100sim.pytest_plugin", "-p", "no:cacheprovider"],
}


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it prints."""
    first, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not first
    return [(part.split("\n")[0], part.split("\n")[1:-1]) for part in parts]


def printed(command: str, folder: Path) -> list[str]:
    """What a command prints on both streams, and its exit code where that is not 0."""
    program, *words = shlex.split(command)
    words = ["-c", command] if program not in PROGRAMS else [*PROGRAMS[program], *words]
    done = subprocess.run(
        ["sh" if program not in PROGRAMS else sys.executable, *words], cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    end = [f"[exit code {done.returncode}]"] if done.returncode else []
    return [*done.stdout.splitlines(), *end]


def differs(expected: list[str], found: list[str]) -> str:
    """The first expected line that is not there; a line of dots stands for any lines."""
    rest = list(found)
    skip = False
    for line in expected:
        if line == "...":
            skip = True
            continue
        pattern = re.sub(r"([\[\]?*])", r"[\1]", line).replace("...", "*")
        at = next((k for k, one in enumerate(rest) if fnmatchcase(one, pattern)), -1)
        if at < 0 or (at and not skip):
            return line
        rest, skip = rest[at + 1 :], False
    return "" if skip or not rest else f"nothing more, but: {rest[0]}"


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    ran = 0
    without = "nvcc" if shutil.which("nvcc") is None else "no program"
    for kind, name, text in BLOCK.findall(PAGE.read_text()):
        if name:
            (tmp_path / name).write_text(text)
        elif kind == "console" and without not in text:
            for command, expected in commands(text):
                found = printed(command, tmp_path)
                assert not differs(expected, found), "\n".join([command, *found])
                ran += 1
    assert ran == (10 if without == "no program" else 8)
    assert (tmp_path / "flag.sarif").stat().st_size


def test_every_block_is_a_file_or_a_command() -> None:
    kinds = [(kind, bool(name)) for kind, name, _ in BLOCK.findall(PAGE.read_text())]
    files = {("python", True), ("cpp", True), ("toml", True)}
    assert set(kinds) == files | {("console", False), ("", False)}
    assert kinds.count(("", False)) == 1, "the installation"


def test_other_output_is_noticed() -> None:
    found = ["a 1", "b [2]", "c 3"]
    for expected in (found, ["...", "b [2]", "..."], ["a ...", "...", "c 3"], ["a 1", "..."]):
        assert differs(expected, found) == ""
    assert differs(["b [2]", "..."], found) == "b [2]"
    assert differs(["a 1", "c 3"], found) == "c 3"
    assert differs(["a 1"], found) == "nothing more, but: b [2]"
    assert differs(["...", "d"], found) == "d"
