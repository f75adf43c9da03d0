"""The tile map against a brute-force visibility matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.tiles import (
    MaskKind,
    TileShape,
    grid,
    key_tiles,
    kv_head,
    mask_word,
    num_query_tiles,
    query_tile,
    row_head,
    row_position,
    tile_row,
    valid_positions,
    visible_keys,
)

SHAPES = st.builds(
    TileShape, st.sampled_from((4, 8, 32, 256)), st.sampled_from((8, 64, 192)), st.just(1)
)
LENGTHS = st.integers(0, 700)


def visibility(mask: MaskKind, seqlen_q: int, seqlen_k: int) -> np.ndarray:
    rows = np.arange(seqlen_q)[:, None]
    columns = np.arange(seqlen_k)[None, :]
    if mask is MaskKind.FULL:
        return np.ones((seqlen_q, seqlen_k), dtype=bool)
    return columns <= rows + (seqlen_k - seqlen_q)


@settings(deadline=None, max_examples=200)
@given(SHAPES, st.sampled_from(MaskKind), LENGTHS, LENGTHS)
def test_key_tiles_against_the_matrix(
    shape: TileShape, mask: MaskKind, seqlen_q: int, seqlen_k: int
) -> None:
    seen = visibility(mask, seqlen_q, seqlen_k)
    for tile in range(num_query_tiles(shape, seqlen_q)):
        first = tile * shape.positions
        rows = seen[first : first + shape.positions]
        tiles = key_tiles(shape, mask, prompt_offset=first, seqlen_q=seqlen_q, seqlen_k=seqlen_k)
        any_visible = np.flatnonzero(rows.any(axis=0))
        last = any_visible[-1] if any_visible.size else -1
        assert tiles.total == -(-(last + 1) // shape.keys)
        all_visible = rows.all(axis=0)
        hidden = np.flatnonzero(~all_visible)
        unmasked = hidden[0] if hidden.size else seqlen_k
        assert tiles.full == unmasked // shape.keys
        assert tiles.masked >= 0


@settings(deadline=None)
@given(st.sampled_from(MaskKind), st.integers(1, 80), st.integers(0, 80))
def test_row_counts_and_words_against_the_matrix(
    mask: MaskKind, seqlen_q: int, seqlen_k: int
) -> None:
    seen = visibility(mask, seqlen_q, seqlen_k)
    for position in range(seqlen_q):
        visible = visible_keys(mask, position=position, seqlen_q=seqlen_q, seqlen_k=seqlen_k)
        assert visible == seen[position].sum()
        for first in range(0, 96, 32):
            word = mask_word(visible, first)
            for bit in range(32):
                key = first + bit
                assert bool(word >> bit & 1) == (key < seqlen_k and bool(seen[position, key]))


def test_tiles_outside_the_sequence_visit_nothing() -> None:
    shape = TileShape(256, 128)
    for mask in MaskKind:
        beyond = key_tiles(shape, mask, prompt_offset=256, seqlen_q=256, seqlen_k=512)
        assert (beyond.full, beyond.total) == (0, 0)
    no_keys = key_tiles(shape, MaskKind.FULL, prompt_offset=0, seqlen_q=5, seqlen_k=0)
    assert no_keys.total == 0
    blind = key_tiles(shape, MaskKind.CAUSAL, prompt_offset=0, seqlen_q=1000, seqlen_k=10)
    assert blind.total == 0


@given(st.integers(1, 9), st.sampled_from((1, 2)))
def test_causal_grids_start_with_the_longest_tiles(num_tiles: int, cluster: int) -> None:
    shape = TileShape(256, 128, cluster_size=cluster)
    blocks = range(num_tiles * cluster)
    causal = [query_tile(shape, x, num_tiles, MaskKind.CAUSAL) for x in blocks]
    assert causal == sorted(causal, reverse=True)
    plain = [query_tile(shape, x, num_tiles, MaskKind.FULL) for x in blocks]
    assert plain == causal[::-1]
    assert sorted(set(plain)) == list(range(num_tiles))


@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize("num_qo", [1, 2])
@pytest.mark.parametrize("pair", [False, True])
def test_every_query_row_is_computed_once(group: int, num_qo: int, pair: bool) -> None:
    if pair and num_qo == 1:
        return
    config = FA4Config(2 * group, group, 128, 128, num_qo=num_qo, pair_cta=pair)
    shape = TileShape.of(config)
    seqlen = 300
    x, y, z = grid(shape, max_seqlen_q=seqlen, num_q_heads=config.num_q_heads, batch=3)
    assert z == 3
    computed = np.zeros((config.num_q_heads, seqlen), dtype=int)
    per_cta = shape.positions // shape.cluster_size
    for block in range(x):
        tile = query_tile(shape, block, x // shape.cluster_size, MaskKind.CAUSAL)
        first = tile * shape.positions + block % shape.cluster_size * per_cta
        for scheduled in range(y):
            for row in range(config.BM):
                position = first + row_position(shape, row)
                head = row_head(shape, scheduled, row)
                assert kv_head(shape, scheduled, group) == head // group
                if row_position(shape, row) < per_cta and position < seqlen:
                    computed[head, position] += 1
    assert (computed == 1).all()


@given(st.sampled_from((1, 2, 4, 8, 16)), st.integers(0, 255))
def test_row_maps_invert_each_other(group: int, row: int) -> None:
    shape = TileShape(256 // group, 128, group)
    assert tile_row(shape, row_position(shape, row), row_head(shape, 0, row)) == row


def test_valid_positions_end_with_the_sequence() -> None:
    assert valid_positions(seqlen_q=300, first_position=256, positions=128) == 44
    assert valid_positions(seqlen_q=300, first_position=384, positions=128) == 0
    assert valid_positions(seqlen_q=1000, first_position=0, positions=128) == 128


def test_a_shape_counts_positions_of_the_whole_cluster() -> None:
    shape = TileShape.of(FA4Config.for_attention(DType.BF16, 64, group=8))
    assert (shape.positions, shape.keys, shape.group, shape.cluster_size) == (32, 192, 8, 1)
