"""How many boxes of a tile are copied in a row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.chunks import (
    COPIES_IN_A_ROW,
    ColumnChunks,
    depth_chunks,
    value_chunks,
)


@given(st.integers(1, 16), st.integers(1, 64))
def test_boxes_in_a_row_are_a_share_of_the_tile_and_few_copies(chunks: int, boxes: int) -> None:
    columns = ColumnChunks(first=0, columns=64 * chunks, width=64, row_bytes=128)
    found = columns.boxes_in_a_row(boxes)
    assert boxes % found == 0
    assert found == 1 or found * chunks <= COPIES_IN_A_ROW
    larger = [n for n in range(found + 1, boxes + 1) if boxes % n == 0]
    assert all(n * chunks > COPIES_IN_A_ROW for n in larger)


def test_all_pages_of_16_of_a_key_tile_are_copied_in_a_row() -> None:
    config = FA4Config.for_attention(DType.BF16, 128)
    for chunks in (depth_chunks(config, 0), value_chunks(config)):
        assert chunks.boxes_in_a_row(config.BN // 16) == config.BN // 16
