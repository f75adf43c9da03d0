"""Lines of PTX -> lines of the program that it was compiled from: `.loc` and `.file`.

PTX ISA, "Debugging Directives": an instruction belongs to the nearest `.loc` before it in its
function.  In inline assembly the compiler counts a line on for each line of the assembly, so what
it names there lies behind the statement of the program; these lines are counted back.  Nothing is
read before somebody asks, so that runs without findings pay nothing.
"""

from __future__ import annotations

import linecache
import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from .lexer import Source

_DIRECTIVE = re.compile(r'(?<![\w.$])\.(loc|file|entry|func)\b([^\n]*)|"[^"\n]*"', re.ASCII)
_FILE = re.compile(r'\s+(\d+)\s+"([^"\n]*)"', re.ASCII)
_LOC = re.compile(r"\s+(\d+)\s+(\d+)(?:\s+(\d+))?", re.ASCII)
_INLINED = re.compile(r"\binlined_at\s+(\d+)\s+(\d+)(?:\s+(\d+))?", re.ASCII)
_ASM: Final = re.compile(r"^[ \t]*// begin inline asm$.*?^[ \t]*// end inline asm$", re.M | re.S)
_ASM_LOC: Final = re.compile(r"\s*\.loc\b")
_MAX_CHAIN = 32
"""Calls that `inlined_at` is followed through."""


class _Point(NamedTuple):
    file: int
    line: int
    column: int


class _Located(NamedTuple):
    """A point, and where the function that holds it was called, if the `.loc` says so."""

    point: _Point
    caller: _Point | None


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line of the program that the PTX was compiled from.

    Attributes:
        file: path as the compiler wrote it; "file 3" when the PTX does not name it.
        line, column: 1-based; column 0 when the compiler gave none.
        text: the line without its indentation, or "" when the file cannot be read here.
        inlined_at: where the function that holds the line was called, if it was inlined.
    """

    file: str
    line: int
    column: int = 0
    text: str = ""
    inlined_at: SourcePlace | None = None

    def __str__(self) -> str:
        """`file:line: text`, and the calls around it."""
        shown = f"{self.file}:{self.line}"
        if self.text:
            shown += f": {self.text}"
        return shown if self.inlined_at is None else f"{shown} (inlined at {self.inlined_at})"


class Places:
    """Finds the source line of a PTX line, and its own text."""

    def __init__(self, ptx: str = "") -> None:
        """`ptx`: the module's text."""
        self._ptx = ptx

    def at(self, line: int) -> SourcePlace | None:
        """The place of the instruction at a 1-based PTX line, or None where no `.loc` names it."""
        lines, points = self._table
        # A directive ends its line, so it speaks of what follows on later lines only.
        before = bisect_left(lines, line) - 1
        found = points[before] if before >= 0 else None
        return None if found is None else self._place(*found, _MAX_CHAIN)

    def ptx_line(self, line: int) -> str:
        """The text of a 1-based PTX line; "" where there is none."""
        return self._lines[line - 1] if 0 < line <= len(self._lines) else ""

    @cached_property
    def _lines(self) -> list[str]:
        return self._ptx.split("\n")

    def __bool__(self) -> bool:
        return any(point is not None for point in self._table[1])

    def _place(self, point: _Point, caller: _Point | None, depth: int) -> SourcePlace:
        file = self._files.get(point.file, f"file {point.file}")
        around = None
        if caller is not None and depth:
            around = self._place(caller, self._callers.get(caller), depth - 1)
        text = linecache.getline(file, point.line).strip()
        return SourcePlace(file, point.line, point.column, text, around)

    @cached_property
    def _table(self) -> tuple[list[int], list[_Located | None]]:
        """PTX lines that begin something, ascending, and what holds after each."""
        lines: list[int] = []
        points: list[_Located | None] = []
        self._files: dict[int, str] = {}
        self._callers: dict[_Point, _Point] = {}
        if ".loc" not in self._ptx:
            return lines, points
        source = Source(self._ptx)
        inside = self._asm_lines(source)
        for found in _DIRECTIVE.finditer(source.text):
            kind, rest = found.groups()
            if kind == "file":
                self._file(rest)
            elif kind:
                line = source.line(found.start())
                lines.append(line)
                points.append(self._point(rest, inside.get(line, 0)) if kind == "loc" else None)
        return lines, points

    def _asm_lines(self, source: Source) -> dict[int, int]:
        """PTX line of each `.loc` in inline assembly -> lines of that assembly before it."""
        found = {}
        for block in _ASM.finditer(self._ptx):
            first, written = source.line(block.start()), 0
            for offset, row in enumerate(block[0].split("\n")[1:], 1):
                if _ASM_LOC.match(row):
                    found[first + offset] = written
                else:
                    written += 1
        return found

    def _file(self, rest: str) -> None:
        found = _FILE.match(rest)
        if found:
            self._files[int(found.group(1))] = found.group(2)

    def _point(self, rest: str, ahead: int) -> _Located | None:
        """The point that a `.loc` names, so many lines of inline assembly before it."""
        found = _LOC.match(rest)
        if not found or found.group(2) == "0":  # line 0: code that the compiler made itself
            return None
        point = _read(found)
        if point.line > ahead:
            point = point._replace(line=point.line - ahead)
        call = _INLINED.search(rest)
        if call is None:
            return _Located(point, None)
        # For calls around this one: a `.loc` of its own says where it was called itself.
        caller = self._callers[point] = _read(call)
        return _Located(point, caller)


def _read(found: re.Match[str]) -> _Point:
    file, line, column = (int(digits or 0) for digits in found.groups())
    return _Point(file, line, column)
