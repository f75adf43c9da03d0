"""The script of a warp: what its run of the PTX did, in order, as far as machine code must agree.

A letter is an anchor, with its kind, or a conditional branch, with its outcome. Branches that only
repeat a wait until it succeeds are no letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...contract import forms
from ...contract.codes import NONE32
from ...crew.recording import Recording
from ...engine.binding import opcode_numbers
from .flow import Flow
from .kinds import ACCESSES, ANCHORS

NEITHER, ALL, SOME = 0, 1, 2
"""Outcomes of a branch: taken by none, all or some of the lanes."""
BRANCH = "branch"
ATTEMPTS = ("MBAR_WAIT", "SETMAXNREG", "TMEM_ALLOC")
"""Operations that machine code tries until they succeed."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One thing that a warp did.

    Attributes:
        kind: `BRANCH` or a kind of `kinds.ANCHORS`.
        line: of the PTX. step: index in the recording's steps.
        outcome: of a branch: `NEITHER`, `ALL`, `SOME`; of one with a table: the line it went to.
        lanes: active after the guard.
    """

    kind: str
    line: int
    step: int
    outcome: int = 0
    lanes: int = 0


class Program:
    """The PTX of a recording: its control flow, and the scripts of warps."""

    def __init__(self, recording: Recording) -> None:
        """`recording`: of one launch."""
        self.recording = recording
        self.code = recording.assembled.code
        names = {number: name for name, number in opcode_numbers().items()}
        self.names = [names[number] for number in self.code["op"].tolist()]
        self.lines: list[int] = self.code["line"].tolist()
        self._guarded = (self.code["guard"] != NONE32).tolist()

    def _after(self, index: int) -> tuple[int, ...]:
        name, end = self.names[index], len(self.names)
        following = (index + 1,) if self._guarded[index] else ()
        if name in ("EXIT", "RET", "OFF_END"):
            return (*following, end)
        if name == "BRA":
            return (*following, int(self.code["target"][index]))
        if name == "BRX":
            words = forms.Call.from_buffer_copy(self.code["form"][index].tobytes())
            first = int(self.code["imm"][index])
            table = self.recording.assembled.tables[first : first + words.entries]
            return (*following, *dict.fromkeys(table.tolist()))
        return (index + 1,)

    @cached_property
    def exit_lines(self) -> set[int]:
        """Lines of instructions that end a thread."""
        return {line for line, name in zip(self.lines, self.names, strict=True) if name == "EXIT"}

    @cached_property
    def flow(self) -> Flow:
        """Control flow; successors of a branch: what follows first, then its target."""
        return Flow([self._after(k) for k in range(len(self.names))], self.lines, self.exit_lines)

    @cached_property
    def branches(self) -> dict[int, int]:
        """Line -> instruction of the branches that are letters."""
        return {self.lines[k]: k for k in range(len(self.names)) if self._is_branch(k)}

    def _is_branch(self, index: int) -> bool:
        name = self.names[index]
        if name == "BRX":
            return True
        return name in ("BRA", "EXIT") and self._guarded[index] and index not in self.retries

    @cached_property
    def setters(self) -> dict[int, tuple[int, ...]]:
        """Line that computes a predicate -> lines of the branches that ask it."""
        asked: dict[int, list[int]] = {}
        for line, branch in self.branches.items():
            if self._guarded[branch]:
                asked.setdefault(int(self.code["guard"][branch]), []).append(line)
        found: dict[int, tuple[int, ...]] = {}
        for k, line in enumerate(self.lines):
            for slot in self._destinations(k):
                if slot in asked:
                    found[line] = (*found.get(line, ()), *asked[slot])
        return found

    def _operands(self, index: int) -> tuple[list[int], list[int]]:
        """Registers of an instruction: written and read."""
        row = self.code[index]
        first, count = int(row["first_operand"]), int(row["n_destinations"])
        slots: list[int] = self.recording.assembled.operands[
            first : first + count + int(row["n_sources"])
        ].tolist()
        return slots[:count], slots[count:]

    def _destinations(self, index: int) -> list[int]:
        return self._operands(index)[0]

    # ---- chains of branches, of which ptxas makes tables ----------------------------------------
    def _compared(self, branch: int) -> int | None:
        """The register that a branch's condition compares first."""
        guard = int(self.code["guard"][branch])
        for k in range(branch - 1, -1, -1):
            written, read = self._operands(k)
            if guard in written:
                return read[0] if read else None
        return None

    def next_branch(self, index: int) -> int | None:
        """The branch that an instruction leads to without an anchor or an access before it."""
        for _ in self.names:
            if index == len(self.names) or len(self.flow.after[index]) > 1:
                break
            if self.kinds[index] is not None or self.names[index] in ACCESSES:
                return None
            index = self.flow.after[index][0]
        return index if self.branches.get(self.line_of(index)) == index else None

    def line_of(self, index: int) -> int:
        """Line of an instruction; 0 for the end."""
        return self.lines[index] if index < len(self.lines) else 0

    def chain(self, head: int, kept: set[int]) -> tuple[dict[int, None], tuple[int, ...]]:
        """Branches that compare one register after the other, as in a `switch`.

        Args:
            head: line of the first. kept: lines of branches that are no part of it.

        Returns:
            Their lines, and the instructions that they lead to.
        """
        asked = self._compared(self.branches[head])
        lines, leaves = {head: None}, dict[int, None]()
        open_ = [self.branches[head]]
        while open_:
            for to in self.flow.after[open_.pop()]:
                following = self.next_branch(to)
                line = self.line_of(to if following is None else following)
                if following is None or line in kept or asked != self._compared(following):
                    leaves[to] = None
                elif line not in lines:
                    lines[line] = None
                    open_.append(following)
        return lines, tuple(leaves)

    @cached_property
    def kinds(self) -> list[str | None]:
        """Kind of anchor of each instruction; those of wgmma and setmaxnreg have a size."""
        return [self._kind(k, name) for k, name in enumerate(self.names)]

    def _kind(self, index: int, name: str) -> str | None:
        kind = ANCHORS.get(name)
        if name == "SETMAXNREG":
            return f"{kind} {int(self.code['imm'][index])}"
        return f"{kind} n{self._columns(index)}" if name == "WGMMA" else kind

    def _columns(self, index: int) -> int:
        words = forms.Wgmma.from_buffer_copy(self.code["form"][index].tobytes())
        return int(words.n)

    @cached_property
    def anchor_lines(self) -> dict[str, set[int]]:
        """Kind of anchor -> lines that have one."""
        found: dict[str, set[int]] = {}
        for line, kind in zip(self.lines, self.kinds, strict=True):
            if kind is not None:
                found.setdefault(kind, set()).add(line)
        return found

    @cached_property
    def retries(self) -> set[int]:
        """Branches whose guard is what the wait before them answered, by instruction."""
        found = set()
        for k, name in enumerate(self.names[:-1]):
            follows = name == "MBAR_WAIT" and self.names[k + 1] == "BRA"
            if follows and int(self.code["guard"][k + 1]) in self._destinations(k):
                found.add(k + 1)
        return found

    @cached_property
    def attempt_lines(self) -> set[int]:
        """Lines of what is tried until it succeeds, and of `retries`."""
        tried = {k for k, name in enumerate(self.names) if name in ATTEMPTS}
        return {self.lines[k] for k in tried | self.retries}

    def script(self, steps: np.ndarray) -> list[Letter]:
        """The letters of a warp.

        Args:
            steps: indices of its steps in the recording.
        """
        table = self.recording.steps[steps]
        ran: list[int] = table["instruction"].tolist()
        masks: list[int] = table["mask"].tolist()
        active: list[int] = table["active"].tolist()
        letters = []
        for at, (k, mask, lanes) in enumerate(zip(ran, masks, active, strict=True)):
            name, kind = self.names[k], self.kinds[k]
            outcome = NEITHER if not mask else ALL if mask == lanes else SOME
            if kind is not None:
                if mask:
                    letters.append(Letter(kind, self.lines[k], int(steps[at]), lanes=mask))
            elif name == "BRX":
                outcome = self.lines[ran[at + 1]] if at + 1 < len(ran) else 0
                letters.append(Letter(BRANCH, self.lines[k], int(steps[at]), outcome, mask))
            elif self._is_branch(k):
                letters.append(Letter(BRANCH, self.lines[k], int(steps[at]), outcome, mask))
        return letters
