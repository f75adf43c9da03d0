"""Pages whose files are written, whose commands are run, and which print what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

from testing.site.markdown import BLOCK, ROOT

PROGRAMS = {
    "sm100sim": ["-m", "sm100sim"],
    "python": [],
    "pytest": ["-m", "pytest", "-p", "sm100sim.pytest_plugin", "-p", "no:cacheprovider"],
}


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it prints.

    Raises:
        ValueError: the block begins with something else.
    """
    first, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    if first:
        raise ValueError(f"not a command: {first}")
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


def follow(page: Path, folder: Path, without: Collection[str] = ()) -> int:
    """Write the files of a page and run its commands, in order; returns how many.

    Args:
        without: programs that are not here: blocks that name one are left out.

    Raises:
        AssertionError: a command prints something else; has the command, the first line that is
            not there, and the output.
    """
    ran = 0
    for kind, name, text in BLOCK.findall(page.read_text()):
        if name:
            (folder / name).write_text(text)
        elif kind == "console" and not any(program in text for program in without):
            for command, expected in commands(text):
                found = printed(command, folder)
                line = differs(expected, found)
                if line:
                    raise AssertionError("\n".join([command, f"expected: {line}", *found]))
                ran += 1
    return ran
