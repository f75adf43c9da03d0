"""Masks as unions of intervals, against what they show row by row and key by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.key_tiles import visible_keys
from fa4_cute.plan.masks.masks import (
    CAUSAL,
    HOST,
    MAX_TERMS,
    NULL,
    AndMask,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    OrMask,
    PaddingMask,
    SlidingWindowMask,
    Term,
    leaves,
    terms,
)
from tests.plan.mask_cases import MOST_KEYS, added, lengths, masks, shows, trees, with_bias

REAL: Any = 1.5
TEXT: Any = "8"
"""Of types that are refused."""
keys = st.integers(0, MOST_KEYS)
rows = st.integers(-50, MOST_KEYS + 50)


def terms_of(mask: Mask) -> tuple[Term, ...]:
    """The terms, for masks that do not have too many of them."""
    try:
        return terms(mask)
    except NotImplementedError:
        assume(False)
        raise


@settings(deadline=None)
@given(masks, rows, keys, lengths)
def test_visible_keys_are_those_of_the_definition(
    mask: Mask, row: int, num_keys: int, valid: tuple[int, ...]
) -> None:
    terms_of(mask)
    expected = {key for key in range(num_keys) if shows(mask, row, key, valid)}
    assert visible_keys(mask, row, num_keys, valid) == expected


@settings(deadline=None)
@given(trees(with_bias), rows, keys.filter(bool), lengths, st.data())
def test_terms_add_what_the_mask_adds(
    mask: Mask, row: int, num_keys: int, valid: tuple[int, ...], data: st.DataObject
) -> None:
    """The largest sum of biases among the terms that show a key is what the mask adds there."""
    found = terms_of(mask)
    key = data.draw(st.integers(0, num_keys - 1))
    biases = (data.draw(st.integers(-4, 4)), data.draw(st.integers(-4, 4)))
    sums = []
    for term in found:
        span = term.interval(row, num_keys, valid, HOST)
        if span.start <= key < span.stop:
            sums.append(float(sum(biases[bias.slot] for bias in term.biases)))
    assert max(sums, default=None) == added(mask, row, key, valid, biases)


@settings(deadline=None)
@given(masks, rows, keys, lengths)
def test_ends_only_move_right(
    mask: Mask, row: int, num_keys: int, valid: tuple[int, ...]
) -> None:
    """What the tile arithmetic rests on: first and last row bound all rows between."""
    for term in terms_of(mask):
        here = term.interval(row, num_keys, valid, HOST)
        below = term.interval(row + 1, num_keys, valid, HOST)
        assert here.start <= below.start
        assert here.stop <= below.stop


@settings(deadline=None)
@given(trees(with_bias))
def test_names_are_legal_in_ptx(mask: Mask) -> None:
    assert mask.name
    assert mask.name.replace("_", "a").isalnum()
    assert mask.name.isascii()


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (CAUSAL | CAUSAL, [{CAUSAL}]),
        (CAUSAL | NULL, [set()]),
        (CAUSAL & NULL, [{CAUSAL}]),
        (NULL & NULL, [set()]),
        # The narrower of two terms goes.
        (CAUSAL | (CAUSAL & ChunkedMask(8)), [{CAUSAL}]),
        ((CAUSAL & ChunkedMask(8)) | CAUSAL, [{CAUSAL}]),
        (
            (CAUSAL | PaddingMask(0)) & ChunkedMask(8),
            [{CAUSAL, ChunkedMask(8)}, {PaddingMask(0), ChunkedMask(8)}],
        ),
        # A term with a bias may be larger than a wider one without.
        (DenseBiasMask(0) | NULL, [{DenseBiasMask(0)}, set()]),
    ],
)
def test_terms_in_cases_known_by_hand(mask: Mask, expected: list[set[Mask]]) -> None:
    assert [set(term.leaves) for term in terms(mask)] == expected


def test_a_bias_taken_twice_is_added_twice() -> None:
    (term,) = terms(AndMask(DenseBiasMask(0), AndMask(CAUSAL, DenseBiasMask(0))))
    assert [bias.slot for bias in term.biases] == [0, 0]


def test_too_many_intervals_are_refused() -> None:
    mask: Mask = ChunkedMask(1)
    for size in range(2, MAX_TERMS + 1):
        mask = mask | ChunkedMask(size)
    assert len(terms(mask)) == MAX_TERMS
    with pytest.raises(NotImplementedError, match=f"a union of {MAX_TERMS + 1} intervals.*at most"):
        terms(mask | ChunkedMask(99))


def test_leaves_from_left_to_right() -> None:
    mask = OrMask(AndMask(CAUSAL, PaddingMask(1)), CAUSAL)
    assert leaves(mask) == (CAUSAL, PaddingMask(1), CAUSAL)


def test_names_of_the_usual_masks() -> None:
    assert CAUSAL.name == "causal"
    assert SlidingWindowMask(3, None).name == "window_3_n"
    assert (ChunkedMask(64) & CAUSAL).name == "chunked_64_and_causal"
    assert (PaddingMask(0) | DenseBiasMask(1)).name == "padding0_or_bias1"
    assert DenseBiasMask(2, at_once=8).name == "bias2_x8"
    assert DenseBiasMask(0, DType.FP16).name == "bias0_fp16"
    assert DenseBiasMask(0, DType.BF16, 16).name == "bias0_bf16_x16"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: SlidingWindowMask(-1, 0), ValueError, "left=-1: must be 0 or more"),
        (lambda: SlidingWindowMask(0, -2), ValueError, "right=-2: must be 0 or more"),
        (lambda: SlidingWindowMask(REAL, 0), TypeError, "left=1.5: expected an integer, got float"),
        (lambda: SlidingWindowMask(True, 0), TypeError, "left=True"),
        (lambda: SlidingWindowMask(2**31, 0), ValueError, "must be below"),
        (lambda: ChunkedMask(0), ValueError, "size=0: must be 1 or more"),
        (lambda: ChunkedMask(TEXT), TypeError, "size='8'"),
    ],
)
def test_sizes_outside_the_domain(
    make: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)


@settings(deadline=None)
@given(
    st.sampled_from([SlidingWindowMask(2**31 - 1025, 2**31 - 1025), ChunkedMask(2**31 - 1025)]),
    st.integers(-(2**31) + 2**11, 2**31 - 2**11),
    st.integers(0, 2**31 - 2**11),
)
def test_no_value_leaves_32_bits(mask: Mask, row: int, num_keys: int) -> None:
    """The same arithmetic runs on 32-bit registers: here it counts in a type that overflows."""
    seen = mask.interval(Int32(row), Int32(num_keys), (), COUNTED)
    assert all(-(2**31) <= int(end) < 2**31 for end in (seen.start, seen.stop))


class Int32(int):
    """An integer that refuses to leave 32 bits."""

    def __new__(cls, value: int) -> Int32:
        assert -(2**31) <= value < 2**31, value
        return super().__new__(cls, value)

    def __add__(self, other: int) -> Int32:
        return Int32(int(self) + int(other))

    __radd__ = __add__

    def __sub__(self, other: int) -> Int32:
        return Int32(int(self) - int(other))

    def __rsub__(self, other: int) -> Int32:
        return Int32(int(other) - int(self))

    def __mul__(self, other: int) -> Int32:
        return Int32(int(self) * int(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Int32:
        return Int32(int(self) // int(other))


COUNTED = type(HOST)(
    minimum=lambda a, b: Int32(min(a, b)),
    maximum=lambda a, b: Int32(max(a, b)),
    select=lambda c, a, b: Int32(a if c else b),
)
