"""Errors of the PTX front end: each names the line and shows what was not understood."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .program import Instr


class PtxError(ValueError):
    """PTX text that cannot be read.

    Attributes:
        line: 1-based line number.
        text: the source line or statement.
        what: what was not understood.
    """

    def __init__(self, line: int, text: str, what: str) -> None:
        self.line, self.text, self.what = line, text, what
        super().__init__(f"PTX line {line}: {what}\n    {text.strip()}")


class Unsupported(PtxError):
    """Valid or plausible PTX whose meaning is not defined here: the run stops rather than guesses."""

    def __init__(self, ins: Instr, what: str) -> None:
        super().__init__(ins.line, ins.text, what)
