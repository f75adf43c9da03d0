from __future__ import annotations

import pytest

from fa4_cute.plan.barriers.named import (
    NAMED_BARRIERS,
    NUM_NAMED_BARRIERS,
    NamedBarrier,
    render_named_barriers,
)


@pytest.mark.parametrize("kind", NAMED_BARRIERS)
def test_no_two_uses_of_a_kernel_collide(kind: str) -> None:
    numbers = [n for barrier in NAMED_BARRIERS[kind] for n in barrier.numbers]
    assert len(numbers) == len(set(numbers))
    # 0 is the barrier of the whole CTA.
    assert all(0 < n < NUM_NAMED_BARRIERS for n in numbers)


@pytest.mark.parametrize("kind", NAMED_BARRIERS)
def test_whole_warps_meet(kind: str) -> None:
    assert all(b.threads % 32 == 0 and b.threads > 0 for b in NAMED_BARRIERS[kind])


def test_the_table_is_drawn() -> None:
    lines = render_named_barriers("1q").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["1-2", "store", "128"],
        ["3", "dealloc", "256"],
        ["4", "join", "256"],
    ]


@pytest.mark.parametrize(("number", "count"), [(0, 1), (16, 1), (15, 2)])
def test_numbers_that_a_cta_does_not_have_are_refused(number: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"number={number}: named barriers are 1 to 15"):
        NamedBarrier(number, "none", "nothing", 128, count)
