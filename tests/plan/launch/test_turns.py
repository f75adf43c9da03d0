"""The fixed order of persistent CTAs: loads of query tiles, how even they fall, and sections."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.tiles import SECTION_BYTES, AttentionSizes
from fa4_cute.plan.launch.turns import (
    choose_section,
    key_loads,
    unevenness,
    works,
)
from fa4_cute.plan.masks.key_tiles import KeyTileMap, Rows, most_visited
from fa4_cute.plan.masks.masks import SlidingWindowMask
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Scheduler, Variant


def spec_of(head_dim: int, group: int = 1) -> SM90Spec:
    return SM90Spec.for_attention(DType.BF16, head_dim, group=group, causal=True)


@given(st.sampled_from([64, 96, 128]), st.sampled_from([1, 2, 8]), st.integers(1, 2000),
       st.integers(1, 2000))  # fmt: skip
def test_loads_are_the_keys_that_the_last_row_of_a_query_tile_sees(
    head_dim: int, group: int, queries: int, keys: int
) -> None:
    spec = spec_of(head_dim, group)
    size, before = spec.config.PairBM_eff(), spec.positions_before(queries)
    loads = key_loads(spec, queries, keys, keys)
    assert 0 <= before < size
    assert sum(len(range(max(0, t * size - before), min(queries, (t + 1) * size - before)))
               for t in range(len(loads))) == queries  # fmt: skip
    for tile, load in enumerate(reversed(loads)):
        last = (tile + 1) * size - before - 1 + keys - queries
        rows = Rows(last, last, keys)
        assert -(-load // 64) == KeyTileMap.of(spec.variant.terms, rows, 64).count


@pytest.mark.parametrize(
    ("queries", "before", "first"),
    [(512, 64, 128), (1024, 128, 64), (576, 0, 192), (1, 128, 1), (577, 128, 64)],
)
def test_idle_consumers_come_with_the_shortest_query_tile(
    queries: int, before: int, first: int
) -> None:
    """Three Q tiles of 64 rows: the last query tile has as many of them as there are."""
    assert spec_of(64).positions_before(queries) == before
    assert key_loads(spec_of(64), queries, queries, queries)[-1] == min(first, queries)
    assert spec_of(128).positions_before(queries) == 0


def test_a_window_bounds_the_loads() -> None:
    assert key_loads(spec_of(128), 512, 512, 200) == (200, 200, 200, 128)


@pytest.mark.parametrize(
    ("loads", "heads", "section", "ctas", "expected"),
    [((2, 1), 2, 1, 2, 1.0), ((2, 1), 1, 1, 2, 4 / 3), ((3, 2, 1), 2, 1, 2, 4 / 3),
     ((1, 1, 1), 2, 1, 2, 1.0), ((1,), 3, 1, 2, 4 / 3), ((3, 2, 1), 2, 2, 2, 1.0),
     (tuple(range(64, 0, -1)), 10**6, 1, 64, 1.0), ((0, 0), 1, 1, 2, 0.0)],
)  # fmt: skip
def test_the_busiest_cta(
    loads: tuple[int, ...], heads: int, section: int, ctas: int, expected: float
) -> None:
    """E.g. works of 3, 2, 1, 3, 2, 1: CTA 0 has the first, fourth and fifth of two."""
    assert unevenness(loads, heads, section, ctas) == pytest.approx(expected)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 4), st.integers(1, 4))
def test_sections_hold_every_work_once(each: list[int], section: int, sections: int) -> None:
    found = list(works(tuple(each), section * sections, section))
    assert found == [load for load in each for _ in range(section)] * sections


def test_the_most_even_section_that_fits_is_chosen() -> None:
    """Query tiles of 3, 2 and 1 times as many keys."""
    spec = spec_of(128)
    length = 3 * spec.config.PairBM_eff()
    sizes = AttentionSizes(1, length, length, 2, 2)
    assert choose_section(spec, sizes, 2, 2, 1) == (2, 1.0)
    assert choose_section(spec, sizes, 2, 2, SECTION_BYTES).heads == 1
    assert choose_section(spec, sizes, 3, 1, 1) == (1, 1.0)


def test_narrow_heads_share_ctas_and_not_the_l2() -> None:
    """Of equally even sections theirs is the largest; with 132 CTAs at most 66 heads."""
    narrow, wide = spec_of(64), spec_of(96)
    sizes, one = (AttentionSizes(1, n, n, 1, 1) for n in (1024, 128))
    assert choose_section(narrow, sizes, 512, 132, SECTION_BYTES).heads == 16
    assert choose_section(wide, sizes, 512, 132, 1).heads == 1
    assert choose_section(narrow, one, 528, 132, 1).heads == 66


@given(
    st.integers(0, 3000), st.integers(1, 6), st.integers(1, 60), st.integers(1, 20),
    st.sampled_from((64, 128)), st.sampled_from((KernelSpec, SM90Spec)),
)  # fmt: skip
def test_what_a_section_of_windows_sees_fits_the_l2(
    left: int, tiles: int, heads: int, places: int, dim: int, specify: Any
) -> None:
    """Unless one head is too much for it; and none that is larger is as even."""
    variant = Variant(SlidingWindowMask(left, 0), scheduler=Scheduler.PERSISTENT)
    spec = specify.for_attention(DType.BF16, dim, variant=variant)
    rows, block = spec.config.PairBM_eff(), spec.config.BN
    sizes = AttentionSizes(1, rows * tiles, rows * tiles, heads, heads)
    of_key = 2**14
    found = choose_section(spec, sizes, heads, places, of_key)
    longest = most_visited(variant.mask, rows, rows * tiles, block)
    assert heads % found.heads == 0
    assert found.heads == 1 or found.heads * longest * of_key <= SECTION_BYTES
    loads = key_loads(spec, sizes.seqlen_q, sizes.seqlen_k, longest)
    assert found.unevenness == unevenness(loads, heads, found.heads, places)
    for more in range(found.heads + 1, heads + 1):
        if heads % more == 0 and more * longest * of_key <= SECTION_BYTES:
            assert round(unevenness(loads, heads, more, places), 2) > round(found.unevenness, 2)
