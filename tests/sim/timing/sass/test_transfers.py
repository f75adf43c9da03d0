"""Events of copies, passes through shared memory, and pieces of global memory."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.contract import forms
from sm100sim.contract.codes import WINDOW_RANK_SHIFT, CopyFlag
from sm100sim.timing.records import Place
from sm100sim.timing.sass.steps import Step
from sm100sim.timing.sass.transfers import cancel, pieces, tensor, wavefronts

TO, BARRIER = 1024, 2048
ALL = 2**32 - 1
LANE = np.arange(32, dtype=np.uint64)


@pytest.mark.parametrize(
    ("flags", "mask", "signalled"),
    [
        (0, 0, [1]),
        (CopyFlag.PAIR, 0, [0]),
        (CopyFlag.MULTICAST, 3, [0, 1]),
        (CopyFlag.MULTICAST | CopyFlag.PAIR, 2, [0]),
    ],
)
def test_which_barriers_hear_of_a_copy(flags: int, mask: int, signalled: list[int]) -> None:
    """CTA 1 copies to itself and names the barrier of CTA 0."""
    operands = {0: 1 << WINDOW_RANK_SHIFT | TO, 2: BARRIER, 3: mask}
    sources = {which: np.array([value], np.uint64) for which, value in operands.items()}
    notes = 256 << 32 | 4096, 64, 31 * 512
    step = Step("TMA_LOAD", forms.Tensor(flags=flags), 0, (0, 4), 1, 1, notes, sources)
    event = tensor(step)
    assert event.objects == tuple(Place(rank, BARRIER) for rank in signalled)
    assert (event.size, event.shape) == (4096, (16, 256))
    assert (event.address, event.span) == (64, 31 * 512)


@pytest.mark.parametrize(
    ("everywhere", "cluster_size", "signalled"),
    [(False, 1, [1]), (False, 2, [1]), (True, 2, [0, 1]), (True, 4, [0, 1, 2, 3])],
)
def test_which_barriers_hear_of_the_answer_to_a_try_cancel(
    everywhere: bool, cluster_size: int, signalled: list[int]
) -> None:
    """CTA 1 asks; an answer to all of its cluster counts on the barrier of each of them."""
    sources = {1: np.array([1 << WINDOW_RANK_SHIFT | BARRIER], np.uint64)}
    form = forms.Cancel(everywhere=everywhere, bar_offset=8)
    step = Step("TRY_CANCEL", form, 0, (0, 2), 1, 1, (0, 0), sources, cluster_size)
    event = cancel(step)
    assert event.objects == tuple(Place(rank, BARRIER + 8) for rank in signalled)
    assert event.size == 16


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
