"""Reconvergence points: hand-made shapes, and the definition on random graphs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm100sim.ptx import build_cfg
from sm100sim.ptx.cfg import immediate_post_dominators
from tests.sim.ptx.snippets import kernel

Graph = Sequence[Sequence[int]]


def reaches_exit(graph: Graph, start: int, without: int = -1) -> bool:
    """Whether a path from `start` leaves the graph and avoids the block `without`."""
    leave = len(graph)
    seen, todo = {start}, [start] if start != without else []
    while todo:
        block = todo.pop()
        if block == leave:
            return True
        new = [b for b in graph[block] if b != without and b not in seen]
        seen.update(new)
        todo += new
    return False


def closest_post_dominator(graph: Graph, block: int) -> int:
    """The strict post-dominator of `block` that all its other strict post-dominators follow."""
    found = [
        p for p in range(len(graph)) if p != block and not reaches_exit(graph, block, without=p)
    ]
    for p in found:
        if all(q == p or not reaches_exit(graph, p, without=q) for q in found):
            return p
    return len(graph)


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Random control-flow graphs in which every block reaches the exit."""
    size = draw(st.integers(1, 9))
    blocks = st.lists(st.integers(0, size), min_size=1, max_size=3, unique=True)
    graph = [draw(blocks) for _ in range(size)]
    for block in range(size):
        if not reaches_exit(graph, block):
            graph[block].append(size)
    return graph


@pytest.mark.slow
@settings(max_examples=400)
@given(graphs())
def test_post_dominators_match_the_definition(graph: list[list[int]]) -> None:
    expected = [closest_post_dominator(graph, block) for block in range(len(graph))]
    assert immediate_post_dominators(graph) == expected


@pytest.mark.slow
@given(st.data(), st.integers(1, 9))
def test_endless_loops_still_have_an_answer(data: st.DataObject, size: int) -> None:
    """Without a way out every block still gets a block or the exit, and chains lead to the exit."""
    blocks = st.lists(st.integers(0, size), min_size=1, max_size=2, unique=True)
    found = immediate_post_dominators([data.draw(blocks) for _ in range(size)])
    for start in range(size):
        block, steps = start, 0
        while block < size:
            block, steps = found[block], steps + 1
            assert steps <= size


MEETINGS = {
    "if": ("@%p1 bra END; nop; nop; END: ret;", {0: 3}),
    "if, else": ("@%p1 bra ELSE; nop; bra END; ELSE: nop; END: ret;", {0: 4}),
    "after the last branch of a loop": ("HEAD: nop; nop; @%p1 bra HEAD; nop; ret;", {2: 3}),
    "the loop of a wait in inline assembly": (
        "{ .reg .pred d; TRY: test d; @d bra END; bra TRY; END: }\nnop; ret;", {1: 3}),
    "nested": (  # 0 1 2 3 4 5, then 6 7 8
        "L: @%p1 bra A; @%p2 bra B; nop; B: nop; bra J; A: nop; J: @!%p3 bra L; nop; ret;",
        {0: 6, 1: 3, 6: 7}),
    "an early return: at the end": ("@%p1 bra OUT; nop; ret; OUT: nop; exit;", {0: 5}),
    "an early exit: at the end": ("@%p1 bra OUT; nop; exit; OUT: nop; exit;", {0: 5}),
    "branches to the next instruction and to the end": (
        "@%p1 bra N; N: nop; @%p2 bra END; nop; END:", {0: 1, 2: 4}),
    "the end of an iteration of an endless loop": (
        "HEAD: @%p1 bra A; nop; bra JOIN; A: nop; JOIN: nop; bra HEAD;", {0: 4}),
    "the same, with both ways written after the block where they meet": (
        "bra HEAD; JOIN: nop; bra HEAD; HEAD: @%p1 bra A; nop; bra JOIN; A: nop; bra JOIN;",
        {3: 1}),
    "after the inner loop of an endless one": (
        "OUTER: nop; INNER: @%p1 bra DONE; nop; bra INNER; DONE: nop; bra OUTER;", {1: 4}),
    "ways that end in a trap do not count": (
        "@%p1 bra OUT; @%p2 bra BAD; nop; OUT: nop; exit; BAD: nop; bra WORSE; WORSE: trap;",
        {0: 3, 1: 2}),
    "where all ways end in a trap": (
        "@%p1 bra BAD; nop; @%p2 trap; ret; BAD: @%p1 bra X; trap; X: trap;", {0: 1, 4: 7}),
    "a trap out of a loop": ("L: @%p1 bra BAD; @%p2 bra L; ret; BAD: trap;", {0: 1, 1: 2}),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), MEETINGS.values(), ids=MEETINGS)
def test_where_ways_meet(body: str, expected: dict[int, int]) -> None:
    assert build_cfg(kernel(body)).reconverge == expected


def test_a_trap_has_no_successor_but_the_end() -> None:
    assert build_cfg(kernel("@%p1 bra OUT; trap; OUT: exit;")).successors == ((2, 1), (3,), (3,))


def test_guarded_return_falls_through_but_is_no_branch() -> None:
    cfg = build_cfg(kernel("@%p1 bra A; @%p2 ret; nop; A: nop; ret;"))
    assert cfg.reconverge == {0: 5}
    assert cfg.leaders == (0, 1, 2, 3)
    assert cfg.successors == ((3, 1), (4, 2), (3,), (4,))


def test_unguarded_branches_need_no_meeting_point() -> None:
    cfg = build_cfg(kernel("bra.uni A; nop; A: ret;"))
    assert (cfg.reconverge, cfg.end) == ({}, 3)


def test_empty_kernel() -> None:
    cfg = build_cfg(kernel(""))
    assert (cfg.leaders, cfg.successors, cfg.reconverge, cfg.end) == ((), (), {}, 0)
