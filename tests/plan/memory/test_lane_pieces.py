"""What each lane copies of a tile, beside the swizzle that TMA and the MMAs have."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.facts.hardware import UNIT_BYTES, WARP_THREADS, SwizzleMode
from fa4_cute.plan.memory.lane_pieces import LanePieces

BANKS = 128
SHAPES = [
    (rows, page, swizzle)
    for swizzle in (SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128)
    for page in (16, 32, 64)
    if (rows := WARP_THREADS // (swizzle.bytes // UNIT_BYTES) * page)
]
"""Of the kernels' tiles: 128 keys over pages of 16, in rows of 64 bytes."""


def swizzled(address: int, swizzle: SwizzleMode) -> int:
    """PTX ISA, "Swizzling modes": units of 16 bytes, by the number of the 128 bytes they are in."""
    units = swizzle.bytes // UNIT_BYTES
    return address ^ (address // BANKS % units) * UNIT_BYTES


@pytest.mark.parametrize(("rows", "page", "swizzle"), SHAPES)
def test_every_unit_is_copied_once_to_its_place(
    rows: int, page: int, swizzle: SwizzleMode
) -> None:
    pieces, found = LanePieces(rows, page, swizzle), Counter[int]()
    for step in pieces.steps:
        for lane in range(WARP_THREADS):
            row = pieces.page(lane) * page + pieces.row(lane, step)
            plain = row * swizzle.bytes + pieces.unit(lane) * UNIT_BYTES
            assert pieces.offset(lane, step) == swizzled(plain, swizzle)
            found[plain] += 1
    assert found == Counter(range(0, rows * swizzle.bytes, UNIT_BYTES))


@given(st.sampled_from(SHAPES), st.data())
def test_lanes_of_a_step_meet_all_banks(
    shape: tuple[int, int, SwizzleMode], data: st.DataObject
) -> None:
    """512 bytes take four passes of all banks, where rows of 64 bytes are two to a pass."""
    pieces = LanePieces(*shape)
    step = data.draw(st.sampled_from(pieces.steps))
    places = (pieces.offset(lane, step) % BANKS for lane in range(WARP_THREADS))
    least = WARP_THREADS * UNIT_BYTES // BANKS
    assert max(Counter(places).values()) == least


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((128, 32, SwizzleMode.B64), "16 units of a row of every page; a warp has 32 lanes"),
        ((100, 16, SwizzleMode.B64), "24 units"),
        ((32, 4, SwizzleMode.B64), "a page of 256 bytes is no whole patterns of 512"),
    ],
)
def test_what_lanes_do_not_divide_is_refused(
    shape: tuple[int, int, SwizzleMode], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        LanePieces(*shape)
