"""Errors of the PTX front end: each names the line and shows what was not understood."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol


class Located(Protocol):
    """Anything with a place in the source: an instruction, a `SourceLine`."""

    @property
    def line(self) -> int:
        """1-based line number."""

    @property
    def text(self) -> str:
        """The source line or statement."""


class SourceLine(NamedTuple):
    """A line of PTX: 1-based number and text."""

    line: int
    text: str


def find_token(text: str, token: str, start: int = 0) -> int:
    """Position of `token` in `text` where it is no part of a longer name, else -1."""
    before = r"(?<![\w$%.])" if re.match(r"[\w$%]", token) else ""
    after = r"(?![\w$])" if re.search(r"[\w$]\Z", token) else ""
    found = re.compile(before + re.escape(token) + after).search(text, start)
    return found.start() if found else -1


def _shown(text: str, column: int) -> str:
    """The line of `text` that holds `column`, indented, with a caret below when column >= 0."""
    if column < 0:
        return f"    {text.strip()}"
    start = text.rfind("\n", 0, column) + 1
    line = text[start:].split("\n", 1)[0].rstrip()
    lead = len(line) - len(line.lstrip())
    caret = re.sub(r"[^\t]", " ", line[lead : column - start])
    return f"    {line.lstrip()}\n    {caret}^"


class PtxError(ValueError):
    """PTX text that cannot be read.

    Attributes:
        line: 1-based line number.
        text: the source line or statement.
        what: what was not understood.
        column: 0-based position in `text` of the part that was not understood, or -1.
    """

    def __init__(self, line: int, text: str, what: str, column: int = -1) -> None:
        """Compose the message from the place, the reason and the source with a caret."""
        self.line, self.text, self.what, self.column = line, text, what, column
        super().__init__(f"PTX line {line}: {what}\n{_shown(text, column)}")


class Unsupported(PtxError):
    """PTX whose meaning is not defined here: the run stops rather than guesses."""

    def __init__(self, place: Located, what: str, token: str = "") -> None:
        """`token`: the part of the text to point at."""
        column = find_token(place.text, token) if token else -1
        super().__init__(place.line, place.text, what, column)
