"""Copies and stores whose rows are in no cache: the kernels end, and their answers are read."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.timing.sharing import cold
from benchmarks.timing.sharing.cold import ROUNDS, WORDS, Cold, Stores
from testing.hardware.simulate import simulate

BOTH = (((0, 0),),) * 2
APART = (((0, 0),), ((0, 1),))
POOL = (1 << 28) - (1 << 20)
"""Bytes of the device's pool that a tensor may take."""


@pytest.mark.parametrize(
    "asked",
    [
        Cold("both the same", BOTH, 1, steps=4),
        Cold("both the same", BOTH, 2, 100, apart=50, steps=4),
        Cold("both the same", BOTH, 3, cold=False, steps=6),
        Cold("the same A", APART, 2, 10, columns=512, rows=16, steps=4),
        Cold("the same A", APART, 2, 10, cold=False, columns=512, rows=16, steps=4),
    ],
    ids=lambda q: q.name,
)
def test_copies_end_and_every_cta_writes(asked: Cold) -> None:
    found, _ = simulate(asked.case())
    rows = found[:-1].reshape(len(asked.table), WORDS)[:, 1:].reshape(-1, ROUNDS, 2)
    assert (rows[..., 0] > rows[..., 1]).all()
    assert (rows[..., 1] > 0).all()
    assert found[-1] == len(asked.table) * ROUNDS


@pytest.mark.parametrize(("boxes", "columns", "fresh"), [(1, 256, True), (2, 256, True),
                                                         (3, 64, True), (1, 64, False)])  # fmt: skip
def test_stores_write_a_tile_a_step(boxes: int, columns: int, fresh: bool) -> None:
    asked = Stores(boxes, False, 2, 50, fresh, columns, steps=2, rows=16)
    found, data = simulate(asked.case())
    assert (found[:-1].reshape(2, WORDS)[:, 1:] > 0).all()
    tiles = 2 * (ROUNDS * asked.steps if fresh else 1)
    assert np.count_nonzero(data) == tiles * boxes * asked.rows * cold.ROW_BYTES


def test_an_answer_leaves_the_first_round_out() -> None:
    asked = Cold("both the same", BOTH, 1, steps=10)
    words = [[9, 9999, 9999, 500, 100, 700, 300], [8, 9999, 9999, 900, 500, 1100, 700]]
    found = cold.answer(asked, np.array([*np.ravel(words), 6], np.uint32))
    assert found["step"] == [80.0, 50.0, 110.0]
    assert found["wait"] == [40.0, 10.0, 70.0]
    assert found["rounds"] == [70.0, 90.0]


def test_questions_have_names_of_their_own_and_fit_the_pool() -> None:
    asked = (*cold.cold_questions(), *cold.store_questions())
    assert len({q.name for q in asked}) == len(asked)
    for question in asked:
        for box in question.case().maps:
            assert box.sizes[0] * box.sizes[1] * 2 < POOL
