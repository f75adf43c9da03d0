"""The way of a warp through machine code that agrees with its script.

Straight code is followed. At an anchor the script must have that kind next; at a branch that comes
from a branch of the PTX, the script says which side. Where machine code has a branch that the PTX
has not, or a guard whose value is not known, what fits best is tried first, and the next when the
script does not go on: the anchors decide. ptxas keeps their order, but duplicates, rotates and
predicates what lies between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .flow import Node, Way, way_of
from .kinds import ADDED, LINES_LOST
from .relation import Related
from .script import ALL, BRANCH, NEITHER, Letter
from .turns import Turns


class Unmatched(ValueError):
    """No way through the machine code agrees with what a warp did; says where it ends."""


@dataclass(frozen=True, slots=True)
class _State:
    """Where a way is.

    Attributes:
        pc, letter: next instruction and letter. calls: where callers go on.
        pending: sides of branches that are still to run, and where they meet.
    """

    pc: int
    letter: int
    pending: tuple[tuple[int, int], ...] = ()
    calls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Option:
    """A way to go on, the letter that it takes (or -1), and whether it is a guess."""

    state: _State
    letter: int = -1
    guess: bool = False


class Walker:
    """Finds ways of warps through machine code."""

    def __init__(self, related: Related) -> None:
        """`related`: the code beside its PTX."""
        self._related = related
        self._turns = Turns(related)
        self._code = related.code
        self._runs: dict[tuple[int, int], tuple[tuple[tuple[int, int], ...], int]] = {}
        self._ways: dict[tuple[tuple[str, int, int], ...], Way] = {}

    # ---- straight code --------------------------------------------------------------------------
    def _is_point(self, index: int) -> bool:
        opcode = self._code[index].opcode
        decides = opcode in ("EXIT", "KILL", "CALL", "RET", "BRX")
        return decides or self._related.kinds[index] is not None or self._related.forks[index]

    def _run(self, pc: int, meeting: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """Ranges from `pc` to the next decision, and that instruction, or `meeting` before it.

        Raises:
            Unmatched: the code runs in a circle without a decision.
        """
        key = pc, meeting
        if key in self._runs:
            return self._runs[key]
        ranges, start, at, jumps = [], pc, pc, 0
        while not self._is_point(at):
            following = self._related.after[at][0]
            if following != at + 1:
                ranges.append((start, at + 1))
                start, jumps = following, jumps + 1
                if jumps > len(self._code):
                    raise Unmatched(f"{self._place(at)}: a loop without an end")
            at = following
            if at == meeting:
                ranges.append((start, at))
                break
        else:
            ranges.append((start, at + 1))
        found = tuple(r for r in ranges if r[0] < r[1]), at
        self._runs[key] = found
        return found

    def _place(self, index: int) -> str:
        at = self._code[index]
        return f"{self._related.kernel.name}+{at.address:#x} ({at}, PTX line {at.ptx_line})"

    # ---- decisions ------------------------------------------------------------------------------
    def _options(self, at: int, state: _State, script: Sequence[Letter]) -> Iterator[_Option]:
        """How to go on behind instruction `at`, the likeliest first."""
        instruction = self._code[at]
        if self._related.kinds[at] is not None:
            yield from self._at_anchor(at, state, script)
        elif instruction.opcode == "CALL":
            back = (*state.calls, at + 1)
            if self._related.forks[at]:
                yield _Option(_State(at + 1, state.letter, state.pending, state.calls))
            for target in instruction.targets:
                yield _Option(_State(target, state.letter, state.pending, back))
        elif instruction.opcode == "RET":
            if state.calls:
                calls = state.calls[:-1]
                yield _Option(_State(state.calls[-1], state.letter, state.pending, calls))
        elif self._related.forks[at] or instruction.opcode == "BRX":
            yield from self._at_branch(at, state, script)
        else:
            yield self._to(len(self._code), state, state.letter)

    def _to(
        self, pc: int, state: _State, letter: int, *, taken: int = -1, guess: bool = False
    ) -> _Option:
        """Go on at `pc`; where sides of a branch meet, at the other side first."""
        pending = state.pending
        while pending and pc == pending[-1][1]:
            pc = pending[-1][0]
            pending = pending[:-1]
        return _Option(_State(pc, letter, pending, state.calls), taken, guess)

    def _at_anchor(self, at: int, state: _State, script: Sequence[Letter]) -> Iterator[_Option]:
        kind, line = self._related.kinds[at], self._related.lines[at]
        assert kind is not None
        q = state.letter
        while q < len(script) and (script[q].kind == BRANCH or self._left_out(script[q], kind)):
            q += 1
        known = self._related.program.anchor_lines.get(kind, ())
        # Where registers do not suffice ptxas waits for products of its own accord.
        may_skip = self._code[at].guarded or (kind in ADDED and line not in known)
        skip = self._to(at + 1, state, state.letter)
        if q == len(script) or script[q].kind != kind:
            if may_skip:
                yield skip
            return
        if kind.startswith(LINES_LOST):
            fits = True
        elif line in known:
            fits = line == script[q].line
        else:  # ptxas gave it the line of a neighbour
            fits = not may_skip or script[q].line not in self._related.kind_lines[kind]
        # Of a loop whose last turn alone arrives, the branch that goes back comes first.
        later = not fits or q > state.letter
        if may_skip and later:
            yield skip
        yield self._to(at + 1, state, q + 1, taken=q, guess=not fits)
        if may_skip and not later:
            yield skip

    def _left_out(self, letter: Letter, kind: str) -> bool:
        """Whether ptxas left a wait out, before an anchor of another kind: one it added did it."""
        return (
            letter.kind in ADDED
            and letter.kind != kind
            and letter.line not in self._related.kind_lines.get(letter.kind, ())
        )

    def _at_chain(self, at: int, state: _State, script: Sequence[Letter]) -> Iterator[_Option]:
        """What a table of machine code says, by the letters of the branches that it came from."""
        chain, program = self._related.chains[at], self._related.program
        k, line = state.letter, chain.head
        while k < len(script) and script[k].kind == BRANCH and script[k].line != line:
            k += 1
        while k < len(script) and script[k].line == line and script[k].outcome in (ALL, NEITHER):
            to = program.flow.after[program.branches[line]][script[k].outcome]
            k += 1
            if to in chain.targets:
                for target in chain.targets[to]:
                    yield self._to(target, state, k)
                return
            following = program.next_branch(to)
            line = program.line_of(to if following is None else following)

    def _at_branch(self, at: int, state: _State, script: Sequence[Letter]) -> Iterator[_Option]:
        if at in self._related.chains:
            yield from self._at_chain(at, state, script)
        lines = self._related.branches.get(at, ())
        for line in lines:
            for target, letter in self._turns.choices(at, line, script, state.letter):
                yield self._to(target, state, letter)
            k = state.letter
            while k < len(script) and script[k].kind == BRANCH and script[k].line != line:
                k += 1
            if k < len(script) and script[k].kind == BRANCH:
                yield from self._told(at, state, k, script[k])
        for target in sorted(self._related.after[at], key=self._gives_up):
            guess = len(lines) == 1 or at in self._related.chains
            yield self._to(target, state, state.letter, guess=guess)

    def _gives_up(self, target: int) -> bool:
        """Whether a way begins by sleeping or calling, as it does when something went wrong."""
        if target == len(self._code):
            return False
        ranges, at = self._run(target, -1)
        ran = {self._code[k].opcode for start, stop in ranges for k in range(start, stop)}
        return self._code[at].opcode == "CALL" or bool(ran & {"NANOSLEEP", "BPT"})

    def _told(self, at: int, state: _State, k: int, letter: Letter) -> Iterator[_Option]:
        """The side that the script says, once it is known which side of the PTX each one is."""
        sides, after = self._related.side_of(at, letter.line), self._related.after[at]
        if letter.outcome in (ALL, NEITHER):
            wanted = [letter.outcome]
        elif self._code[at].opcode == "BRX":
            branch = self._related.program.branches[letter.line]
            targets = self._related.program.flow.after[branch]
            wanted = [
                j
                for j, to in enumerate(targets)
                if self._related.program.lines[to] == letter.outcome
            ]
        else:
            yield self._split(at, state, k)
            return
        for side, target in zip(sides, after, strict=True):
            if side in wanted:
                yield self._to(target, state, k + 1)
        if -1 in sides and letter.outcome in (ALL, NEITHER):
            yield self._to(after[letter.outcome], state, k + 1)
            yield self._to(after[1 - letter.outcome], state, k + 1)

    def _split(self, at: int, state: _State, k: int) -> _Option:
        """Both sides, one after the other, but for one that is empty."""
        meeting = self._related.flow.meeting(at)
        sides = [target for target in self._related.after[at] if target != meeting]
        pending = state.pending
        if len(sides) > 1:
            pending = (*pending, (sides[1], meeting))
        return _Option(_State(sides[0] if sides else meeting, k + 1, pending, state.calls))

    # ---- the search -----------------------------------------------------------------------------
    def way(self, script: Sequence[Letter]) -> Way:
        """Return the way of a warp with this script.

        Raises:
            Unmatched: there is none; says how far the script was followed, and where it ends.
        """
        places = [
            k
            for k, x in enumerate(script)
            if x.kind != BRANCH or x.line in self._related.branch_lines
        ]
        for k, (a, b) in enumerate(pairwise(places)):
            if (script[a].line, script[b].line) in self._related.exchanged:
                places[k : k + 2] = b, a
        letters = [script[k] for k in places]
        key = tuple((x.kind, x.line, x.outcome) for x in letters)
        if key not in self._ways:
            try:
                self._ways[key] = self._search(letters, guess=False)
            except Unmatched:
                self._ways[key] = self._search(letters, guess=True)
        found = self._ways[key]
        back = np.array([*places, -1], np.int32)  # index -1: no letter
        return Way(found.order, back[found.letters], found.guesses)

    def _search(self, script: Sequence[Letter], *, guess: bool) -> Way:
        """The first way that agrees with the script, without guesses or with them."""
        end, last = (
            len(self._code),
            max((k + 1 for k, x in enumerate(script) if x.kind != BRANCH), default=0),
        )
        nodes: list[Node] = []
        seen: set[_State] = set()
        open_ = [(-1, _Option(_State(0, 0)))]
        farthest, place = -1, 0
        while open_:
            parent, option = open_.pop()
            state = option.state
            if state.pc == end:
                if state.letter >= last:
                    return way_of(nodes, parent)
                continue
            if state in seen:
                continue
            seen.add(state)
            meeting = state.pending[-1][1] if state.pending else -1
            ranges, at = self._run(state.pc, meeting)
            if state.letter > farthest:
                farthest, place = state.letter, at
            if at == meeting:
                options = [self._to(at, state, state.letter)]
            else:
                options = [x for x in self._options(at, state, script) if guess or not x.guess]
            for choice in reversed(options):
                nodes.append(Node(parent, ranges, choice.letter, choice.guess))
                open_.append((len(nodes) - 1, choice))
        letter = script[farthest] if farthest < len(script) else None
        wanted = f"{letter.kind} of PTX line {letter.line}" if letter else "the end"
        raise Unmatched(
            f"{self._place(min(place, end - 1))}: after {farthest} of {len(script)} steps of the "
            f"script the next is {wanted}, to which no way leads"
        )
