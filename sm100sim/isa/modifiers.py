"""The dot modifiers of an instruction, consumed one by one."""

from __future__ import annotations

from ..ptx.errors import Unsupported
from ..ptx.program import Instr


class Mods:
    """The dot modifiers of one instruction, consumed one by one.

    `take(name)` removes an optional flag, `one_of(...)` a required choice, `maybe(...)` an optional
    choice; `done()` stops when something was not understood.
    """

    def __init__(self, ins: Instr) -> None:
        self._ins = ins
        self._left = list(ins.mods)

    def take(self, name: str) -> bool:
        """Remove `name` when present and say whether it was."""
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    def maybe(self, *names: str) -> str | None:
        """Remove and return the first of `names` that is present, else None."""
        for name in names:
            if self.take(name):
                return name
        return None

    def one_of(self, *names: str) -> str:
        """Remove and return the one of `names` that is present; stops when there is none."""
        found = self.maybe(*names)
        if found is None:
            raise Unsupported(self._ins, f"expected one of .{', .'.join(names)}")
        return found

    def last(self) -> str:
        """Remove and return the last modifier (usually the type)."""
        if not self._left:
            raise Unsupported(self._ins, "a type modifier is missing")
        return self._left.pop()

    def done(self) -> None:
        """Stop when a modifier was not consumed."""
        if self._left:
            raise Unsupported(self._ins, f"modifier .{self._left[0]} is not understood")
