"""Where the lanes of a divergent branch meet again: immediate post-dominators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .program import Function, Instr

_LEAVING = ("ret", "exit", "trap")
_JUMPS = ("bra", "brx", *_LEAVING)


@dataclass(frozen=True, slots=True)
class Cfg:
    """Basic blocks and reconvergence points of a kernel.

    Attributes:
        leaders: first instruction of every block, ascending.
        successors: per block, the blocks that may follow; `len(leaders)` stands for the exit.
        post_dominators: per block, its immediate post-dominator; `len(leaders)` is the exit.
        reconverge: index of a guarded or indirect branch -> first instruction of the immediate
            post-dominator of its block, or `end` when the ways only meet at the kernel's exit.
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
            found.update(ins.table)
    return sorted(x for x in found if x < len(body))


def _successors(body: Sequence[Instr], leaders: Sequence[int]) -> list[tuple[int, ...]]:
    """Edges between blocks; running off the end leaves the kernel as `ret` does."""
    leave = len(leaders)
    number = {leader: k for k, leader in enumerate(leaders)}
    out = []
    for k in range(leave):
        end = leaders[k + 1] if k + 1 < leave else len(body)
        last = body[end - 1]
        edges = []
        if last.target is not None:
            edges.append(number.get(last.target, leave))
        elif last.opcode in _LEAVING:
            edges.append(leave)
        edges += [number.get(target, leave) for target in last.table]
        if last.guard is not None or last.opcode not in _JUMPS:
            edges.append(k + 1)
        out.append(tuple(dict.fromkeys(edges)))
    return out


def _without_traps(successors: Sequence[Sequence[int]], trapped: set[int]) -> list[list[int]]:
    """The graph without the ways that can only end in a trap, which ends the launch.

    So what comes after an assertion in one arm of a branch does not keep the arms from meeting.
    """
    leave = len(successors)
    doomed = set(trapped)
    before = _reversed(successors)
    left = list(doomed)
    while left:
        for block in before[left.pop()]:
            if block not in doomed and all(other in doomed for other in successors[block]):
                doomed.add(block)
                left.append(block)
    return [
        [leave] if block in doomed else [other for other in followers if other not in doomed]
        for block, followers in enumerate(successors)
    ]


def _walk(edges: Sequence[Sequence[int]], start: int) -> list[int]:
    """Nodes reached from `start`, each after the nodes that were reached through it."""
    order: list[int] = []
    seen = {start}
    stack = [(start, iter(edges[start]))]
    while stack:
        node, rest = stack[-1]
        for other in rest:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(edges[other])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def _reversed(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Predecessors of every block and of the exit."""
    predecessors: list[list[int]] = [[] for _ in range(len(successors) + 1)]
    for block, followers in enumerate(successors):
        for follower in followers:
            predecessors[follower].append(block)
    return predecessors


def _with_exits(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """The graph with an edge to the exit added to every endless loop.

    The branches inside such a loop then still have a meeting point.  The edge starts at the last
    block that jumps back to the head of the outermost loop, where an iteration ends.
    """
    leave = len(successors)
    edges = [list(followers) for followers in successors]
    endless = set(range(leave)) - set(_walk(_reversed(edges), leave))
    if not endless:
        return edges
    forward = _walk([*edges, []], 0)
    rank = {block: len(forward) - k for k, block in enumerate(forward)}
    while endless:
        back = [
            (-rank[head], rank[block], block)
            for block in endless & rank.keys()
            for head in edges[block]
            if rank[head] <= rank[block]
        ]
        edges[max(back)[2] if back else max(endless)].append(leave)
        endless = set(range(leave)) - set(_walk(_reversed(edges), leave))
    return edges


def immediate_post_dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """Per block its immediate post-dominator.

    `len(successors)` is the exit, block 0 the entry.  The iterative algorithm of Cooper, Harvey and
    Kennedy ("A Simple, Fast Dominance Algorithm") on the reversed graph.
    """
    leave = len(successors)
    edges = _with_exits(successors)
    order = _walk(_reversed(edges), leave)
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


def build_cfg(kernel: Function) -> Cfg:
    """Blocks and reconvergence points of a kernel or device function.

    Every guarded `bra` counts as possibly divergent, with or without `.uni`.  Lanes that a guarded
    `ret` or `exit` removes meet nobody again, so these have no reconvergence point.  A call is an
    instruction like others: its lanes go on after it together.
    """
    body = kernel.body
    leaders = _leaders(body)
    successors = _successors(body, leaders)
    firsts = [*leaders, len(body)]
    lasts = [body[end - 1] for end in firsts[1:]]
    trapped = {k for k, last in enumerate(lasts) if last.opcode == "trap" and last.guard is None}
    meeting = immediate_post_dominators(_without_traps(successors, trapped))
    reconverge = {}
    for block, end in enumerate(firsts[1:]):
        last = body[end - 1]
        if last.opcode == "brx" or (last.opcode == "bra" and last.guard is not None):
            reconverge[last.index] = firsts[meeting[block]]
    return Cfg(tuple(leaders), tuple(successors), tuple(meeting), reconverge, len(body))
