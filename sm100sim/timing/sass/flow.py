"""Control flow of PTX or of machine code: blocks, where ways meet, what only one leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..records import Indices


class Flow:
    """Blocks of a program whose instructions have successors and lines.

    Blocks are numbered in the order of the program; one more, the last, is the end. Sets of blocks
    are integers with a bit each.
    """

    def __init__(
        self, after: Sequence[Sequence[int]], lines: Sequence[int | None], end_lines: set[int]
    ) -> None:
        """Build the blocks.

        Args:
            after: successors of each instruction; the number of instructions stands for the end.
            lines: line of each instruction. end_lines: those of the end.
        """
        self.after = after
        count = len(after)
        leaders = {0, count}
        for index, following in enumerate(after):
            if tuple(following) != (index + 1,):
                leaders |= {index + 1, *following}
        self._starts = sorted(leader for leader in leaders if leader <= count)
        self.block_of = [0] * (count + 1)
        for block, start in enumerate(self._starts):
            stop = self._starts[block + 1] if block + 1 < len(self._starts) else count + 1
            self.block_of[start:stop] = [block] * (stop - start)
        self._lines: list[set[int]] = [set() for _ in self._starts]
        for index, line in enumerate(lines):
            if line is not None:
                self._lines[self.block_of[index]].add(line)
        self._lines[-1] |= end_lines
        self._after_block = [
            tuple(dict.fromkeys(self.block_of[target] for target in after[stop - 1]))
            for stop in self._starts[1:]
        ] + [()]

    def _reach(self, start: int, without: int) -> int:
        """Blocks that a way from `start` can come through that does not pass `without`."""
        seen, open_ = 0, [start]
        while open_:
            block = open_.pop()
            if seen >> block & 1 or block == without:
                continue
            seen |= 1 << block
            open_ += self._after_block[block]
        return seen

    def sides(self, index: int, ways: Sequence[int] | None = None) -> list[set[int]]:
        """For each way on from a branch, the lines that only it leads to.

        Args:
            index: the branch. ways: instructions; its successors when not given.
        """
        here = self.block_of[index]
        starts = self.after[index] if ways is None else ways
        reached = [self._reach(self.block_of[to], here) for to in starts]
        found = []
        for k, mine in enumerate(reached):
            others = 0
            for j, other in enumerate(reached):
                others |= other if j != k else 0
            found.append(self._lines_of(mine & ~others))
        return found

    def _lines_of(self, blocks: int) -> set[int]:
        found: set[int] = set()
        for block, lines in enumerate(self._lines):
            if blocks >> block & 1:
                found |= lines
        return found

    @cached_property
    def _behind(self) -> list[int]:
        """For each block, those that every way from it to the end comes through."""
        count = len(self._starts)
        everything = (1 << count) - 1
        behind = [everything] * (count - 1) + [1 << count - 1]
        changed = True
        while changed:
            changed = False
            for block in range(count - 2, -1, -1):
                now = everything if self._after_block[block] else 0
                for following in self._after_block[block]:
                    now &= behind[following]
                now |= 1 << block
                if now != behind[block]:
                    behind[block], changed = now, True
        return behind

    def meeting(self, index: int) -> int:
        """The instruction where the ways of a branch meet again; the end if they do not before."""
        here = self.block_of[index]
        common = self._behind[here] & ~(1 << here)
        size = common.bit_count()
        for block in range(len(self._starts)):
            # the nearest has all others behind it
            if common >> block & 1 and (self._behind[block] & common).bit_count() == size:
                return self._starts[block]
        return self._starts[-1]


@dataclass(frozen=True)
class Way:
    """A way through machine code.

    Attributes:
        order: executed instructions.
        letters: for each, the index of the letter that it is in the script, or -1.
        guesses: decisions that neither script nor anchors confirmed.
    """

    order: Indices
    letters: Indices
    guesses: int


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of a way: its parent, executed ranges, its letter, and whether it was a guess."""

    parent: int
    ranges: tuple[tuple[int, int], ...]
    letter: int
    guess: bool


def way_of(nodes: list[Node], last: int) -> Way:
    """Return the way that ends with piece `last`."""
    pieces: list[Node] = []
    while last >= 0:
        pieces.append(nodes[last])
        last = nodes[last].parent
    pieces.reverse()
    starts: list[int] = []
    stops: list[int] = []
    letters: list[int] = []
    for node in pieces:
        for start, stop in node.ranges:
            starts.append(start)
            stops.append(stop)
            letters.append(-1)
        if node.letter >= 0:
            letters[-1] = node.letter
    sizes = np.array(stops, np.int64) - np.array(starts, np.int64)
    ends = np.cumsum(sizes)
    order = np.arange(ends[-1] if len(ends) else 0) + np.repeat(
        np.array(starts, np.int64) - (ends - sizes), sizes
    )
    of = np.full(len(order), -1, np.int32)
    of[ends - 1] = letters
    return Way(order.astype(np.int32), of, sum(node.guess for node in pieces))
