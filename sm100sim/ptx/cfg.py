"""Where the lanes of a divergent branch meet again: immediate post-dominators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .program import Instr, Kernel

_LEAVING = ("ret", "exit", "trap")
_JUMPS = ("bra", *_LEAVING)


@dataclass(frozen=True, slots=True)
class Cfg:
    """Basic blocks and reconvergence points of a kernel.

    Attributes:
        leaders: first instruction of every block, ascending.
        successors: per block, the blocks that may follow; `len(leaders)` stands for the exit.
        post_dominators: per block, its immediate post-dominator; `len(leaders)` is the exit.
        reconverge: index of a guarded branch -> first instruction of the immediate post-dominator
            of its block, or `end` when the ways only meet at the kernel's exit.
        end: number of instructions, which stands for the kernel's exit.
    """

    leaders: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]
    post_dominators: tuple[int, ...]
    reconverge: dict[int, int]
    end: int


def _leaders(body: Sequence[Instr]) -> list[int]:
    found = {0}
    for ins in body:
        if ins.opcode in _JUMPS:
            found.add(ins.index + 1)
            if ins.target is not None:
                found.add(ins.target)
    return sorted(x for x in found if x < len(body))


def _successors(body: Sequence[Instr], leaders: Sequence[int]) -> list[tuple[int, ...]]:
    """Edges between blocks; running off the end leaves the kernel as `ret` does."""
    leave = len(leaders)
    number = {leader: k for k, leader in enumerate(leaders)}
    out = []
    for k, end in enumerate([*leaders[1:], len(body)]):
        last = body[end - 1]
        edges = []
        if last.target is not None:
            edges.append(number.get(last.target, leave))
        elif last.opcode in _LEAVING:
            edges.append(leave)
        if last.guard is not None or last.opcode not in _JUMPS:
            edges.append(k + 1)
        out.append(tuple(dict.fromkeys(edges)))
    return out


def _post_order(successors: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Blocks in post-order of a walk from the exit against the edges, and the completed edges.

    A block that cannot reach the exit gets an edge to it, the last such block first: the branches
    inside an endless loop then still have a meeting point.
    """
    leave = len(successors)
    edges = [list(followers) for followers in successors]
    predecessors: list[list[int]] = [[] for _ in range(leave + 1)]
    for block, followers in enumerate(edges):
        for follower in followers:
            predecessors[follower].append(block)
    order: list[int] = []
    seen = [False] * leave + [True]
    stack = [(leave, iter(predecessors[leave]))]
    unseen = leave - 1
    while stack:
        block, rest = stack[-1]
        other = next((p for p in rest if not seen[p]), -1)
        if other < 0 and block == leave:
            while unseen >= 0 and seen[unseen]:
                unseen -= 1
            if unseen >= 0:
                edges[unseen].append(leave)
                other = unseen
        if other >= 0:
            seen[other] = True
            stack.append((other, iter(predecessors[other])))
        else:
            order.append(block)
            stack.pop()
    return order, edges


def immediate_post_dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """Per block its immediate post-dominator; `len(successors)` is the exit.

    The iterative algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm") on
    the reversed graph.
    """
    leave = len(successors)
    order, edges = _post_order(successors)
    rank = {block: k for k, block in enumerate(order)}
    above = {leave: leave}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = above[a]
            while rank[b] < rank[a]:
                b = above[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            new = -1
            for follower in edges[block]:
                if follower in above:
                    new = follower if new < 0 else meet(new, follower)
            if above.get(block) != new:
                above[block] = new
                changed = True
    return [above[block] for block in range(leave)]


def build_cfg(kernel: Kernel) -> Cfg:
    """Blocks and reconvergence points of `kernel`.

    Every guarded `bra` counts as possibly divergent, with or without `.uni`.  Lanes that a guarded
    `ret` or `exit` removes meet nobody again, so these have no reconvergence point.
    """
    body = kernel.body
    leaders = _leaders(body)
    successors = _successors(body, leaders)
    meeting = immediate_post_dominators(successors)
    firsts = [*leaders, len(body)]
    reconverge = {}
    for block, end in enumerate(firsts[1:]):
        last = body[end - 1]
        if last.opcode == "bra" and last.guard is not None:
            reconverge[last.index] = firsts[meeting[block]]
    return Cfg(tuple(leaders), tuple(successors), tuple(meeting), reconverge, len(body))
