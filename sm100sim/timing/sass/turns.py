"""Loops without an anchor that ptxas unrolled: how many of the PTX's turns one of theirs is.

Anchors tell how often a loop turns. Where it has none its accesses do: a straight body that loads
eight times what the run loaded once a turn makes eight turns at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from ...contract import forms
from ...contract.codes import Space
from ..records import SassInstruction
from .kinds import ACCESSES
from .relation import Related
from .script import ALL, BRANCH, NEITHER, Letter, Program

BYTES: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
"""Bytes of a lane by the modifier of an access; 4 where none says it."""
PLAIN: Final = ("LD", "ST")
"""Operations whose bytes are counted."""
OPCODES: Final = frozenset(opcode for name in PLAIN for opcode in ACCESSES[name]) - {"LDL", "STL"}
"""What they become; spilled registers have the lines of neighbours."""


def lane_bytes(instruction: SassInstruction) -> int:
    """Return the bytes that a load or store moves for each lane."""
    return next((BYTES[m] for m in instruction.modifiers if m in BYTES), 4)


class Turns:
    """How many turns of the PTX's loop straight pieces of machine code make.

    ptxas makes, of a loop whose number of turns it does not know, a loop of four turns at once, and
    behind it pieces of two turns and of one, each behind a branch that has the loop's line.
    """

    def __init__(self, related: Related) -> None:
        """`related`: the code beside its PTX."""
        self._related = related
        self._known: dict[tuple[int, int], int] = {}

    def of(self, branch: int, line: int) -> int:
        """Return it for what a branch goes back over, or leaves out.

        Args:
            branch: of machine code. line: of the PTX's branch that it comes from.

        Returns:
            1 where accesses do not say.
        """
        key = branch, line
        if key not in self._known:
            to = min(self._related.code[branch].targets, default=branch + 1)
            body = range(to, branch) if to <= branch else range(branch + 1, to)
            self._known[key] = self._count(body, line)
        return self._known[key]

    def choices(
        self, branch: int, line: int, script: Sequence[Letter], first: int
    ) -> Iterator[tuple[int, int]]:
        """Where a way goes on, and its next letter, the likelier first; nothing for other branches.

        Args:
            branch, line: as of `of`. script: of a warp. first: its next letter.
        """
        loops = self._loops.get(line, ())
        after = sorted(self._related.after[branch])
        if not loops or len(after) != 2:
            return
        stays, (near, far) = self._stays(line), after
        if branch in loops:
            k = _behind(self.of(branch, line), line, script, first, stays)
            if k is None:
                return
            over = script[k - 1].outcome != stays
            more = _behind(self.of(branch, line), line, script, k, stays) is not None
            yield from ((far, k),) if over else ((near, k), (far, k))[:: 1 if more else -1]
        elif near == branch + 1:
            inside = [loop for loop in loops if branch < loop < far]
            turns = self.of(inside[0] if inside else branch, line)
            k = _behind(turns, line, script, first, stays)
            begun = not inside and first and script[first - 1].line == line
            if k is None or (begun and script[first - 1].outcome != stays):
                yield far, first
            else:
                yield near, first if inside else k
                yield far, first

    @cached_property
    def _loops(self) -> dict[int, tuple[int, ...]]:
        """Line -> branches that go back behind a turn that makes several of its turns."""
        found: dict[int, tuple[int, ...]] = {}
        for branch, lines in self._related.branches.items():
            back = min(self._related.code[branch].targets, default=branch + 1) <= branch
            for line in lines:
                if back and line in self._related.program.branches and self.of(branch, line) > 1:
                    found[line] = (*found.get(line, ()), branch)
        return found

    def _stays(self, line: int) -> int:
        """Which outcome of the PTX's branch goes back."""
        program = self._related.program
        branch = program.branches[line]
        return ALL if program.flow.after[branch][-1] <= branch else NEITHER

    def _count(self, body: range, line: int) -> int:
        each = self._each(line)
        found = [
            count // each[access]
            for access, count in self._copies(body).items()
            if access in each and count % each[access] == 0
        ]
        return max(found, default=1) or 1

    def _copies(self, body: range) -> dict[int, int]:
        """How often straight code has what a line of the PTX loads or stores once."""
        related = self._related
        straight = all(
            related.after[k] == (k + 1,) and related.kinds[k] is None
            and related.code[k].opcode != "CALL" for k in body
        )  # fmt: skip
        if not body or not straight:
            return {}
        moved: dict[int, int] = {}
        for k in body:
            instruction = related.code[k]
            at = instruction.ptx_line or 0
            if instruction.opcode in OPCODES and at in self._bytes:
                moved[at] = moved.get(at, 0) + lane_bytes(instruction)
        return {at: size // self._bytes[at] for at, size in moved.items()}

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """Bytes of a lane by line, of lines that have one load or store."""
        program = self._related.program
        found: dict[int, list[int]] = {}
        for k, name in enumerate(program.names):
            if name in PLAIN:
                found.setdefault(program.lines[k], []).append(access_bytes(program, k))
        return {line: width for line, (width, *more) in found.items() if width and not more}

    @cached_property
    def _ran(self) -> dict[int, int]:
        """How often the run executed an instruction, by line."""
        program = self._related.program
        steps = program.recording.steps
        counts = np.bincount(steps["instruction"], minlength=len(program.names))
        found: dict[int, int] = {}
        for line, count in zip(program.lines, counts.tolist(), strict=True):
            found[line] = found.get(line, 0) + count
        return found

    def _each(self, line: int) -> dict[int, int]:
        """How often the run made each access in a turn of the loop, where it did so evenly."""
        turns = self._ran.get(line, 0)
        if not turns:
            return {}
        return {
            at: self._ran[at] // turns
            for at in self._bytes
            if self._ran.get(at, 0) >= turns and self._ran[at] % turns == 0
        }


def _next_of(line: int, script: Sequence[Letter], k: int) -> int:
    """The next letter of a line's branch, before an anchor; the end if there is none."""
    while k < len(script) and script[k].kind == BRANCH and script[k].line != line:
        k += 1
    return k if k < len(script) and script[k].kind == BRANCH else len(script)


def _behind(turns: int, line: int, script: Sequence[Letter], first: int, stays: int) -> int | None:
    """The letter behind so many turns of the PTX's loop; None where the run made fewer."""
    k = first
    for turn in range(turns):
        k = _next_of(line, script, k)
        if k == len(script) or (turn < turns - 1 and script[k].outcome != stays):
            return None
        k += 1
    return k


def access_bytes(program: Program, index: int) -> int:
    """Return the bytes that a load or store of the PTX moves for each lane; 0 of a parameter."""
    row = program.code[index]
    form = forms.Memory.from_buffer_copy(row["form"].tobytes())
    if form.space == Space.PARAM:
        return 0
    loads = program.names[index] == "LD"
    return int(form.bytes) * int(row["n_destinations"] if loads else row["n_sources"] - 1)
