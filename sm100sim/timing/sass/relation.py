"""Machine code beside the PTX that it comes from: which branch and which anchor is which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ..records import SassInstruction, SassKernel
from .flow import Flow
from .kinds import EXCHANGED, anchor_kind, conditional, successors
from .script import Program

REACH = 64
"""Instructions within which a branch is looked for behind its condition, a wait behind a label."""
ATTEMPTS = ("SYNCS", "USETMAXREG", "UTCATOMSWS")
"""Opcodes that answer whether they succeeded, and are tried until they do."""
FEWEST_LINES, HALF = 3, 0.5
"""Lines of the sides of a branch that tell where it comes from, and the share that is common."""
NONE = 0
"""No line: a branch may come from none."""
OWN, ASKED, NEAR, REGION, CLOSE = 3, 3, 2, 4, 1
"""What speaks for a branch of the PTX: the line that a branch has; that of what computes its
condition; its line as that of a condition; lines of its sides, if all are shared; and by how much
the likeliest must be ahead."""


@dataclass(frozen=True)
class Chain:
    """Branches of the PTX that became one table of machine code.

    Attributes:
        head, lines: line of the first, and of all.
        targets: instruction of the PTX that they lead to -> successors of the BRX that it may be.
    """

    head: int
    lines: frozenset[int]
    targets: Mapping[int, tuple[int, ...]]


class Related:
    """Machine code of a kernel beside its PTX.

    Attributes:
        code: instructions. after: successors of each. kinds: of anchor, or None.
        forks: whether it is a branch that may also go on.
    """

    def __init__(self, kernel: SassKernel, program: Program) -> None:
        """Relate branches and anchors of both."""
        self.kernel, self.program = kernel, program
        self._known_sides: dict[int, list[set[int]]] = {}
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
    def ignored(self) -> set[str]:
        """Kinds of anchor of the PTX that ptxas left out: setmaxnreg, of all the kernel, where it
        does not know how many registers a thread has at its start."""
        has = any(kind is not None and kind.startswith("registers") for kind in self.kinds)
        known = self.program.anchor_lines
        return set() if has else {kind for kind in known if kind.startswith("registers")}

    @cached_property
    def exchanged(self) -> set[tuple[int | None, int | None]]:
        """Lines of neighbours of `kinds.EXCHANGED` that machine code has the other way round."""
        anchors = [k for k, kind in enumerate(self.kinds) if kind is not None]
        return {
            (self.lines[after], self.lines[before])
            for before, after in pairwise(anchors)
            if (self.kinds[after], self.kinds[before]) == EXCHANGED
            and all(self.after[k] == (k + 1,) for k in range(before, after))
        }

    @cached_property
    def branches(self) -> dict[int, tuple[int, ...]]:
        """Branch in machine code -> lines of the PTX's branches that it may come from.

        It has the line of one, or the line of what computes the condition that it asks, or of what
        happens to be near. None is from a branch that tries a wait or setmaxnreg again, or that
        goes over lanes one by one.
        """
        found = {}
        for index, instruction in enumerate(self.code):
            if not self._chooses(index):
                continue
            definer = self._definer(index)
            retries = definer is not None and self.code[definer].opcode in ATTEMPTS
            retries |= instruction.ptx_line in self.program.attempt_lines
            if retries or {"ANY", "DIV"} & set(instruction.modifiers):
                continue
            if lines := self._origins(index, definer):
                found[index] = lines
        return found

    def _origins(self, index: int, definer: int | None) -> tuple[int, ...]:
        """Lines of the PTX's branches that a branch may come from, the likeliest first."""
        instruction, setters = self.code[index], self.program.setters
        own = instruction.ptx_line or 0
        asked = () if definer is None else setters.get(self.code[definer].ptx_line or 0, ())
        if instruction.opcode == "BRX":
            near = (own,) if own in self.program.branches else setters.get(own, ())
            return tuple(line for line in near if self._is_table(line))
        points: dict[int, float] = {}
        for lines, worth in (((own,), OWN), (setters.get(own, ()), NEAR), (asked, ASKED)):
            for line in lines:
                if line in self.program.branches:
                    points[line] = points.get(line, 0) + worth
        supported, around = set(points), self._around(index)
        for line in dict.fromkeys((*points, *around)):
            points[line] = points.get(line, 0) + REGION * self._alike(index, line)
        points = {x: n for x, n in points.items() if x == own or self._alike(index, x)}
        best = max(points.values(), default=0)
        likely = [line for line in points if points[line] > best - CLOSE]
        likely.sort(key=lambda line: -points[line])
        certain = not likely or supported & set(likely)
        return tuple(likely) if certain else (*likely, NONE)

    def _alike(self, index: int, line: int) -> float:
        """Lines that the sides of a branch share with those of one of the PTX, of all of both."""
        here, there = self._sides[index], self._sides_there(line)
        if len(here) != len(there):
            return 0.0
        shared = max(len(here[0] & there[k]) + len(here[1] & there[1 - k]) for k in (0, 1))
        return shared / max(sum(map(len, (*here, *there))) - shared, 1)

    def _around(self, index: int) -> tuple[int, ...]:
        """The branch of the PTX whose sides are most like those of a branch."""
        lines = self.program.branches if sum(map(len, self._sides[index])) >= FEWEST_LINES else ()
        best = max(lines, key=lambda line: self._alike(index, line), default=0)
        return (best,) if best and self._alike(index, best) > HALF else ()

    def _is_table(self, line: int) -> bool:
        return self.program.names[self.program.branches[line]] == "BRX"

    def _definer(self, branch: int) -> int | None:
        """The instruction before a branch that computes the predicate it asks, if it is near."""
        instruction = self.code[branch]
        words = instruction.guard or instruction.operands.partition(",")[0]
        asked = words.removeprefix("!")
        for k in range(branch - 1, max(branch - REACH, -1), -1):
            if asked in [name.strip() for name in self.code[k].operands.split(",")[:2]]:
                return k
        return None

    @cached_property
    def branch_lines(self) -> set[int]:
        """Lines of the PTX's branches that machine code kept, or made a table of."""
        kept = {line for lines in self.branches.values() for line in lines if line != NONE}
        return kept.union(*(chain.lines for chain in self.chains.values()))

    @cached_property
    def chains(self) -> dict[int, Chain]:
        """BRX -> the chain of branches of the PTX that ptxas made its table of."""
        kept = {line for lines in self.branches.values() for line in lines}
        found = {}
        for index, instruction in enumerate(self.code):
            if instruction.opcode != "BRX" or index in self.branches:
                continue
            own = instruction.ptx_line or 0
            near = {own, *self.program.setters.get(own, ())} - kept
            heads = [line for line in self.program.branches if line not in kept]
            chains = [self.program.chain(line, kept) for line in heads if near]
            fitting = [(lines, leaves) for lines, leaves in chains if near & set(lines)]
            if fitting:
                found[index] = self._chain(index, *max(fitting, key=lambda chain: len(chain[0])))
        return found

    def _chain(self, index: int, lines: dict[int, None], leaves: tuple[int, ...]) -> Chain:
        """Which successors each leaf may be: what shares most lines, or what no leaf does."""
        head = next(iter(lines))
        there = self.program.flow.sides(self.program.branches[head], leaves)
        sides = _paired(there, self._sides[index])
        after = self.after[index]
        rest = tuple(to for k, to in enumerate(after) if k not in sides)
        return Chain(
            head,
            frozenset(lines),
            {leaf: (after[k],) if k >= 0 else rest for leaf, k in zip(leaves, sides, strict=True)},
        )

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
        for branch in range(wait + 1, min(wait + REACH, len(self.code))):
            asks = self.forks[branch] and self._definer(branch) == wait
            for target in self.code[branch].targets if asks else ():
                for again in range(target, min(target + REACH, len(self.code))):
                    if self.kinds[again] == "wait" and self.code[again].ptx_line in known:
                        return self.code[again].ptx_line
        return self.code[wait].ptx_line

    @cached_property
    def _sides(self) -> dict[int, list[set[int]]]:
        """Lines that only one successor of a branch leads to."""
        return {
            index: self.flow.sides(index) for index in range(len(self.code)) if self._chooses(index)
        }

    def _sides_there(self, line: int) -> list[set[int]]:
        """The same for a branch of the PTX."""
        if line not in self._known_sides:
            self._known_sides[line] = self.program.flow.sides(self.program.branches[line])
        return self._known_sides[line]

    def _chooses(self, index: int) -> bool:
        """Whether an instruction has more than one successor, or a table of them."""
        return self.forks[index] or self.code[index].opcode == "BRX"

    def side_of(self, index: int, line: int) -> list[int]:
        """For a branch and the line that it comes from: the side of each successor there."""
        return _paired(self._sides[index], self._sides_there(line))


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
