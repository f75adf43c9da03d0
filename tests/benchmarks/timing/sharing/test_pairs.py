"""Barriers of clusters and fences: the questions end, and the page has what was answered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing.questions import ROUNDS
from benchmarks.timing.sharing.pairs import COUNTS, ORDERED, ORDERS, Order
from testing.hardware.simulate import simulate

RECORD = Path("benchmarks/timing/sharing/h200_orders.json")


@pytest.mark.parametrize("what", ORDERS)
@pytest.mark.parametrize("stores", [0, 2])
def test_an_order_ends_and_every_thread_says_when(what: str, stores: int) -> None:
    order = Order(what, 2, 2 if "cluster" in what else 1, stores, ctas=2)
    cycles, stored = simulate(order.case(3))
    assert cycles.size == ROUNDS * 2 * 64
    assert ((cycles > 0) & (cycles < 1 << 24)).all()
    words = stored.view(np.uint32).reshape(2, -1, 1024)
    assert (words[:, :, :64] == np.arange(64)).all() == (stores > 0)


def test_one_order_is_what_a_longer_row_takes_more() -> None:
    """Of the slowest thread; the first round is cold, and one CTA late."""
    order = Order("fence.acq_rel.gpu", 1, ctas=3)
    short, long = (np.full((ROUNDS, 3, 32), 5 * count + 40, np.uint32) for count in COUNTS)
    long[:, :, 7] += 2 * (COUNTS[1] - COUNTS[0])
    long[0] += 1000
    long[:, 2] += 500
    assert order.answer(short.ravel(), long.ravel())["one"] == 7


def test_the_page_has_the_answers() -> None:
    answers = json.loads(RECORD.read_text())["answers"]
    assert [entry["name"] for entry in answers] == [order.name for order in ORDERED]
    page = Path("docs/timing_probes.md").read_text()
    assert all(f"| {entry['name']} | {entry['one']:.1f} |" in page for entry in answers)


def test_a_release_costs_what_the_fence_does() -> None:
    """The plain barrier of a cluster has the fence of the GPU in front of it."""
    said = {entry["name"]: entry["one"] for entry in json.loads(RECORD.read_text())["answers"]}
    fence = said[replace(Order("fence.acq_rel.gpu"), warps=1).name]
    for cluster in (2, 4, 8):
        plain, relaxed = (
            said[Order(what, 1, cluster).name]
            for what in ("barrier.cluster", "barrier.cluster, relaxed")
        )
        assert plain - relaxed == pytest.approx(fence, rel=0.03)
