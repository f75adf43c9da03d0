"""The launch grid against counting every query row of every head."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import ceil_div
from fa4_cute.plan.launch.tiles import (
    SECTION_BYTES,
    TileShape,
    grid,
    heads_of_section,
    kept_tiles,
)


@given(
    st.sampled_from((4, 32, 256)), st.sampled_from((1, 2)), st.integers(0, 700), st.integers(0, 3)
)
def test_the_tiles_cover_the_queries_and_none_is_empty(
    positions: int, cluster: int, seqlen: int, batch: int
) -> None:
    shape = TileShape(positions, cluster_size=cluster)
    x, y, z = grid(shape, max_seqlen_q=seqlen, num_q_heads=6, batch=batch)
    assert (y, z) == (6, batch)
    assert x % cluster == 0
    tiles = x // cluster
    assert tiles * positions >= seqlen > (tiles - 1) * positions


@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize(("num_qo", "pair"), [(1, False), (2, False), (2, True)])
def test_a_grid_has_a_row_for_every_query_of_every_head(
    group: int, num_qo: int, pair: bool
) -> None:
    config = FA4Config(2 * group, group, 128, 128, num_qo=num_qo, pair_cta=pair)
    shape = TileShape.of(config)
    x, y, _ = grid(shape, max_seqlen_q=300, num_q_heads=config.num_q_heads, batch=1)
    # A CTA has BM rows, each for one position of one of the heads that are packed into it.
    positions_per_cta = config.BM // shape.group
    assert y * shape.group == config.num_q_heads
    assert x * positions_per_cta >= 300 > (x - shape.cluster_size) * positions_per_cta


def test_a_shape_counts_positions_of_all_ctas_that_share_an_mma() -> None:
    packed = TileShape.of(FA4Config.for_attention(DType.BF16, 64, group=8))
    assert (packed.positions, packed.group, packed.cluster_size) == (32, 8, 1)
    pair = TileShape.of(Depth512Config.for_attention(DType.BF16, 256))
    assert (pair.positions, pair.group, pair.cluster_size) == (256, 1, 2)


@given(st.integers(1, 64), st.integers(0, SECTION_BYTES))
def test_a_section_holds_as_many_heads_as_fit_and_divide_all(heads: int, each: int) -> None:
    found = heads_of_section(heads, each)
    assert heads % found == 0
    assert found * each <= SECTION_BYTES
    larger = [n for n in range(found + 1, heads + 1) if heads % n == 0]
    assert all(n * each > SECTION_BYTES for n in larger)


def test_a_head_that_does_not_fit_is_a_section() -> None:
    assert heads_of_section(6, SECTION_BYTES + 1) == 1


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 300), st.integers(0, 300_000))
def test_as_many_query_tiles_are_kept_as_have_keys_that_fit(
    seqlen_q: int, seqlen_k: int, heads: int, of_key: int
) -> None:
    positions, tiles = 256, ceil_div(seqlen_q, 256)
    kept = kept_tiles(seqlen_q, seqlen_k, positions, heads, of_key)
    assert 0 <= kept <= tiles

    def bytes_of(count: int) -> int:
        """K and V that the first ``count`` query tiles see, bottom-right aligned."""
        keys = max(0, min(seqlen_k, seqlen_k - seqlen_q + count * positions))
        return heads * of_key * keys

    assert kept == 0 or bytes_of(kept) <= SECTION_BYTES
    assert kept == tiles or bytes_of(kept + 1) > SECTION_BYTES


def test_of_32k_keys_of_16_heads_the_shortest_eighth_is_kept() -> None:
    assert kept_tiles(32768, 32768, 256, 16, 512) == 16
    assert kept_tiles(32768, 32768, 256, 160, 512) == 1
    assert kept_tiles(4096, 4096, 256, 1, 512) == 16
