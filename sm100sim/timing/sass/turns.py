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


def lane_bytes(instruction: SassInstruction) -> int:
    """Return the bytes that a load or store moves for each lane."""
    return next((BYTES[m] for m in instruction.modifiers if m in BYTES), 4)


class Turns:
    """How many turns of the PTX's loop a turn of machine code makes."""

    def __init__(self, related: Related) -> None:
        """`related`: the code beside its PTX."""
        self._related = related
        self._known: dict[tuple[int, int], int] = {}

    def of(self, branch: int, line: int) -> int:
        """Return it for a branch and the line of the PTX's that it comes from; 1 if unknown."""
        key = branch, line
        if key not in self._known:
            self._known[key] = self._count(branch, line)
        return self._known[key]

    def choices(
        self, branch: int, line: int, script: Sequence[Letter], first: int
    ) -> Iterator[tuple[int, int]]:
        """Where a way goes on, and its next letter, the likelier first; nothing for other branches.

        At the end of a turn that makes several; and before the first one, which needs as many.

        Args:
            branch, line: as of `of`. script: of a warp. first: its next letter.
        """
        if line not in self._related.program.branches:
            return
        turns, stays = self.of(branch, line), self._stays(line)
        again, out = sorted(self._related.after[branch])
        if turns > 1:
            k = first
            for outcome in (*[stays] * (turns - 1), None):
                k = _next_of(line, script, k)
                if k == len(script) or (outcome is not None and script[k].outcome != outcome):
                    return
                k += 1
            if script[k - 1].outcome != stays:
                yield out, k
                return
            more = _are_left(turns, line, script, k, stays)
            yield from ((again, k), (out, k)) if more else ((out, k), (again, k))
            return
        for loop, needed in self._loops(line):
            if again == branch + 1 and branch < loop < out:
                enters = _are_left(needed, line, script, first, stays)
                yield from ((again, first), (out, first))[:: 1 if enters else -1]
                return

    def _stays(self, line: int) -> int:
        """Which outcome of the PTX's branch goes back."""
        program = self._related.program
        branch = program.branches[line]
        return ALL if program.flow.after[branch][-1] <= branch else NEITHER

    def _loops(self, line: int) -> Iterator[tuple[int, int]]:
        """Branches at the end of turns that make several of a line's, and how many."""
        for branch, lines in self._related.branches.items():
            if line in lines and (turns := self.of(branch, line)) > 1:
                yield branch, turns

    def _count(self, branch: int, line: int) -> int:
        copies = self._copies(branch)
        each = self._program_turns(line)
        found = [
            count // each[access]
            for access, count in copies.items()
            if access in each and count % each[access] == 0
        ]
        return max(found, default=1) or 1

    def _copies(self, branch: int) -> dict[int, int]:
        """How often a straight body has what a line of the PTX loads or stores once."""
        related = self._related
        first = min(related.code[branch].targets, default=branch + 1)
        body = range(first, branch)
        straight = all(
            related.after[k] == (k + 1,) and related.kinds[k] is None
            and related.code[k].opcode != "CALL" for k in body
        )  # fmt: skip
        if not body or not straight:
            return {}
        moved: dict[int, int] = {}
        opcodes = {opcode for name in PLAIN for opcode in ACCESSES[name]}
        for k in body:
            instruction = related.code[k]
            at = instruction.ptx_line or 0
            if instruction.opcode in opcodes and at in self._bytes:
                moved[at] = moved.get(at, 0) + lane_bytes(instruction)
        return {at: size // self._bytes[at] for at, size in moved.items()}

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """Bytes of a lane by line, of lines that have one load or store."""
        program = self._related.program
        found: dict[int, list[int]] = {}
        for k, name in enumerate(program.names):
            if name in PLAIN:
                found.setdefault(program.lines[k], []).append(_width(program, k))
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

    def _program_turns(self, line: int) -> dict[int, int]:
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


def _are_left(turns: int, line: int, script: Sequence[Letter], k: int, stays: int) -> bool:
    """Whether as many turns of the PTX's loop are left, that which ends it included."""
    for _ in range(turns - 1):
        k = _next_of(line, script, k)
        if k == len(script) or script[k].outcome != stays:
            return False
        k += 1
    return True


def _width(program: Program, index: int) -> int:
    row = program.code[index]
    form = forms.Memory.from_buffer_copy(row["form"].tobytes())
    if form.space == Space.PARAM:
        return 0
    loads = program.names[index] == "LD"
    return int(form.bytes) * int(row["n_destinations"] if loads else row["n_sources"] - 1)
