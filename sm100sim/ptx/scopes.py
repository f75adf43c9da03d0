"""Names inside a kernel: registers and labels of nested `{ }` scopes.

Inline assembly opens a scope of its own and may declare registers and labels whose names repeat
many times in a kernel (PTX ISA, "Scoping").  A name means the innermost declaration around it.
"""

from __future__ import annotations

from .program import Reg
from .types import PtxType


class Scope:
    """One `{ }` block: its registers, register ranges and labels."""

    __slots__ = ("labels", "parent", "ranges", "regs")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.regs: dict[str, Reg] = {}
        self.ranges: dict[str, tuple[int, PtxType]] = {}
        self.labels: dict[str, int] = {}

    def find_label(self, name: str) -> int | None:
        """Index of the instruction behind the label, looking outwards."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None


class Registers:
    """All registers of a kernel; ids are handed out in the order of first use."""

    def __init__(self) -> None:
        self.by_id: dict[int, Reg] = {}

    def declare(self, scope: Scope, name: str, kind: PtxType) -> None:
        """`.reg .b32 name;`

        Raises:
            KeyError: the scope declares the name already.
        """
        if name in scope.regs or name in scope.ranges:
            raise KeyError(name)
        scope.regs[name] = self._new(name, kind)

    def declare_range(self, scope: Scope, prefix: str, count: int, kind: PtxType) -> None:
        """`.reg .b32 prefix<count>;` declares prefix0 ... prefix(count-1)."""
        if prefix in scope.ranges:
            raise KeyError(prefix)
        scope.ranges[prefix] = (count, kind)

    def find(self, scope: Scope, name: str) -> Reg | None:
        """The register that `name` means in `scope`, or None."""
        at: Scope | None = scope
        while at is not None:
            found = at.regs.get(name) or self._from_range(at, name)
            if found is not None:
                return found
            at = at.parent
        return None

    def _from_range(self, scope: Scope, name: str) -> Reg | None:
        if not scope.ranges:
            return None
        end = len(name.rstrip("0123456789"))
        for cut in range(end, len(name)):
            span = scope.ranges.get(name[:cut])
            digits = name[cut:]
            if span is not None and int(digits) < span[0] and str(int(digits)) == digits:
                scope.regs[name] = self._new(name, span[1])
                return scope.regs[name]
        return None

    def _new(self, name: str, kind: PtxType) -> Reg:
        reg = Reg(len(self.by_id), name, kind)
        self.by_id[reg.id] = reg
        return reg
