"""Passes through shared memory and sectors of global memory."""

import numpy as np
import pytest

from sm100sim.timing.sass.passes import pieces, wavefronts

ALL = 2**32 - 1
LANE = np.arange(32, dtype=np.uint64)


@pytest.mark.parametrize(
    ("stride", "width", "passes"),
    [(4, 4, 1), (8, 4, 2), (128, 4, 32), (0, 4, 1), (132, 4, 1), (8, 8, 2), (16, 16, 4), (1, 1, 1)],
)
def test_passes_follow_from_banks(stride: int, width: int, passes: int) -> None:
    assert wavefronts(0x400 + LANE * np.uint64(stride), ALL, width) == passes


def test_rows_of_a_matrix_take_a_pass_when_their_banks_differ() -> None:
    assert wavefronts(np.uint64(16) * LANE[:8], 0xFF, 16) == 1
    assert wavefronts(np.uint64(128) * LANE[:8], 0xFF, 16) == 8


def test_lanes_that_are_off_take_no_pass() -> None:
    assert wavefronts(np.uint64(128) * LANE[:2], 0b101, 4) == 2


def test_pieces() -> None:
    assert pieces(LANE * np.uint64(4), 4) == (0, 1, 2, 3)
    assert pieces(LANE * np.uint64(32) + np.uint64(16), 4) == tuple(range(32))
    assert pieces(np.array([30], np.uint64), 4) == (0, 1)
