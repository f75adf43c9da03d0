"""Which programs there are: one TOML file in ``lists`` for each project."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

LISTS: Final = Path(__file__).with_name("lists")
STATES: Final = ("right", "runs", "wrong", "faulty", "unsupported", "long", "unbuilt")
"""What becomes of a program; :func:`benchmarks.programs.judge.state` says which."""


@dataclass(frozen=True)
class Program:
    """One program of a project. What its own entry does not say, the project's does.

    Attributes:
        name: unique in its project.
        file: path in the project's copy; below ``site-packages`` if the project is a package.
        also: further source files.
        flags: of the compiler.
        arguments: of the program.
        right: regular expression that its output has to match; "" where it only has to end well.
        wrong: regular expression that its output must not match.
        expected: texts that its output has to hold, whatever space is between their words: results
            that follow from its source, for programs that print them and do not judge.
        reference: flags with which the same source becomes a program for the host, whose output
            has to be the same; "" for programs that judge themselves.
        image: a source and the PTX or fat binary that it becomes, which the program loads.
        language: where it is not the project's.
        folder: where it is run, in the project's copy; "" for that of its file.
        provokes: codes of faults that the program causes on purpose.
        state: one of ``STATES`` for a program that is known not to be right, else "".
        why: what is known about that.
    """

    name: str
    file: str
    also: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    right: str = ""
    wrong: str = ""
    expected: tuple[str, ...] = ()
    reference: str = ""
    image: tuple[str, ...] = ()
    language: str = ""
    folder: str = ""
    provokes: tuple[str, ...] = ()
    state: str = ""
    why: str = ""


@dataclass(frozen=True)
class Project:
    """A repository or a package.

    Attributes:
        name: "owner/name" of the repository.
        revision: commit of the repository, or version of the package.
        language: what its kernels are written in.
        rule: which of its programs are here.
        built: "nvcc", "mojo", "script" or "pytest".
        packages: what its environment needs, as pip is told; scripts of a project with packages run
            in that environment.
        packaged: its files are those of the package, not of a repository.
        programs: in the order of the list.
    """

    name: str
    revision: str
    language: str
    rule: str
    built: str
    packages: tuple[str, ...]
    packaged: bool
    programs: tuple[Program, ...]

    @property
    def folder(self) -> str:
        """The name as one word."""
        return self.name.replace("/", "+").replace(" ", "")

    @property
    def repository(self) -> str:
        """The folder of its copy; a list of a part of a repository says which part in brackets."""
        return self.name.partition(" ")[0].replace("/", "+")


_WORDS: Final = ("flags", "arguments", "also", "image", "provokes")
_KNOWN: Final = {field.name for field in fields(Program)}


def _program(name: str, entry: Mapping[str, Any], common: Mapping[str, Any]) -> Program:
    given = {**common, **entry, "name": name}
    unknown = given.keys() - _KNOWN
    if unknown:
        raise ValueError(f"{name}: {', '.join(sorted(unknown))}: expected {sorted(_KNOWN)}")
    for key in _WORDS:
        own = str(given.get(key, "")).split()
        shared = str(common.get(key, "")).split() if key == "flags" and key in entry else []
        given[key] = (*shared, *own)
    given["expected"] = tuple(given.get("expected", ()))
    if given.get("state", "") not in ("", *STATES):
        raise ValueError(f"{name}: state {given['state']!r}: expected one of {', '.join(STATES)}")
    return Program(**given)


def read(path: Path) -> Project:
    """One list.

    Raises:
        ValueError: an entry has a key or a state that does not exist; names it.
    """
    table = tomllib.loads(path.read_text())
    common = table.get("common", {})
    programs = (_program(name, entry, common) for name, entry in table["programs"].items())
    return Project(
        name=table["project"],
        revision=table["revision"],
        language=table["language"],
        rule=table["rule"],
        built=table["built"],
        packages=tuple(table.get("packages", ())),
        packaged=table.get("packaged", False),
        programs=tuple(programs),
    )


def projects() -> list[Project]:
    """All lists, by their file names."""
    return [read(path) for path in sorted(LISTS.glob("*.toml"))]
