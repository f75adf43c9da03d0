"""Barriers of clusters and fences: the questions end, and the page has what was answered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing.questions import ROUNDS
from benchmarks.timing.replayed import cycles_of_one, draw_for
from benchmarks.timing.sharing.pairs import (
    AHEAD,
    BARRIERS,
    COUNTS,
    ORDERED,
    ORDERS,
    Order,
    order_table,
)
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


@pytest.mark.parametrize("kind", AHEAD)
def test_what_is_ahead_of_a_fence_is_done(kind: str) -> None:
    """A thread stores or adds its number; loads and copies change nothing."""
    _, stored = simulate(Order("fence.acq_rel.gpu", 2, 1, 2, 2, kind).case(3))
    words = stored.view(np.uint32).reshape(2, 2, 1024)[:, :, :64]
    times = {"stores": 1, "reductions": 3 * ROUNDS}.get(kind, 0)
    assert (words == times * np.arange(64)).all()


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
    assert order_table(answers) in Path("docs/timing_probes.md").read_text()


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


SURE = (
    *(Order(what, warps, 2) for what in BARRIERS for warps in (1, 4)),
    *(Order(what, 4) for what in ("fence.acq_rel.gpu", "fence.proxy.async", "fence.acq_rel.sys")),
    *(Order(what, warps, 1, 1, ctas=1) for what in ("fence.acq_rel.gpu", "fence.proxy.async")
      for warps in (1, 4)),
    Order("fence.acq_rel.gpu", 4, 1, 8, kind="shared stores"),
    Order("fence.acq_rel.gpu", 4, 1, 1, kind="loads"),
    Order("fence.acq_rel.gpu", 4, 1, 1, kind="reductions"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("order", SURE, ids=lambda order: order.name)
def test_the_machine_answers_as_the_chip(order: Order) -> None:
    """Alone within 6 %; behind what is under way 9 %: that takes a chip 217 to 301 cycles."""
    said = {entry["name"]: entry["one"] for entry in json.loads(RECORD.read_text())["answers"]}
    took = cycles_of_one(replace(order, ctas=order.cluster), draw_for(order))
    assert took == pytest.approx(said[order.name], rel=0.09 if order.ahead else 0.06)
