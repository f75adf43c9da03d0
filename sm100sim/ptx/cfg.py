"""Where the lanes of a divergent branch meet again: immediate post-dominators."""

from __future__ import annotations

from dataclasses import dataclass

from .program import Kernel

NO_MEETING = -1
"""`Cfg.reconverge` of branches whose ways only meet at the kernel's end."""


@dataclass(frozen=True)
class Cfg:
    """Basic blocks and reconvergence points of a kernel.

    Attributes:
        leaders: first instruction of every block, ascending.
        successors: per block, the blocks that may follow; `len(leaders)` stands for the exit.
        reconverge: branch instruction index -> first instruction of its immediate post-dominator.
    """

    leaders: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]
    reconverge: dict[int, int]


def _blocks(kernel: Kernel) -> tuple[list[int], list[tuple[int, ...]]]:
    body = kernel.body
    leaders = {0}
    for ins in body:
        if ins.opcode in ("bra", "ret", "exit"):
            leaders.add(ins.index + 1)
            if ins.target is not None:
                leaders.add(ins.target)
    ordered = sorted(x for x in leaders if x < len(body))
    number = {leader: k for k, leader in enumerate(ordered)}
    exit_block = len(ordered)
    successors = []
    for k in range(len(ordered)):
        end = ordered[k + 1] if k + 1 < len(ordered) else len(body)
        last = body[end - 1]
        following = k + 1 if k + 1 < len(ordered) else exit_block
        out = []
        if last.opcode == "bra":
            assert last.target is not None
            out.append(number.get(last.target, exit_block))
        elif last.opcode in ("ret", "exit"):
            out.append(exit_block)
        if last.guard is not None or last.opcode not in ("bra", "ret", "exit"):
            out.append(following)
        successors.append(tuple(dict.fromkeys(out)))
    return ordered, successors


def _post_order(successors: list[tuple[int, ...]]) -> list[int]:
    """Blocks in post-order of a depth-first walk of the reversed graph, from the exit."""
    exit_block = len(successors)
    predecessors: list[list[int]] = [[] for _ in range(exit_block + 1)]
    for block, out in enumerate(successors):
        for follower in out:
            predecessors[follower].append(block)
    order: list[int] = []
    seen = {exit_block}
    stack = [(exit_block, iter(predecessors[exit_block]))]
    while stack:
        block, rest = stack[-1]
        for other in rest:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(predecessors[other])))
                break
        else:
            order.append(block)
            stack.pop()
    return order


def immediate_post_dominators(successors: list[tuple[int, ...]]) -> list[int]:
    """Per block its immediate post-dominator; `len(successors)` is the exit, -1: never leaves.

    The iterative algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm") on
    the reversed graph.
    """
    exit_block = len(successors)
    order = _post_order(successors)
    rank = {block: k for k, block in enumerate(order)}
    idom = {exit_block: exit_block}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] < rank[b]:
                a = idom[a]
            while rank[b] < rank[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            new = -1
            for follower in successors[block]:
                if follower in idom:
                    new = follower if new < 0 else meet(new, follower)
            if idom.get(block) != new:
                idom[block] = new
                changed = True
    return [idom.get(block, -1) for block in range(exit_block)]


def build_cfg(kernel: Kernel) -> Cfg:
    """Blocks and reconvergence points of `kernel`."""
    leaders, successors = _blocks(kernel)
    meeting = immediate_post_dominators(successors)
    reconverge = {}
    ends = [*leaders[1:], len(kernel.body)]
    for k, end in enumerate(ends):
        last = kernel.body[end - 1]
        if last.opcode == "bra" and last.guard is not None:
            at = meeting[k]
            reconverge[last.index] = leaders[at] if 0 <= at < len(leaders) else NO_MEETING
    return Cfg(tuple(leaders), tuple(successors), reconverge)
