"""How a dynamic scheduler's query tiles are handed out by their predicted times."""

from __future__ import annotations

import pytest

from benchmarks.timing.side_by_side.dynamic import Mixed, taken_over
from benchmarks.timing.side_by_side.extents import Layout


@pytest.mark.parametrize(
    ("tiles", "places", "last"),
    [
        ([4.0, 4.0], 2, 4.0),
        # The long one's CTA has claimed the third at its start; the other one takes the rest.
        ([3.0, 1.0, 1.0, 1.0, 1.0], 2, 4.0),
        ([1.0, 2.0, 1.0, 1.0], 2, 3.0),
        ([1.0, 1.0, 1.0], 1, 3.0),
    ],
)
def test_a_cta_claims_a_query_tile_when_it_begins_the_one_before(
    tiles: list[float], places: int, last: float
) -> None:
    assert taken_over(tiles, places, 0.0) == last
    assert taken_over(tiles, places, 10.0) == 10.0 + last


def test_query_tiles_of_mixed_lengths_are_those_that_have_queries() -> None:
    layout = Layout(rows=256, cluster=1, persistent=True)
    every = Mixed(2, 600, 600, causal=False, lengths=(600, 100))
    assert every.tiles(layout) == [600, 600, 100, 100, *[600] * 4]
    alone = Layout(rows=256, cluster=1, persistent=False)
    assert every.tiles(alone) == [600] * 6 + [100] * 2
    causal = Mixed(1, 600, 600, causal=True, lengths=(600, 100))
    assert causal.tiles(layout) == [600, 512, 256, 100]
