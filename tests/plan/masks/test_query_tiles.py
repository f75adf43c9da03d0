"""The order in which dynamic CTAs are handed query tiles, against walking through it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.masks.query_tiles import KeptOrder, SequenceOrder


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.data())
def test_sections_come_one_after_the_other_and_what_is_kept_after_all(
    heads: int, sections: int, tiles: int, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, tiles))
    order = KeptOrder(heads, sections, tiles, kept)
    walked = [
        (tile, section * heads + head)
        for section in range(sections) for tile in range(tiles - kept) for head in range(heads)
    ]  # fmt: skip
    every = heads * sections
    walked += [(tile, head) for tile in range(tiles - kept, tiles) for head in range(every)]
    assert [order.place(index) for index in range(every * tiles)] == walked


def test_a_last_section_does_not_begin_when_little_is_left() -> None:
    """Of two heads the short query tiles are handed out after the long ones of both."""
    kept = KeptOrder(heads=1, sections=2, tiles=4, kept=2)
    assert [kept.place(index)[0] for index in range(8)] == [0, 1, 0, 1, 2, 2, 3, 3]
    none = KeptOrder(heads=1, sections=2, tiles=4, kept=0)
    assert [none.place(index)[0] for index in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6))
def test_sequences_come_one_after_the_other_the_longest_query_tiles_of_all_heads_first(
    heads: int, sequences: int, tiles: int
) -> None:
    order = SequenceOrder(heads, tiles)
    walked = [
        (tile, head, sequence)
        for sequence in range(sequences) for tile in range(tiles) for head in range(heads)
    ]  # fmt: skip
    assert [order.place(index) for index in range(heads * sequences * tiles)] == walked
