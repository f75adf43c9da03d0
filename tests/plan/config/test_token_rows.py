"""Scales of packed keys: every key starts a group in one of the copies of a row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.config.token_rows import COPIES, copy_floats, packed_start, row_floats
from fa4_cute.plan.facts.hardware import TMA_ALIGN, UMMA_MAX_N


@given(st.integers(0, 100), st.data())
def test_packed_sequences_are_aligned_and_inside_a_copy(total: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, total))
    width = copy_floats(total)
    start = packed_start(first, COPIES * width)
    copy, place = divmod(start, width)
    assert start * 4 % TMA_ALIGN == 0
    # The scale of a key stands at its own place of a copy, and a tile may start at the last one.
    assert copy < COPIES
    assert place == first
    assert first + UMMA_MAX_N <= width


@pytest.mark.parametrize("num_keys", [0, 1, 4, 7])
def test_rows_of_heads_are_aligned(num_keys: int) -> None:
    assert row_floats(num_keys) * 4 % TMA_ALIGN == 0
    assert COPIES * copy_floats(num_keys) * 4 % TMA_ALIGN == 0


def test_a_single_row_has_room_for_a_tile() -> None:
    assert row_floats(0) == UMMA_MAX_N
    assert row_floats(5) == 8 + UMMA_MAX_N
