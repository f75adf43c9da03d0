"""Where a planted fault goes: a function's name and an old expression, found by syntax.

Lines and files may change: the place is the only function of the package that has the name and
holds the expression. Formatting does not matter, because syntax trees are compared; what is no
piece of Python, such as PTX text, is looked for as it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MODULE = "<module>"
"""Name of the place of statements outside of any function or class."""


class AnchorError(LookupError):
    """A fault has no place, or several."""


@dataclass(frozen=True)
class Fault:
    """One change of the source.

    Attributes:
        place: ``module.function`` or ``module.Class.method``; the module's own name only, and it
            decides only where several functions fit.
        old: expression or statement, or a piece of text, that stands in it exactly once.
        new: what it becomes.
        killers: probes and paths of tests of which one has to fail.
        reason: why none can; empty for faults that have to be killed.
        nth: which of several equal pieces, counted from 1; 0 when there is one.
    """

    place: str
    old: str
    new: str
    killers: tuple[str, ...]
    reason: str = ""
    nth: int = 0

    def __str__(self) -> str:
        """Return the change in one line, which no other fault has."""
        new = self.new if self.new != "pass" else "(removed)"
        place = f"{self.place} ({self.nth})" if self.nth else self.place
        return f"{place}: {self.old}  ->  {new}"


@dataclass(frozen=True)
class Edit:
    """A change of one file: bytes ``start .. stop`` become ``new``.

    ``function`` is the code of the function around it, however it is written.
    """

    path: str
    line: int
    start: int
    stop: int
    new: bytes
    function: str = ""

    def applied(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.new + source[self.stop :]


@dataclass(frozen=True)
class _Scope:
    """A function, or the statements of a module."""

    path: str
    module: str
    node: ast.AST
    source: bytes

    def spans(self, fault: Fault) -> list[tuple[int, int]]:
        """Return where the old piece stands, as offsets into the source."""
        offsets = _line_offsets(self.source)
        wanted = _parsed(fault.old)
        if wanted is not None:
            found = [_span(n, offsets) for n in self._pieces.get(ast.dump(wanted), ())]
            if found:
                return sorted(set(found))
        text = fault.old.encode()
        start, stop = self._extent(offsets)
        found = []
        while (at := self.source.find(text, start, stop)) >= 0:
            found.append((at, at + len(text)))
            start = at + len(text)
        return found

    @cached_property
    def code(self) -> str:
        """The statements without comments and layout; of a module, those outside of functions."""
        if not isinstance(self.node, ast.Module):
            return ast.unparse(self.node)
        return "\n".join(map(ast.unparse, self._statements(self.node)))

    @cached_property
    def _pieces(self) -> dict[str, list[ast.expr | ast.stmt]]:
        """Expressions and statements by their trees."""
        found: dict[str, list[ast.expr | ast.stmt]] = {}
        for node in self._nodes():
            if isinstance(node, ast.expr | ast.stmt):
                found.setdefault(ast.dump(node), []).append(node)
        return found

    def _nodes(self) -> Iterator[ast.AST]:
        if not isinstance(self.node, ast.Module):
            yield from ast.walk(self.node)
            return
        for statement in self._statements(self.node):
            yield from ast.walk(statement)

    @staticmethod
    def _statements(module: ast.Module) -> list[ast.stmt]:
        return [s for s in module.body if not isinstance(s, ast.FunctionDef | ast.ClassDef)]

    def _extent(self, offsets: list[int]) -> tuple[int, int]:
        if isinstance(self.node, ast.Module):
            return 0, len(self.source)
        assert isinstance(self.node, ast.FunctionDef)
        assert self.node.end_lineno is not None
        return offsets[self.node.lineno - 1], offsets[self.node.end_lineno]


def _span(node: ast.expr | ast.stmt, offsets: list[int]) -> tuple[int, int]:
    """Return where a parsed node stands, as offsets into the source."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = offsets[node.lineno - 1] + node.col_offset
    return start, offsets[node.end_lineno - 1] + node.end_col_offset


class Sources:
    """The functions of a package, by name."""

    def __init__(self, package: Path) -> None:
        """Read all files of ``package``."""
        self.scopes: dict[str, list[_Scope]] = {}
        for path in sorted(package.rglob("*.py")):
            source = path.read_bytes()
            tree = ast.parse(source)
            name = str(path.relative_to(package.parent))
            self._add(MODULE, _Scope(name, path.stem, tree, source))
            for qualified, node in _functions(tree):
                self._add(qualified, _Scope(name, path.stem, node, source))

    def edit(self, fault: Fault) -> Edit:
        """Return the change that plants ``fault``.

        Raises:
            AnchorError: its place is not found, or not unique.
        """
        module, _, function = fault.place.partition(".")
        named = self.scopes.get(function, [])
        holding = [(scope, spans) for scope in named if (spans := scope.spans(fault))]
        if len(holding) > 1:
            holding = [one for one in holding if one[0].module == module]
        if len(holding) != 1:
            what = "no such function" if not named else f"{len(holding)} functions fit"
            raise AnchorError(f"{fault}: {what}")
        scope, spans = holding[0]
        if len(spans) != max(1, fault.nth) and not 0 < fault.nth <= len(spans):
            raise AnchorError(f"{fault}: stands there {len(spans)} times")
        start, stop = spans[max(1, fault.nth) - 1]
        line = scope.source.count(b"\n", 0, start) + 1
        return Edit(scope.path, line, start, stop, fault.new.encode(), scope.code)

    def _add(self, name: str, scope: _Scope) -> None:
        self.scopes.setdefault(name, []).append(scope)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _parsed(text: str) -> ast.AST | None:
    """Return the tree of an expression or of one statement; None when ``text`` is neither."""
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    return statement.value if isinstance(statement, ast.Expr) else statement


def _line_offsets(source: bytes) -> list[int]:
    found = [0]
    for line in source.splitlines(keepends=True):
        found.append(found[-1] + len(line))
    return found
