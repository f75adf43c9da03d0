"""Events of copies."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.contract import forms
from sm100sim.contract.codes import WINDOW_RANK_SHIFT, CopyFlag
from sm100sim.timing.records import Place
from sm100sim.timing.sass.steps import Step
from sm100sim.timing.sass.transfers import tensor

TO, BARRIER = 1024, 2048


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
    step = Step(
        "TMA_LOAD", forms.Tensor(flags=flags), 0, (0, 4), 1, 1, (256 << 32 | 4096, 0), sources
    )
    event = tensor(step)
    assert event.objects == tuple(Place(rank, BARRIER) for rank in signalled)
    assert (event.size, event.shape) == (4096, (16, 256))
