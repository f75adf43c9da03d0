"""Scales of packed keys: aligned, apart, and inside their row."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.config.token_rows import packed_start, row_floats
from fa4_cute.plan.facts.hardware import TMA_ALIGN, UMMA_MAX_N


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 9))
def test_packed_sequences_are_apart_and_aligned(lengths: list[int], unused: int) -> None:
    firsts = [0, *accumulate(lengths)]
    starts = [packed_start(first, number) for number, first in enumerate(firsts)]
    assert all(start * 4 % TMA_ALIGN == 0 for start in starts)
    for (start, following), length in zip(pairwise(starts), lengths, strict=True):
        assert start + length <= following
    # Rows behind the last sequence follow it, and a key tile may start at its last key.
    assert starts[-2] + lengths[-1] + unused + UMMA_MAX_N <= row_floats(
        firsts[-1] + unused, len(lengths)
    )


def test_a_single_row_has_room_for_a_tile() -> None:
    assert row_floats(0) == UMMA_MAX_N
    assert row_floats(5) == 8 + UMMA_MAX_N
