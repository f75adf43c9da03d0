"""The question about loads from the other CTAs of a cluster: right, and answered in bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing.questions import ROUNDS
from benchmarks.timing.sharing import exchange
from benchmarks.timing.sharing.exchange import COUNTS, Exchange, bytes_per_cycle
from benchmarks.timing.sharing.pairs import WORDS
from fa4_cute.plan.facts.clusters import EXCHANGE_BYTES_PER_CYCLE
from testing.hardware.simulate import simulate

RECORD = Path("benchmarks/timing/sharing/h200_exchange.json")


@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_every_thread_reads_all_others(cluster: int) -> None:
    asked = Exchange(cluster, 1, sms=cluster)
    cycles, sums = simulate(asked.case(2))
    assert (cycles.reshape(cluster, WORDS)[:, 1:] > 0).all()
    of_others = [sum(range(1, cluster + 1)) - rank for rank in range(1, cluster + 1)]
    assert asked.sums(2).tolist() == [ROUNDS * 2 * 4 * each for each in of_others]
    assert (sums.reshape(cluster, 32) == asked.sums(2)[:, None]).all()


def test_places_differ_with_every_step_and_lie_in_shared_memory() -> None:
    for asked in exchange.questions():
        assert asked.stride * max(COUNTS) <= asked.case(1).smem <= 227 * 1024


def test_bytes_a_cycle() -> None:
    asked = Exchange(4, 8, sms=4)
    short, long = (np.full((4, WORDS), 100 + 2 * count, np.uint32) for count in COUNTS)
    assert np.allclose(bytes_per_cycle(short, long, asked), 3 * 8 * 32 * 16 / 2)


def test_an_h200_answered_all_and_gives_no_fewer_bytes_than_plans_count_with() -> None:
    answers = {entry["name"]: entry for entry in json.loads(RECORD.read_text())["answers"]}
    assert set(answers) == {asked.name for asked in exchange.questions()}
    assert all(entry["right"] for entry in answers.values())
    whole = [answers[asked.name]["mean"] for asked in exchange.questions() if asked.warps >= 4]
    assert min(whole) > max(EXCHANGE_BYTES_PER_CYCLE)
