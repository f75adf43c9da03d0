"""How many boxes of a tile are copied in a row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.chunks import (
    ColumnChunks,
    boxes_of_tile,
    copies_in_a_row,
    depth_chunks,
    value_chunks,
)
from fa4_cute.plan.spec.sm90_spec import SM90Spec


@given(st.integers(1, 16), st.integers(1, 64), st.integers(1, 32))
def test_boxes_in_a_row_are_a_share_of_the_tile_and_few_copies(
    chunks: int, boxes: int, copies: int
) -> None:
    columns = ColumnChunks(first=0, columns=64 * chunks, width=64, row_bytes=128)
    found = columns.boxes_in_a_row(boxes, copies)
    assert boxes % found == 0
    assert found == 1 or found * chunks <= copies
    larger = [n for n in range(found + 1, boxes + 1) if boxes % n == 0]
    assert all(n * chunks > copies for n in larger)


def test_all_pages_of_16_of_a_key_tile_are_copied_in_a_row() -> None:
    """Where one warp copies those of K and of V: with stream-K."""
    config = FA4Config.for_attention(DType.BF16, 128, page_size=16)
    config = replace(config, streams_keys=True)
    for chunks in (depth_chunks(config, 0), value_chunks(config)):
        boxes = config.BN // 16
        assert chunks.boxes_in_a_row(boxes, copies_in_a_row(config)) == boxes


def test_two_load_warps_copy_half_as_many_in_a_row() -> None:
    config = FA4Config.for_attention(DType.BF16, 128, page_size=16)
    assert config.loads_values_apart
    assert [copies_in_a_row(config, is_laden=more) for more in (False, True)] == [8, 4]


@pytest.mark.parametrize(
    ("config", "boxes"),
    [
        # Of either operand two chunks of columns, of all keys of a tile or of each page.
        (FA4Config.for_attention(DType.BF16, 128), 2 + 2),
        (FA4Config.for_attention(DType.BF16, 128, page_size=64), 2 * (2 + 2)),
        (FA4Config.for_attention(DType.BF16, 128, page_size=16), 8 * (2 + 2)),
        # Of fp8 small pages have chunks of 128 columns.
        (FA4Config.for_attention(DType.FP8_E4M3, 128, page_size=64), 2 * (2 + 2)),
        (FA4Config.for_attention(DType.FP8_E4M3, 128, page_size=16), 8 * (1 + 1)),
        (FA4Config.for_attention(DType.BF16, 192, ov_depth=128, page_size=16), 8 * (3 + 2)),
        # A CTA of a pair has half of the keys of K, and half of the columns of V.
        (Depth512Config.for_attention(DType.BF16, 256), 4 + 2 * 2),
        (Depth512Config.for_attention(DType.BF16, 256, page_size=16), 4 * 4 + 8 * 2),
        (Depth512Config.for_attention(DType.BF16, 512, page_size=16), 8 * 8 + 16 * 4),
        (Depth512Config.for_attention(DType.FP8_E4M3, 512, page_size=16), 8 * 4 + 16 * 2),
    ],
)
def test_boxes_of_a_tile(config: FA4Config | Depth512Config, boxes: int) -> None:
    assert boxes_of_tile(config) == boxes


def test_rope_columns_and_hopper_leave_half_as_many() -> None:
    config = FA4Config.for_attention(DType.BF16, 192, ov_depth=128)
    assert copies_in_a_row(config) == 8
    assert depth_chunks(config, 0).boxes_in_a_row(config.BN // 16, 8) == 4
    hopper = SM90Spec.for_attention(DType.BF16, 128).config
    assert [copies_in_a_row(hopper, is_laden=more) for more in (False, True)] == [8, 4]
