"""When the last query tile ends of those that go to whoever is free."""

from __future__ import annotations

from heapq import heapreplace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import choose, require
from fa4_cute.plan.launch import handed
from fa4_cute.plan.launch.handed import HandedOrder
from fa4_cute.plan.masks.query_tiles import KeptOrder


def followed(order: list[int], places: int) -> int:
    ends = [0] * places
    for load in order:
        heapreplace(ends, ends[0] + load)
    return max(ends)


@given(
    st.lists(st.integers(1, 99), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 3),
    st.integers(1, 4), st.data(),
)  # fmt: skip
def test_the_order_is_that_in_which_the_device_hands_out(
    loads: list[int], section: int, sections: int, places: int, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, len(loads)))
    every = section * sections
    device = KeptOrder(section, sections, len(loads), kept)
    order = [loads[device.place(index)[0]] for index in range(every * len(loads))]
    found = HandedOrder(every, section, kept).busiest(tuple(loads), places)
    if len(order) <= handed.FOLLOWED * places:
        assert found == followed(order, places)


def test_of_many_query_tiles_the_last_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    order, loads = HandedOrder(heads=6, section=1), (40, 10)
    assert order.busiest(loads, 2) == followed([40, 10] * 6, 2)
    monkeypatch.setattr(handed, "FOLLOWED", 2)
    # Two heads of six are followed; the 200 of the others end in both places at once.
    assert order.busiest(loads, 2) == 100 + followed([40, 10] * 2, 2)


def test_sections_hold_the_heads_whose_keys_fit_the_l2() -> None:
    def found(keys: int, **changes: Any) -> HandedOrder:
        problem = Problem("bf16", 2, keys, keys, 6, 6, 128, 128, causal=True, num_qo=2)
        spec = require(choose(problem)).spec
        return HandedOrder.of(spec, problem.sizes, **changes)

    assert found(16384, keeps_short=False) == HandedOrder(heads=12, section=3)
    # 32 MB over 512 bytes of a key of 12 heads are 5,461 keys, so 21 query tiles of 256.
    # What keeps short ones has sections of heads of all sequences.
    assert found(16384, keeps_short=True) == HandedOrder(heads=12, section=4, kept=21)
    assert found(1024, keeps_short=False) == HandedOrder(heads=12, section=6)
    assert found(1024, keeps_short=True) == HandedOrder(heads=12, section=12, kept=4)
