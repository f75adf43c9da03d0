"""Findings that somebody has looked at and accepted, each with a reason: suppressions in TOML.

    [[suppress]]
    code = "race-global"                # required; the finding's code
    reason = "all writers store 1"      # required; reports show it
    kernel = "*_histogram_*"            # a pattern of the kernel's name; all kernels when not given
    file = "histogram.py"               # a pattern of the path, or of its end
    line = 42                           # in that file
    ptx = "red.global.add"              # text within the PTX line

A finding with two places is covered if one of them fits. Faults are never covered, because whatever
follows a fault did not run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..events import Finding
from ..ptx.places import SourcePlace

TABLE = "suppress"


@dataclass(frozen=True)
class Suppression:
    """Which findings are accepted, and why.

    Attributes:
        code: the finding's code.
        reason: why it is accepted, for people.
        kernel: pattern of the kernel's name (`fnmatch`).
        file: pattern of the source file's path, or of the end of it; "" for any.
        line: line in that file; 0 for any.
        ptx: text that the PTX line contains; "" for any.
        origin: file and number of the entry.
    """

    code: str
    reason: str
    kernel: str = "*"
    file: str = ""
    line: int = 0
    ptx: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        place = f"{self.origin}: " if self.origin else ""
        for field in fields(self):
            value, kind = getattr(self, field.name), int if field.name == "line" else str
            if not isinstance(value, kind) or isinstance(value, bool):
                raise TypeError(f"{place}{field.name}: {value!r} is no {_KINDS[kind]}")
        for name in ("code", "reason"):
            if not getattr(self, name).strip():
                raise ValueError(
                    f"{place}{name}: is required; say which finding, and why it is fine"
                )
        if self.line < 0 or (self.line and not self.file):
            raise ValueError(f"{place}line: {self.line} needs `file`, and lines count from 1")

    def __str__(self) -> str:
        said = [f"kernel {self.kernel}" if self.kernel != "*" else ""]
        said += [f"{self.file}:{self.line}" if self.line else self.file]
        said += [f"PTX {self.ptx!r}" if self.ptx else ""]
        where = ", ".join(text for text in said if text)
        place = f"{self.origin}: " if self.origin else ""
        return f"{place}{self.code}{f' ({where})' if where else ''}: {self.reason}"

    def covers(self, kernel: str, finding: Finding) -> bool:
        """Whether it accepts a finding of a kernel."""
        if finding.fatal or finding.code != self.code or not fnmatchcase(kernel, self.kernel):
            return False
        sides = ((finding.place, finding.source), (finding.place2, finding.source2))
        return any(self._at(place, source) for place, source in sides)

    def _at(self, place: SourcePlace | None, source: str) -> bool:
        if self.ptx not in source:
            return False
        return not self.file or any(
            fnmatchcase(spot.file, pattern) and self.line in (0, spot.line)
            for spot in _with_callers(place)
            for pattern in (self.file, f"*/{self.file}")
        )


_KINDS = {int: "whole number", str: "text"}


class Suppressed(NamedTuple):
    """A finding and the suppression that accepts it."""

    finding: Finding
    by: Suppression


class HasSuppressed(Protocol):
    """A report."""

    @property
    def suppressed(self) -> Sequence[Suppressed]:
        """What was found and accepted."""


def _with_callers(place: SourcePlace | None) -> Iterator[SourcePlace]:
    while place is not None:
        yield place
        place = place.inlined_at


def read(path: str | Path) -> tuple[Suppression, ...]:
    """The suppressions of a TOML file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not TOML, or an entry is not understood; names the entry.
        TypeError: a value is of the wrong kind; names the entry.
    """
    try:
        document = tomllib.loads(Path(path).read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    unknown = [name for name in document if name != TABLE]
    entries = document.get(TABLE, [])
    if unknown or not isinstance(entries, list):
        what = f"{unknown[0]!r} is not known" if unknown else "one table"
        raise ValueError(f"{path}: {what}; expected entries [[{TABLE}]]")
    return tuple(_entry(f"{path}, entry {k}", entry) for k, entry in enumerate(entries, 1))


def _entry(origin: str, entry: dict[str, Any]) -> Suppression:
    known = [field.name for field in fields(Suppression) if field.name != "origin"]
    for name in entry:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
            raise ValueError(f"{origin}: {name!r} is not known; {hint}")
    given = {"code": "", "reason": "", **entry}
    return Suppression(**given, origin=origin)


def suppressions_of(value: Any) -> tuple[Suppression, ...]:
    """The suppressions that a value names: a path, a `Suppression`, or several of them.

    Raises:
        TypeError: it is none of these.
        ValueError: an entry of a file is not understood.
        OSError: a file cannot be read.
    """
    if isinstance(value, Suppression):
        return (value,)
    if isinstance(value, str | Path):
        return read(value)
    if isinstance(value, Iterable):
        return tuple(rule for item in value for rule in suppressions_of(item))
    kind = type(value).__name__
    raise TypeError(f"suppressions: {kind} given; give the path of a TOML file, or a Suppression")


def divided(
    rules: Sequence[Suppression], kernel: str, findings: Iterable[Finding]
) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
    """The findings that remain, and those that a rule accepts, with the first such rule."""
    remaining, accepted = [], []
    for finding in findings:
        rule = next((rule for rule in rules if rule.covers(kernel, finding)), None)
        if rule is None:
            remaining.append(finding)
        else:
            accepted.append(Suppressed(finding, rule))
    return tuple(remaining), tuple(accepted)


def unused(rules: Iterable[Suppression], reports: Iterable[HasSuppressed]) -> list[Suppression]:
    """The rules that accepted nothing in these reports."""
    used = {accepted.by for report in reports for accepted in report.suppressed}
    return [rule for rule in dict.fromkeys(rules) if rule not in used]
