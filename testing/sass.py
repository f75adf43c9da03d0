"""SM100 machine code from ``nvdisasm -hex``: its instructions, and stall counts along paths.

A stall count is the cycles before its warp may issue the next instruction. The
sum along a path is a lower bound of the time a warp needs for it: waits for loads, busy pipes and
other warps come on top (``docs/sources.md`` section 14).
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from fa4_cute.host.compile import cache
from fa4_cute.host.compile.compiler import CompiledArtifact
from sm100sim.timing.sass.disassemble import Listing
from sm100sim.timing.sass.kinds import successors
from sm100sim.timing.sass.tools import listing

FEWEST_EXPONENTIALS = 16
"""A softmax tile has at least this many; correction and epilogue have none."""


SPILL = re.compile(r"\b(LDL|STL)\b")
"""A load or store of local memory."""

@dataclass(frozen=True)
class Instruction:
    """One instruction: text, stall cycles, and the indices of those that may follow it."""

    text: str
    stall: int
    successors: tuple[int, ...]


def disassemble(cubin: bytes) -> list[Instruction]:
    """Return the instructions of the only kernel in ``cubin``.

    Raises:
        FileNotFoundError: when nvdisasm is not installed.
        ValueError: when ``nvdisasm`` refuses the file.
    """
    return parse(listing(cubin))


def parse(text: str) -> list[Instruction]:
    """Return the instructions of a listing of ``nvdisasm -hex -c``."""
    code = tuple(Listing.of(text).instructions())
    return [
        Instruction(str(i), i.stall, tuple(to for to in successors(code, k) if to < len(code)))
        for k, i in enumerate(code)
    ]


def fewest_stalls(code: list[Instruction], start: int) -> dict[int, int]:
    """Return, for every instruction reachable from ``start``, the fewest stalls on the way."""
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        cost, index = heapq.heappop(queue)
        if cost > best[index]:
            continue
        for following in code[index].successors:
            reached = cost + code[index].stall
            if reached < best.get(following, reached + 1):
                best[following] = reached
                heapq.heappush(queue, (reached, following))
    return best


def spills(code: list[Instruction]) -> int:
    """Return the number of local-memory loads and stores."""
    return sum(bool(SPILL.search(instruction.text)) for instruction in code)


@dataclass(frozen=True)
class SoftmaxLoop:
    """Stall cycles from the wait for S to the two hand-overs of P, and to the next wait for S.

    A kernel that hands P over at once has both figures alike.
    """

    three_quarters: int
    all_of_p: int
    turn: int


def softmax_loops(code: list[Instruction]) -> Iterator[SoftmaxLoop]:
    """Yield the softmax tiles of a kernel of the 2Q family, in code order.

    A tile starts at the last wait before a load from Tensor Memory; a hand-over is an arrival right
    after the completion of stores to Tensor Memory. The first hand-over of a tile comes after
    enough exponentials; the next one is the tile's, too, where the same warp gets there before it
    waits for other scores, and else P
    was handed over as a whole. Other roles' waits may lie anywhere.
    """
    waits = _matching(code, r"TRYWAIT")
    before = [_last_before(waits, load) for load in _matching(code, r"LDTM")]
    starts = [wait for wait in before if wait is not None]
    handed = _hand_overs(code)
    taken = -1
    for first, second in zip_longest(handed, handed[1:], fillvalue=-1):
        start = _last_before(starts, first)
        if first == taken or start is None:
            continue
        if len(_matching(code, r"MUFU\.EX2", start, first)) < FEWEST_EXPONENTIALS:
            continue
        cost = fewest_stalls(code, start)
        if first in cost:
            is_of_tile = second in cost and _last_before(starts, second) == start
            taken = second if is_of_tile else first
            yield SoftmaxLoop(cost[first], cost[taken], _turn(code, start, cost))


def _hand_overs(code: list[Instruction]) -> list[int]:
    fences = _matching(code, r"FENCE\.VIEW\.ASYNC\.T")
    arrivals = [_next_of(code, fence, r"SYNCS\.ARRIVE", 40) for fence in fences]
    return [arrival for arrival in arrivals if arrival]


def _last_before(found: list[int], index: int) -> int | None:
    count = bisect_left(found, index)
    return found[count - 1] if count else None


def _turn(code: list[Instruction], start: int, cost: dict[int, int]) -> int:
    """Return the fewest stalls from ``start`` back to it; 0 when it lies in no loop."""
    back = [cost[i] + code[i].stall for i in cost if start in code[i].successors]
    return min(back, default=0)


def _matching(
    code: list[Instruction], pattern: str, start: int = 0, end: int | None = None
) -> list[int]:
    stop = len(code) if end is None else end
    return [i for i in range(start, stop) if re.search(pattern, code[i].text)]


def _next_of(code: list[Instruction], index: int, pattern: str, reach: int) -> int | None:
    found = _matching(code, pattern, index + 1, min(index + 1 + reach, len(code)))
    return found[0] if found else None


def pair_loop(code: list[Instruction]) -> SoftmaxLoop:
    """Return the softmax tile of a depth-512 kernel: it hands P over once.

    P has been stored to shared memory, or, to head dim 256, to Tensor Memory.
    """
    first_load = _matching(code, r"LDTM")[0]
    start = _matching(code, r"TRYWAIT", 0, first_load)[-1]
    stored = _matching(code, r"FENCE\.VIEW\.ASYNC\.[ST]", start)[0]
    cost = fewest_stalls(code, start)
    handed = cost[_matching(code, r"SYNCS\.ARRIVE", stored)[0]]
    return SoftmaxLoop(handed, handed, _turn(code, start, cost))


@lru_cache(maxsize=64)
def compiled(spec: Any) -> CompiledArtifact:
    """Compile ``spec`` once, for all processes that share a cache."""
    return cache.compiled(spec)


@lru_cache(maxsize=16)
def instructions(spec: Any) -> tuple[Instruction, ...]:
    """Return the machine code of a kernel."""
    return tuple(disassemble(compiled(spec).cubin))


def spilled(spec: Any) -> list[str]:
    """Return the local-memory loads and stores of a kernel."""
    return [line.text for line in instructions(spec) if SPILL.search(line.text)]
