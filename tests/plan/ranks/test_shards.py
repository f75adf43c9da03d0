"""Every row has one holder, and shards go back together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.ranks.shards import Layout, Run, Shards

LENGTHS = st.lists(st.integers(0, 70), max_size=4).map(tuple)
SHARDS = st.builds(Shards, LENGTHS, st.integers(1, 9), st.sampled_from(Layout))


def test_zigzag_pairs_an_early_chunk_with_a_late_one() -> None:
    shards = Shards((80, 16), 2, Layout.ZIGZAG)
    assert shards.runs(0) == (
        (Run(0, 0, 0, 20, 0), Run(0, 0, 60, 80, 20)),
        (Run(0, 1, 0, 4, 40), Run(0, 1, 12, 16, 44)),
    )
    assert shards.runs(1)[1] == (Run(1, 1, 4, 8, 40), Run(1, 1, 8, 12, 44))


def test_contiguous_gives_one_chunk() -> None:
    shards = Shards((10,), 3, Layout.CONTIGUOUS)
    assert [shards.runs(rank) for rank in range(3)] == [
        ((Run(0, 0, 0, 3, 0),),), ((Run(1, 0, 3, 6, 0),),), ((Run(2, 0, 6, 10, 0),),)
    ]  # fmt: skip


def test_fewer_rows_than_ranks_leave_ranks_without_rows() -> None:
    shards = Shards((1,), 4, Layout.ZIGZAG)
    assert [shards.rows(rank) for rank in range(4)] == [1, 0, 0, 0]
    assert shards.runs(3) == ((),)


@settings(deadline=None)
@given(SHARDS)
def test_every_row_is_held_once(shards: Shards) -> None:
    rows = [(run.sequence, row) for run in shards.in_order() for row in range(run.start, run.stop)]
    assert rows == [(n, row) for n, length in enumerate(shards.lengths) for row in range(length)]
    assert sum(map(shards.rows, range(shards.ranks))) == sum(shards.lengths)
    assert shards.most_rows() == max(map(shards.rows, range(shards.ranks)))


@settings(deadline=None)
@given(SHARDS)
def test_a_shard_is_filled_without_a_gap(shards: Shards) -> None:
    for rank in range(shards.ranks):
        runs = [run for runs in shards.runs(rank) for run in runs]
        assert {run.rank for run in runs} <= {rank}
        assert [run.local for run in runs] == [0, *(run.local_stop for run in runs[:-1])][
            : len(runs)
        ]
        assert runs == sorted(runs, key=lambda run: (run.sequence, run.start))
        assert not runs or runs[-1].local_stop == shards.rows(rank)


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(1, 9), st.sampled_from(Layout))
def test_shares_are_even(length: int, ranks: int, layout: Layout) -> None:
    shares = [Shards((length,), ranks, layout).rows(rank) for rank in range(ranks)]
    assert max(shares) - min(shares) <= (2 if layout is Layout.ZIGZAG else 1)


def test_starts_are_those_of_the_whole_sequences() -> None:
    assert Shards((5, 0, 7), 2, Layout.ZIGZAG).starts() == (0, 5, 5, 12)
