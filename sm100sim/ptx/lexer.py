"""Source text without comments, cut into statements, with a line for every position.

Comments become blanks of the same length, so a position in the clean text is one in the file
(PTX ISA, "Source Format").
"""

from __future__ import annotations

import re
from bisect import bisect_right

from .errors import PtxError, SourceLine, Unsupported, find_token

_STRING = r'"[^"\n]*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/|/\*", re.S)
_SPACE = re.compile(r"\s*", re.ASCII)
_STATEMENT = re.compile(
    rf'[^;{{}}"]+(?:{_STRING}[^;{{}}"]*)*(?:\{{[^{{}};"]*\}}[^;{{}}"]*)*;'
)  # fmt: skip
_BRACE_OR_STRING = re.compile(rf"[{{}}]|{_STRING}")
_NOT_NEWLINE = re.compile(r"[^\n]")
_DEBUG_LINE = re.compile(r"\.(?:loc|file)\s[^\n]*", re.ASCII)


class Source:
    """PTX text under a position-based reader.

    Attributes:
        text: the source with comments blanked out.
        lines: the source's lines as written.
    """

    def __init__(self, source: str) -> None:
        """Blank the comments.

        Raises:
            PtxError: a `/*` is not closed.
        """
        self.lines = source.split("\n")
        self._starts = [0, *(m.end() for m in re.finditer("\n", source))]
        self.text = source
        if "/" in source:
            self.text = _COMMENT.sub(self._blank, source)

    def _blank(self, found: re.Match[str]) -> str:
        piece = found.group()
        if piece[0] == '"':
            return piece
        if piece == "/*":
            raise self.error(found.start(), "comment is not closed")
        return _NOT_NEWLINE.sub(" ", piece)

    def line(self, position: int) -> int:
        """1-based line of a position."""
        return bisect_right(self._starts, position)

    def place(self, position: int) -> SourceLine:
        """The source line that holds `position`."""
        number = self.line(position)
        return SourceLine(number, self.lines[number - 1])

    def error(self, position: int, what: str, token: str = "") -> PtxError:
        """An error at `position`, or at the first `token` from there on."""
        if token:
            found = find_token(self.text, token, position)
            position = found if found >= 0 else position
        number, text = self.place(position)
        return PtxError(number, text, what, position - self._starts[number - 1])

    def unsupported(self, position: int, what: str, token: str = "") -> Unsupported:
        """A construct at `position` that can be read but has no meaning here."""
        return Unsupported(self.place(position), what, token)

    def skip_space(self, position: int) -> int:
        """First position from `position` on that is no white space."""
        found = _SPACE.match(self.text, position)
        assert found is not None  # the pattern matches the empty string
        return found.end()

    def debug_line(self, position: int) -> int:
        """Position after a `.loc` or `.file`, which end with their line, or -1.

        Raises:
            PtxError: a string is not closed.
        """
        found = _DEBUG_LINE.match(self.text, position)
        if found and found.group().count('"') % 2:
            raise self.error(position, "string is not closed", '"')
        return found.end() if found else -1

    def statement(self, position: int) -> str:
        """The statement at `position` up to its `;`, which is included.

        Raises:
            PtxError: there is none.
        """
        found = _STATEMENT.match(self.text, position)
        if not found:
            raise self.error(position, "statement does not end with ';'")
        return found.group()

    def closing(self, position: int) -> int:
        """Position after the brace that closes the one at `position`.

        Raises:
            PtxError: the brace is not closed.
        """
        depth = 0
        for found in _BRACE_OR_STRING.finditer(self.text, position):
            depth += {"{": 1, "}": -1}.get(found.group(), 0)
            if depth == 0:
                return found.end()
        raise self.error(position, "brace is not closed")
