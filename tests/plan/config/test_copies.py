"""What copies of few rows leave for one another: every sum has a place of its own."""

from __future__ import annotations

from itertools import product

import pytest

from fa4_cute.plan.config.copies import ROW_COPIES, RowCopiesPlan
from fa4_cute.plan.facts.hardware import VECTOR_COLUMNS, WARP_GROUP_THREADS

PLANS = [
    RowCopiesPlan(copies, WARP_GROUP_THREADS // copies, columns)
    for copies in ROW_COPIES[1:]
    for columns in (64, 128, 256)
]


@pytest.mark.parametrize("num_groups", [1, 2])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_places_do_not_meet_and_fill_the_memory(plan: RowCopiesPlan, num_groups: int) -> None:
    """A share of a group's is left by all copies but the one that adds it up."""
    taken: set[int] = set()
    vectors = plan.share(num_groups) // VECTOR_COLUMNS
    shares = range(num_groups * plan.copies)
    for share, turn in product(shares, range(1, plan.copies)):
        first = plan.offset(share, turn, num_groups)
        for vector, row in product(range(vectors), range(plan.rows)):
            place = first + vector * plan.vector_bytes + row * plan.row_bytes
            assert place % plan.row_bytes == 0
            assert place not in taken
            taken.add(place)
    assert (min(taken), max(taken) + plan.row_bytes) == (0, plan.size)
    assert len(taken) * plan.row_bytes == plan.size


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_shares_are_whole_vectors_of_all_columns(plan: RowCopiesPlan) -> None:
    for num_groups in (1, 2):
        share = plan.share(num_groups)
        assert share % (2 * VECTOR_COLUMNS) == 0  # units of 16 bytes of a 16-bit O
        assert share * plan.copies * num_groups == plan.columns
