"""Call sequences: the operands of `call` and the tables that it names (PTX ISA, "call")."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .declarations import signature
from .lexer import Source
from .operands import Lookup, OperandError, operand, split_top
from .program import CallSite, Operand, Reg, Signature, Symbol

_TABLE = re.compile(r"\.(branchtargets|calltargets|callprototype)\b", re.ASCII)
_PROTOTYPE = re.compile(
    r"\.callprototype\s+(?:\(([^()]*)\)\s*)?[\w$]+\s*(?:\(([^()]*)\)\s*)?(?:\.noreturn\s*)?;\Z",
    re.ASCII,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A `.branchtargets`, `.calltargets` (names) or `.callprototype` (signature)."""

    names: tuple[str, ...] = ()
    signature: Signature | None = None


def is_table(text: str, position: int) -> bool:
    """Whether a label at this place names a table."""
    return _TABLE.match(text, position) is not None


def table(source: Source, position: int, statement: str) -> Table:
    """The table of a directive.

    Raises:
        PtxError: it is not understood.
    """
    found = _PROTOTYPE.match(statement)
    if found:
        parts = [(position + max(found.start(k), 0), found.group(k)) for k in (1, 2)]
        return Table(signature=signature(source, parts[0], parts[1]))
    if statement.startswith(".callprototype"):
        raise source.error(position, "call prototype is not understood")
    names = statement.split(None, 1)[1].rstrip("; \t\n").split(",")
    return Table(tuple(name.strip() for name in names))


def call_site(rest: str, lookup: Lookup, tables: Callable[[str], Table | None]) -> CallSite:
    """What follows the mnemonic: `[(results),] callee [, (arguments)] [, table]`.

    Raises:
        OperandError: it is not understood.
    """
    parts = split_top(rest)
    results = _list(parts.pop(0), lookup) if parts[0][:1] == "(" else ()
    if not parts:
        raise OperandError("call names no target", rest)
    callee = operand(parts.pop(0), lookup)
    if not isinstance(callee, Symbol | Reg):
        raise OperandError("call names neither a function nor a register", rest)
    arguments = _list(parts.pop(0), lookup) if parts and parts[0][:1] == "(" else ()
    if not parts:
        return CallSite(callee, results, arguments)
    known = tables(parts[0])
    if known is None or len(parts) > 1:
        raise OperandError(f"{parts[0]} is neither a list of targets nor a prototype", parts[0])
    return CallSite(callee, results, arguments, known.signature, known.names or None)


def _list(text: str, lookup: Lookup) -> tuple[Operand, ...]:
    inner = text[1:-1].strip()
    return tuple(operand(part, lookup) for part in split_top(inner)) if inner else ()
