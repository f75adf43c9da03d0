"""Pieces of a band hold every visible pair once, whatever block they are cut from."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.masks.masks import HOST, SlidingWindowMask
from fa4_cute.plan.ranks.band import CAUSAL, FULL, Band, Piece, Span, cover

SIDES = st.one_of(st.none(), st.integers(0, 12))
BANDS = st.builds(Band, SIDES, SIDES)
ROWS = st.tuples(st.integers(-9, 30), st.integers(0, 14)).map(lambda x: (x[0], x[0] + x[1]))
KEYS = st.tuples(st.integers(0, 30), st.integers(0, 14)).map(lambda x: (x[0], x[0] + x[1]))


def pairs(piece: Piece) -> list[tuple[int, int]]:
    """What a plain call of the piece sees, by the mask that its kernel is made from."""
    mask = SlidingWindowMask(piece.band.left, piece.band.right)
    (first_row, row_stop), (first_key, key_stop) = piece.rows, piece.keys
    num_keys = key_stop - first_key
    found = []
    for row in range(first_row, row_stop):
        place = row - row_stop + num_keys
        seen = mask.interval(place, num_keys, (), HOST)
        stop = min(seen.stop, num_keys)
        found += [(row, first_key + key) for key in range(max(seen.start, 0), stop)]
    return found


def visible(rows: Span, keys: Span, band: Band) -> set[tuple[int, int]]:
    """The same by the definition."""
    return {
        (r, k)
        for r in range(*rows)
        for k in range(*keys)
        if (band.left is None or k >= r - band.left) and (band.right is None or k <= r + band.right)
    }


@settings(deadline=None)
@given(ROWS, KEYS, BANDS)
def test_every_visible_pair_is_in_one_piece(rows: Span, keys: Span, band: Band) -> None:
    pieces = cover(rows, keys, band)
    found = [pair for piece in pieces for pair in pairs(piece)]
    assert len(found) == len(set(found))
    assert set(found) == visible(rows, keys, band)
    assert bool(pieces) == band.meets(rows, keys)


@settings(deadline=None)
@given(ROWS, KEYS, BANDS)
def test_four_kernels_serve_a_band(rows: Span, keys: Span, band: Band) -> None:
    both = (band.left or 0) + (band.right or 0)
    allowed = {FULL, CAUSAL, Band(0, None), Band(both, 0)}
    pieces = cover(rows, keys, band)
    assert {piece.band for piece in pieces} <= allowed
    assert all(x[0] < x[1] for piece in pieces for x in (piece.rows, piece.keys))
    if band == CAUSAL:
        assert {piece.band for piece in pieces} <= {FULL, CAUSAL}


def test_a_block_below_the_diagonal_is_one_full_piece_and_one_above_none() -> None:
    assert cover((8, 16), (0, 8), CAUSAL) == [Piece((8, 16), (0, 8), FULL)]
    assert cover((0, 8), (8, 16), CAUSAL) == []
    assert cover((8, 16), (8, 16), CAUSAL) == [Piece((8, 16), (8, 16), CAUSAL)]


def test_a_shifted_diagonal_is_a_triangle_and_what_is_below_it() -> None:
    assert cover((0, 8), (0, 5), CAUSAL) == [
        Piece((0, 5), (0, 5), CAUSAL), Piece((5, 8), (0, 5), FULL)
    ]  # fmt: skip
    assert cover((4, 8), (0, 6), CAUSAL) == [
        Piece((4, 6), (0, 6), CAUSAL), Piece((6, 8), (0, 6), FULL)
    ]  # fmt: skip


def test_keys_behind_a_window_are_left_out() -> None:
    assert cover((20, 24), (0, 16), Band(6, 0)) == [
        Piece((20, 22), (14, 16), Band(0, None)),
    ]  # fmt: skip
    assert cover((20, 24), (0, 14), Band(6, 0)) == []
