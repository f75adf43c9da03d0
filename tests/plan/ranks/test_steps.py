"""What ranks compute together is what one device computes; what they wait for is sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.ranks.band import CAUSAL, FULL, Band, Piece
from fa4_cute.plan.ranks.shards import Layout, Shards
from fa4_cute.plan.ranks.steps import Call, ContextPlan, Part, joined
from tests.plan.ranks.test_band import BANDS, pairs, visible

Held = list[tuple[int, int]]
"""Sequence and position of every row of a shard or block."""


@st.composite
def plans(draw: st.DrawFn) -> ContextPlan:
    lengths_q = tuple(draw(st.lists(st.integers(0, 20), max_size=3)))
    same = draw(st.booleans())
    lengths_k = lengths_q if same else tuple(draw(st.integers(0, 20)) for _ in lengths_q)
    ranks, layout = draw(st.integers(1, 5)), draw(st.sampled_from(Layout))
    band = draw(st.one_of(st.just(CAUSAL), BANDS))
    return ContextPlan(Shards(lengths_q, ranks, layout), Shards(lengths_k, ranks, layout), band)


def zigzag(length: int, ranks: int, band: Band = CAUSAL) -> ContextPlan:
    shards = Shards((length,), ranks, Layout.ZIGZAG)
    return ContextPlan(shards, shards, band)


def held(shards: Shards, rank: int) -> Held:
    return [(x.sequence, i) for y in shards.runs(rank) for x in y for i in range(x.start, x.stop)]


def seen(calls: tuple[Call, ...], rows: Held, keys: Held) -> Counter[tuple[int, int, int]]:
    """(sequence, query, key) of every pair that calls compute."""
    found: Counter[tuple[int, int, int]] = Counter()
    for call in calls:
        for part in call.parts:
            for row, key in pairs(Piece(part.rows, part.keys, call.band)):
                assert rows[row][0] == keys[key][0]
                found[*rows[row], keys[key][1]] += 1
    return found


def expected(plan: ContextPlan) -> set[tuple[int, int, int]]:
    lengths = zip(plan.queries.lengths, plan.keys.lengths, strict=True)
    return {
        (n, r - (of_k - of_q), k)
        for n, (of_q, of_k) in enumerate(lengths)
        for r, k in visible((of_k - of_q, of_k), (0, of_k), plan.band)
    }


@settings(deadline=None)
@given(plans())
def test_the_ring_sees_every_visible_pair_once(plan: ContextPlan) -> None:
    total: Counter[tuple[int, int, int]] = Counter()
    for rank in range(plan.ranks):
        for step in plan.ring(rank):
            total += seen(step.calls, held(plan.queries, rank), held(plan.keys, step.source))
    assert set(total) == expected(plan)
    assert set(total.values()) <= {1}


@settings(deadline=None)
@given(plans())
def test_whole_keys_show_every_visible_pair_once(plan: ContextPlan) -> None:
    whole = [(n, i) for n, length in enumerate(plan.keys.lengths) for i in range(length)]
    total: Counter[tuple[int, int, int]] = Counter()
    for rank in range(plan.ranks):
        total += seen(plan.whole_calls(rank), held(plan.queries, rank), whole)
    assert set(total) == expected(plan)
    assert set(total.values()) <= {1}


@settings(deadline=None)
@given(plans())
def test_no_call_has_a_row_twice(plan: ContextPlan) -> None:
    for rank in range(plan.ranks):
        for step in plan.ring(rank):
            for call in step.calls:
                rows = [row for part in call.parts for row in range(*part.rows)]
                assert len(rows) == len(set(rows))


@settings(deadline=None)
@given(plans())
def test_what_is_received_was_sent_in_the_same_step(plan: ContextPlan) -> None:
    rings = [plan.ring(rank) for rank in range(plan.ranks)]
    for rank, ring in enumerate(rings):
        here: int | None = rank
        for number, step in enumerate(ring):
            before = rings[rank - 1]
            sent = before[number].source if number < len(before) and before[number].sends else None
            assert step.receives == sent
            # A block is there, and not empty, before it is used or passed on.
            if step.calls or step.sends:
                assert here == step.source
                assert plan.keys.rows(step.source)
            here = step.receives
        after = rings[(rank + 1) % plan.ranks]
        assert not any(step.sends for step in ring[len(after) :])


def test_a_zigzag_ring_makes_one_call_a_step_and_all_ranks_work_alike() -> None:
    plan = zigzag(64, 4)
    work = []
    for rank in range(4):
        calls = [step.calls for step in plan.ring(rank)]
        assert [len(each) for each in calls] == [1, 1, 1, 1]
        assert [each[0].band for each in calls] == [CAUSAL, FULL, FULL, FULL]
        rows = held(plan.queries, rank)
        work.append(
            [
                seen(step.calls, rows, held(plan.keys, step.source)).total()
                for step in plan.ring(rank)
            ]
        )
    assert all(one == work[0] for one in work)
    assert plan.ring(1)[1].calls == (Call(FULL, (Part((0, 16), (0, 8)),)),)
    assert plan.ring(1)[2].calls == (Call(FULL, (Part((8, 16), (0, 16)),)),)


def test_contiguous_chunks_leave_late_keys_out() -> None:
    shards = Shards((64,), 4, Layout.CONTIGUOUS)
    plan = ContextPlan(shards, shards, CAUSAL)
    calls = [sum(len(step.calls) for step in plan.ring(rank)) for rank in range(4)]
    assert calls == [1, 2, 3, 4]
    assert [plan.last_step(source) for source in range(4)] == [3, 2, 1, 0]
    assert not plan.needs(0, 1)
    assert [[step.sends for step in plan.ring(rank)] for rank in (0, 2, 3)] == [
        [True], [True, True, True], [False, False, False, False]
    ]  # fmt: skip


def test_a_window_ends_the_ring_early() -> None:
    shards = Shards((64,), 4, Layout.CONTIGUOUS)
    plan = ContextPlan(shards, shards, Band(15, 0))
    assert [len(plan.ring(rank)) for rank in range(4)] == [1, 2, 2, 2]
    assert [plan.last_step(source) for source in range(4)] == [1, 1, 1, 0]


def test_sequences_share_a_call() -> None:
    shards = Shards((32, 8, 16), 2, Layout.ZIGZAG)
    plan = ContextPlan(shards, shards, CAUSAL)
    (first,), (second,) = (step.calls for step in plan.ring(1))
    assert first == Call(CAUSAL, tuple(Part(x, x) for x in ((0, 16), (16, 20), (20, 28))))
    assert second == Call(
        FULL, (Part((0, 16), (0, 8)), Part((16, 20), (16, 18)), Part((20, 28), (20, 24)))
    )


def test_neighbours_are_joined() -> None:
    stair = [Piece((0, 3), (0, 3), CAUSAL), Piece((3, 5), (0, 3), FULL),
             Piece((3, 5), (3, 5), CAUSAL)]  # fmt: skip
    assert joined(stair) == [Piece((0, 5), (0, 5), CAUSAL)]
    longer = [*stair[:2], Piece((3, 5), (3, 6), CAUSAL)]
    assert joined(longer) == longer
    blocks = [Piece((0, 2), (0, 4), FULL), Piece((2, 6), (0, 4), FULL)]
    assert joined(blocks) == [Piece((0, 6), (0, 4), FULL)]


@pytest.mark.parametrize("layout", Layout)
def test_the_page_draws_the_steps(layout: Layout) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "distributed.md").read_text()
    page = page.replace("\n", " \n")
    chunks = layout.chunks(4)
    shards = Shards((chunks,), 4, layout)
    plan = ContextPlan(shards, shards, CAUSAL)
    for rank in range(4):
        drawn = {row: ["."] * chunks for _, row in held(shards, rank)}
        for number, step in enumerate(plan.ring(rank)):
            keys = held(shards, step.source)
            for _, row, key in seen(step.calls, held(shards, rank), keys):
                drawn[row][key] = str(number)
        for row, steps in drawn.items():
            assert f"{row}    {' '.join(steps)} " in page
