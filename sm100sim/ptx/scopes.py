"""Names inside a kernel: registers, variables and labels of nested `{ }` scopes.

Inline assembly opens a scope of its own and may declare registers and labels whose names repeat
many times in a kernel (PTX ISA, "Scoping").  A name means the innermost declaration around it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .calls import Table
from .program import Operand, Reg, Symbol, Vector
from .types import PtxType


class Scope:
    """One `{ }` block.

    Attributes:
        regs: registers by name; `ranges`: count and type by prefix.
        symbols: variables, and vector registers as the `Vector` of their components.
        labels: index of the instruction after each label.
        read: operands that have been read, by their text; forgotten with every declaration.
        tables: branch targets, call targets and prototypes.
    """

    __slots__ = ("labels", "parent", "ranges", "read", "regs", "symbols", "tables")

    def __init__(self, parent: Scope | None) -> None:
        """An empty scope inside `parent`."""
        self.parent = parent
        self.regs: dict[str, Reg] = {}
        self.ranges: dict[str, tuple[int, PtxType]] = {}
        self.symbols: dict[str, Symbol | Vector] = {}
        self.labels: dict[str, int] = {}
        self.tables: dict[str, Table] = {}
        self.read: dict[str, Operand] = {}

    def outwards(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find_table(self, name: str) -> Table | None:
        """The table of that name, looking outwards."""
        return next((s.tables[name] for s in self.outwards() if name in s.tables), None)

    def find_label(self, name: str) -> int | None:
        """Index of the instruction after the label, looking outwards."""
        return next((s.labels[name] for s in self.outwards() if name in s.labels), None)

    def declares(self, name: str) -> bool:
        """Whether this very scope declares a register or variable of that name."""
        return name in self.regs or name in self.symbols or self.in_range(name) is not None

    def in_range(self, name: str) -> PtxType | None:
        """Type of `name` when a `.reg type prefix<n>` of this scope declares it.

        The prefix may itself end with digits: `.reg .b32 a1<3>` declares a10, a11 and a12.
        """
        if not self.ranges:
            return None
        prefix = name.rstrip("0123456789")
        span = self.ranges.get(prefix)
        if span is not None and _counts(name[len(prefix) :], span[0]):
            return span[1]
        for cut in range(len(prefix) + 1, len(name)):
            span = self.ranges.get(name[:cut])
            if span is not None and _counts(name[cut:], span[0]):
                return span[1]
        return None

    def overlaps(self, prefix: str, count: int) -> bool:
        """Whether `prefix<count>` declares a name that this scope declares already."""
        if self.in_range(f"{prefix}0") is not None:
            return True
        cut = len(prefix)
        names = [*self.regs, *self.symbols, *(f"{other}0" for other in self.ranges)]
        return any(n.startswith(prefix) and _counts(n[cut:], count) for n in names)


def _counts(digits: str, count: int) -> bool:
    """Whether `digits` is one of "0" ... str(count - 1)."""
    if not digits.isdecimal() or (len(digits) > 1 and digits[0] == "0"):
        return False
    return len(digits) <= len(str(count)) and int(digits) < count


class Registers:
    """All registers of a kernel; ids are handed out in the order of first use."""

    def __init__(self) -> None:
        """No registers."""
        self.by_id: dict[int, Reg] = {}

    def declare(self, scope: Scope, name: str, kind: PtxType) -> None:
        """`.reg .b32 name;`

        Raises:
            KeyError: the scope declares the name already.
        """
        if scope.declares(name):
            raise KeyError(name)
        scope.regs[name] = self._new(name, kind)

    def declare_range(self, scope: Scope, prefix: str, count: int, kind: PtxType) -> None:
        """`.reg .b32 prefix<count>;` declares prefix0 ... prefix(count-1).

        Raises:
            KeyError: the scope declares one of them already.
        """
        if scope.overlaps(prefix, count):
            raise KeyError(prefix)
        scope.ranges[prefix] = (count, kind)

    def declare_vector(self, scope: Scope, name: str, width: int, kind: PtxType) -> None:
        """`.reg .v4 .b32 name;` declares name.x ... name.w, also called name.r ... name.a.

        Raises:
            KeyError: the scope declares the name already.
        """
        if scope.declares(name):
            raise KeyError(name)
        parts = tuple(self._new(f"{name}.{axis}", kind) for axis in "xyzw"[:width])
        for reg, axis, colour in zip(parts, "xyzw", "rgba", strict=False):
            scope.regs[f"{name}.{axis}"] = scope.regs[f"{name}.{colour}"] = reg
        scope.symbols[name] = Vector(parts)

    def find(self, scope: Scope, name: str) -> Reg | Symbol | Vector | None:
        """What `name` means in `scope`: a register, a vector of them, a variable, or None."""
        at: Scope | None = scope
        while at is not None:
            found = at.regs.get(name) or at.symbols.get(name)
            if found is not None:
                return found
            kind = at.in_range(name)
            if kind is not None:
                reg = at.regs[name] = self._new(name, kind)
                return reg
            at = at.parent
        return None

    def _new(self, name: str, kind: PtxType) -> Reg:
        reg = Reg(len(self.by_id), name, kind)
        self.by_id[reg.id] = reg
        return reg
