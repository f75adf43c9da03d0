"""Values are asked at once, and one after the other for the message: both find the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.host.ask.lengths import (
    Given,
    Integers,
    Room,
    check_counts,
    check_pages,
    check_positions,
    longest,
    longest_sequences,
    sequence_lengths,
)
from fa4_cute.plan.facts.numbers import MAX_SEQLEN

small = st.integers(-2, 9)


def ints(*values: int, name: str = "n") -> Integers:
    return Integers(name, (len(values),), [*values])


def words(call: Callable[..., object], *arguments: object, **named: object) -> str:
    """Return the message of the error that a call raises; nothing where it raises none."""
    try:
        call(*arguments, **named)
    except ValueError as error:
        return str(error)
    return ""


@given(st.lists(small, max_size=5), st.lists(small, min_size=5, max_size=5) | st.none())
def test_the_first_wrong_length_is_named(values: list[int], limits: list[int] | None) -> None:
    found = words(check_counts, ints(*values), len(values), limits, "rows")
    for i, value in enumerate(values):
        if value < 0:
            assert found == f"n[{i}]={value}: must be 0 or more"
            return
        if limits is not None and value > limits[i]:
            assert found.startswith(f"n[{i}]={value}: exceeds the {limits[i]} rows")
            return
    assert not found


@given(st.lists(small, min_size=1, max_size=5), small, st.booleans())
def test_the_first_wrong_offset_is_named(values: list[int], total: int, whole: bool) -> None:
    found = words(sequence_lengths, ints(*values), total, whole=whole)
    if values[0] != 0:
        assert found == f"n[0]={values[0]}: must be 0"
        return
    for i, (one, other) in enumerate(pairwise(values), 1):
        if other < one:
            assert found.startswith(f"n[{i}]={other}: less than n[{i - 1}]={one};")
            return
    if values[-1] > total or (whole and values[-1] != total):
        assert found.startswith(f"n[-1]={values[-1]}: must be")
        return
    lengths = sequence_lengths(ints(*values), total, whole=whole)
    assert not found
    assert lengths is not None
    assert [sum(lengths[:i]) for i in range(len(values))] == values


@given(st.lists(st.integers(0, 9), max_size=4), st.integers(0, 9))
def test_the_first_sequence_that_is_too_long_is_named(lengths: list[int], most: int) -> None:
    found = words(longest, "m", most, lengths)
    wrong = [i for i, length in enumerate(lengths) if length > most]
    if wrong:
        assert found.startswith(f"m={most}: sequence {wrong[0]} has {lengths[wrong[0]]} rows")
        assert found.endswith(f"choice: {max(lengths)}")
    else:
        assert longest("m", most, lengths) == most
        assert longest("m", None, lengths) == max(lengths, default=0)


@given(st.tuples(*[small] * 6), st.tuples(*[st.integers(0, 12)] * 2))
def test_the_first_wrong_page_that_is_used_is_named(
    pages: tuple[int, ...], used: tuple[int, ...]
) -> None:
    table = Integers("page_table", (2, 3), [*pages])
    found = words(check_pages, table, ints(*used), page_size=4, num_pages=7)
    for row, length in enumerate(used):
        for i in range(-(-length // 4)):
            if not 0 <= pages[3 * row + i] < 7:
                assert found.startswith(f"page_table[{row}, {i}]={pages[3 * row + i]}: pages are")
                return
    assert not found


@pytest.mark.parametrize("value", [MAX_SEQLEN + 1, -MAX_SEQLEN - 1])
def test_positions_have_31_bits(value: int) -> None:
    check_positions(ints())
    check_positions(ints(MAX_SEQLEN, -MAX_SEQLEN))
    with pytest.raises(ValueError, match=rf"n\[1\]={value}: positions are signed 32-bit numbers"):
        check_positions(ints(0, value, value))


def test_unchecked_values_are_left_alone() -> None:
    unknown = Integers("n", (3,), None)
    check_positions(unknown)
    check_counts(unknown, 3, [0, 0, 0], "rows")
    assert sequence_lengths(unknown, 5, whole=True) is None
    given_ = Given(unknown, unknown, None, None)
    assert longest_sequences(given_, Room((9, 1), (9, 1), 4, 6)) == (4, 6, None)
