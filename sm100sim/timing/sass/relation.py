"""Machine code beside the PTX that it comes from: which branch and which anchor is which."""

from __future__ import annotations

from functools import cached_property

from ..records import SassInstruction, SassKernel
from .flow import Flow
from .kinds import anchor_kind, conditional, successors
from .script import Program

RETRY_REACH = 64
"""Instructions between a wait and the branch behind it, or a label and the wait there, at most."""


class Related:
    """Machine code of a kernel beside its PTX.

    Attributes:
        code: instructions. after: successors of each. kinds: of anchor, or None.
        forks: whether it is a branch that may also go on.
    """

    def __init__(self, kernel: SassKernel, program: Program) -> None:
        """Relate branches and anchors of both."""
        self.kernel, self.program = kernel, program
        self.code = kernel.instructions
        before: list[SassInstruction | None] = [None, *self.code[:-1]]
        self.kinds = [anchor_kind(i, b) for i, b in zip(self.code, before, strict=True)]
        self.after = [successors(self.code, k) for k in range(len(self.code))]
        self.forks = [
            conditional(i) and i.opcode in ("BRA", "EXIT", "JMP", "CALL") for i in self.code
        ]

    @cached_property
    def flow(self) -> Flow:
        """Control flow of the machine code."""
        lines = [instruction.ptx_line for instruction in self.code]
        return Flow(self.after, lines, self.program.exit_lines)

    @cached_property
    def kind_lines(self) -> dict[str, set[int]]:
        """Kind of anchor -> lines that machine code names for it."""
        found: dict[str, set[int]] = {}
        for kind, line in zip(self.kinds, self.lines, strict=True):
            if kind and line is not None:
                found.setdefault(kind, set()).add(line)
        return found

    @cached_property
    def branch(self) -> dict[int, int]:
        """Branch in machine code -> line of the PTX's branch that it comes from.

        ptxas gives a branch the line of the PTX's, or of what computes its condition; one that
        tries a wait again may have any line.
        """
        found = {}
        for index, instruction in enumerate(self.code):
            line = instruction.ptx_line
            if line is None or self._tries_again(index):
                continue
            if self.forks[index] or instruction.opcode == "BRX":
                line = self.program.setters.get(line, line)
                at = self.program.branches.get(line)
                # ptxas also makes tables of chains of branches
                table = instruction.opcode == "BRX" and at and self.program.names[at] == "BRA"
                if at is not None and not table:
                    found[index] = line
        return found

    def _tries_again(self, branch: int) -> bool:
        """Whether a branch asks what a wait before it answered."""
        asked = self.code[branch].guard.removeprefix("!")
        if not asked or not self.forks[branch]:
            return False
        for k in range(branch - 1, max(branch - RETRY_REACH, -1), -1):
            written = [name.strip() for name in self.code[k].operands.split(",")[:2]]
            if asked in written:
                return self.kinds[k] == "wait" and written[0] == asked
        return False

    @cached_property
    def branch_lines(self) -> set[int]:
        """Lines of the PTX's branches that machine code kept."""
        return set(self.branch.values())

    @cached_property
    def lines(self) -> list[int | None]:
        """Lines of anchors; a wait that is tried again elsewhere has that attempt's line.

        ptxas may give the first attempt the line of its address.
        """
        lines = [instruction.ptx_line for instruction in self.code]
        known = self.program.anchor_lines.get("wait", set())
        for index, kind in enumerate(self.kinds):
            if kind == "wait" and lines[index] not in known:
                lines[index] = self._retry_line(index, known)
        return lines

    def _retry_line(self, wait: int, known: set[int]) -> int | None:
        """Line of the wait that a failed one goes to, if it is one of `known`."""
        for branch in range(wait + 1, min(wait + RETRY_REACH, len(self.code))):
            if self.kinds[branch] is not None:
                break
            for target in self.code[branch].targets if self.forks[branch] else ():
                for again in range(target, min(target + RETRY_REACH, len(self.code))):
                    if self.kinds[again] == "wait" and self.code[again].ptx_line in known:
                        return self.code[again].ptx_line
        return self.code[wait].ptx_line

    @cached_property
    def sides(self) -> dict[int, list[int]]:
        """For each branch that comes from the PTX: side of the PTX's branch of each successor."""
        found = {}
        for index, line in self.branch.items():
            there = self.program.flow.sides(self.program.branches[line])
            found[index] = _paired(self.flow.sides(index), there)
        return found


def _paired(here: list[set[int]], there: list[set[int]]) -> list[int]:
    """For each side of a branch in machine code the side of the PTX that shares most lines with it.

    -1 for both sides of a two-way branch where nothing tells them apart.
    """
    shared = [[len(mine & other) for other in there] for mine in here]
    if len(here) == len(there) == 2:
        straight = shared[0][0] + shared[1][1]
        crossed = shared[0][1] + shared[1][0]
        return [0, 1] if straight > crossed else [1, 0] if crossed > straight else [-1, -1]
    most = [max(row, default=0) for row in shared]
    return [row.index(top) if top else -1 for row, top in zip(shared, most, strict=True)]
