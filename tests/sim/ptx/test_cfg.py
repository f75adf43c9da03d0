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


def reconvergence(body: str) -> dict[int, int]:
    return build_cfg(kernel(body)).reconverge


def test_if_without_else() -> None:
    assert reconvergence("@%p1 bra END; nop; nop; END: ret;") == {0: 3}


def test_if_else() -> None:
    assert reconvergence("@%p1 bra ELSE; nop; bra END; ELSE: nop; END: ret;") == {0: 4}


def test_loop_meets_behind_its_last_branch() -> None:
    assert reconvergence("HEAD: nop; nop; @%p1 bra HEAD; nop; ret;") == {2: 3}


def test_try_wait_loop_of_inline_assembly() -> None:
    body = "{ .reg .pred d; TRY: test d; @d bra END; bra TRY; END: }\nnop; ret;"
    assert reconvergence(body) == {1: 3}


def test_nested_shapes() -> None:
    body = (
        "L: @%p1 bra A; @%p2 bra B; nop; B: nop; bra J; A: nop;"  # 0 1 2 3 4 5
        "J: @!%p3 bra L; nop; ret;"  # 6 7 8
    )
    assert reconvergence(body) == {0: 6, 1: 3, 6: 7}


def test_early_exit_moves_the_meeting_point_to_the_end() -> None:
    assert reconvergence("@%p1 bra OUT; nop; ret; OUT: nop; exit;") == {0: 5}
    assert reconvergence("@%p1 bra OUT; nop; exit; OUT: nop; exit;") == {0: 5}
    assert build_cfg(kernel("@%p1 bra OUT; trap; OUT: exit;")).successors == ((2, 1), (3,), (3,))


def test_guarded_return_falls_through_but_is_no_branch() -> None:
    cfg = build_cfg(kernel("@%p1 bra A; @%p2 ret; nop; A: nop; ret;"))
    assert cfg.reconverge == {0: 5}
    assert cfg.leaders == (0, 1, 2, 3)
    assert cfg.successors == ((3, 1), (4, 2), (3,), (4,))


def test_branch_to_the_next_instruction_and_to_the_end() -> None:
    assert reconvergence("@%p1 bra N; N: nop; @%p2 bra END; nop; END:") == {0: 1, 2: 4}


def test_unguarded_branches_need_no_meeting_point() -> None:
    cfg = build_cfg(kernel("bra.uni A; nop; A: ret;"))
    assert (cfg.reconverge, cfg.end) == ({}, 3)


def test_empty_kernel() -> None:
    cfg = build_cfg(kernel(""))
    assert (cfg.leaders, cfg.successors, cfg.reconverge, cfg.end) == ((), (), {}, 0)


def test_branch_inside_an_endless_loop_meets_at_the_end_of_an_iteration() -> None:
    body = "HEAD: @%p1 bra A; nop; bra JOIN; A: nop; JOIN: nop; bra HEAD;"
    assert reconvergence(body) == {0: 4}
    # The same with the two ways written behind the block where they meet.
    turned = "bra HEAD; JOIN: nop; bra HEAD; HEAD: @%p1 bra A; nop; bra JOIN; A: nop; bra JOIN;"
    assert reconvergence(turned) == {3: 1}


def test_inner_loop_of_an_endless_loop_meets_behind_it() -> None:
    body = "OUTER: nop; INNER: @%p1 bra DONE; nop; bra INNER; DONE: nop; bra OUTER;"
    assert reconvergence(body) == {1: 4}


def test_ways_that_end_in_a_trap_keep_nobody_from_meeting() -> None:
    inside = "@%p1 bra OUT; @%p2 bra BAD; nop; OUT: nop; exit; BAD: nop; bra WORSE; WORSE: trap;"
    assert reconvergence(inside) == {0: 3, 1: 2}
    assert reconvergence("@%p1 bra BAD; nop; @%p2 trap; ret; BAD: @%p1 bra X; trap; X: trap;") == {
        0: 1,
        4: 7,
    }
    looped = "L: @%p1 bra BAD; @%p2 bra L; ret; BAD: trap;"
    assert reconvergence(looped) == {0: 1, 1: 2}
