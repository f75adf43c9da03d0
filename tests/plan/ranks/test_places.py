"""Results of a rank's calls have places in which no row is kept twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.ranks.band import CAUSAL, FULL
from fa4_cute.plan.ranks.places import MOST_PLACES, Place, places
from fa4_cute.plan.ranks.shards import Layout, Shards
from fa4_cute.plan.ranks.steps import Call, ContextPlan, Part


def call(*rows: tuple[int, int]) -> Call:
    return Call(FULL, tuple(Part(span, (0, 1)) for span in rows))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=12), st.integers(2, 4))
def test_no_row_is_in_a_place_twice(sizes: list[tuple[int, int]], most: int) -> None:
    calls = [call((start, start + count)) for start, count in sizes]
    taken: dict[int, set[int]] = {}
    for one, place in zip(calls, places(calls, most), strict=True):
        if place.folds:
            assert len(taken) == most
            taken = {0: set(range(100))}
        rows = set(range(*one.parts[0].rows))
        assert place.number < most
        assert not taken.setdefault(place.number, set()) & rows
        taken[place.number] |= rows


def test_a_place_is_left_free_only_if_it_has_to_be() -> None:
    found = places([call((0, 4)), call((4, 9)), call((2, 3)), call((0, 2), (5, 6)), call((3, 4))])
    assert [place.number for place in found] == [0, 0, 1, 1, 1]


def test_rings_and_all_gather() -> None:
    shards = Shards((4096,), 4, Layout.ZIGZAG)
    plan = ContextPlan(shards, shards, CAUSAL)
    for rank in range(4):
        assert set(places(plan.whole_calls(rank))) == {Place(0)}
        ring = [call for step in plan.ring(rank) for call in step.calls]
        assert max(place.number for place in places(ring)) < 4


def test_a_long_ring_folds() -> None:
    found = places([call((0, 4))] * (MOST_PLACES + 2))
    assert [place.folds for place in found].count(True) == 1
    assert found[MOST_PLACES:] == (Place(1, folds=True), Place(2))
