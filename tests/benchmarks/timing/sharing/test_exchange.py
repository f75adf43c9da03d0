"""The question about loads from the other CTAs of a cluster: right, and answered in bytes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.timing.questions import ROUNDS
from benchmarks.timing.sharing import exchange
from benchmarks.timing.sharing.exchange import COUNTS, Exchange, bytes_per_cycle
from benchmarks.timing.sharing.pairs import WORDS
from testing.hardware.simulate import simulate


@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_every_thread_reads_all_others(cluster: int) -> None:
    asked = Exchange(cluster, 1, sms=cluster)
    cycles, sums = simulate(asked.case(2))
    assert (cycles.reshape(cluster, WORDS)[:, 1:] > 0).all()
    ranks = np.arange(cluster)
    of_others = (ranks + 1).sum() - (ranks + 1)
    expected = ROUNDS * 2 * 4 * of_others
    assert (sums.reshape(cluster, 32) == expected[:, None]).all()


def test_places_differ_with_every_step_and_lie_in_shared_memory() -> None:
    for asked in exchange.questions():
        assert asked.stride * max(COUNTS) <= asked.case(1).smem <= 227 * 1024


def test_bytes_a_cycle() -> None:
    asked = Exchange(4, 8, sms=4)
    short, long = (np.full((4, WORDS), 100 + 2 * count, np.uint32) for count in COUNTS)
    assert np.allclose(bytes_per_cycle(short, long, asked), 3 * 8 * 32 * 16 / 2)
