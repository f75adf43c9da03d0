"""Who shares rows of the L2 with whom, when all SMs of a launch ask at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.timing.sharing.operands import Sharing, in_a_row
from benchmarks.timing.sharing.together import (
    Asked,
    Machine,
    Outcome,
    Together,
    probes,
    replayed,
    requests_of,
)

SIZE = 16 * 128
ONE = Machine(queues=1, lanes=1)
STEPS = 40


def outcome(group: list[int], begins: list[float], *, same: bool, machine: Machine = ONE,
            pace: float = 0, work: float = 0) -> Outcome:  # fmt: skip
    """SMs that copy 8 requests a step, the same of all or each its own."""
    rows = np.arange(STEPS * 8).reshape(1, STEPS, 8).repeat(len(group), 0)
    rows = rows if same else rows + np.arange(len(group))[:, None, None] * STEPS * 8
    return Together(Asked(group, begins, rows, 4, pace, work), machine).run()


def rate(found: Outcome) -> float:
    return float(found.bytes_per_cycle(8 * SIZE, 10).mean())


def test_two_sms_in_step_join() -> None:
    assert outcome([0, 0], [0, 10], same=True).joined == 0.5


@pytest.mark.parametrize(("late", "joined"), [(130, 0.5), (200, 0.0)])
def test_one_that_is_200_cycles_late_does_not(late: float, joined: float) -> None:
    assert outcome([0, 0], [0, late], same=True).joined == pytest.approx(joined, abs=0.05)


def test_another_gpc_does_not_join() -> None:
    assert outcome([0, 1], [0, 10], same=True).joined == 0


def test_who_copies_rows_of_its_own_does_not() -> None:
    assert outcome([0, 0], [0, 10], same=False).joined == 0


@pytest.mark.parametrize("limit", [40, 60])
def test_the_limit_is_shared_by_what_is_not_joined(limit: float) -> None:
    """Two SMs get half of the limit each of their own rows, all of it of rows that they share."""
    machine = Machine(limit=limit, queues=1, lanes=1)
    own = outcome([0, 0], [0, 10], same=False, machine=machine)
    shared = outcome([0, 0], [0, 10], same=True, machine=machine)
    assert rate(own) == pytest.approx(limit / 2, rel=0.01)
    assert rate(shared) == pytest.approx(limit / (1 - shared.joined) / 2, rel=0.01)


def test_what_is_delivered_is_limited_too() -> None:
    found = outcome([0, 0], [0, 10], same=True, machine=Machine(delivered=50, queues=1, lanes=1))
    assert rate(found) == pytest.approx(50, rel=0.01)


@pytest.mark.parametrize(("pace", "work"), [(1000.0, 0.0), (0.0, 1000.0)])
def test_steps_follow_their_pace_or_their_products(pace: float, work: float) -> None:
    found = outcome([0], [0], same=True, pace=pace, work=work)
    assert rate(found) == pytest.approx(8 * SIZE / 1000, rel=0.01)


def test_a_ring_holds_so_many_steps() -> None:
    """One slot: a step's rows and the latency, one after the other."""
    rows = np.arange(5 * 8).reshape(1, 5, 8)
    found = Together(Asked([0], [0.0], rows, 1), ONE).run()
    gap = np.diff(found.ends[0])
    last = 7 * ONE.rows * ONE.row_cycles + SIZE / ONE.limit + SIZE / ONE.delivered
    assert gap == pytest.approx(np.full(4, last + ONE.latency), abs=40)


def test_requests_are_those_of_the_question() -> None:
    """Two CTAs in a row have A in common, two that are as far on in their rows B."""
    asked = Sharing("", (32, 16), in_a_row(2, 4))
    found = requests_of(asked, 3, 16)
    assert found.shape == (4, 3, 3)
    assert (found[0, :, :2] == found[1, :, :2]).all()
    assert (found[0, :, 2] == found[2, :, 2]).all()
    assert not np.isin(found[0], found[3]).any()
    assert len(np.unique(found[0])) == 9


@pytest.mark.parametrize(
    "name",
    ["every SM its own", "TPC the same, some 150 cycles later",
     "TPC the same, some 1300 cycles later",
     "4 in a row the same A, asked for every 448 cycles, some 0 cycles later"],
)  # fmt: skip
def test_a_chip_answered_alike(name: str) -> None:
    """In step, late by less than the window, late by a round, and as fast as asked for."""
    asked, record, chip = next(
        probe for probe in probes() if probe[0].name == f"128 and 128 rows, 132 CTAs, {name}"
    )
    assert replayed(asked, record)[0] == pytest.approx(chip, rel=0.08)


def test_what_was_kept_is_of_every_probe() -> None:
    kept = json.loads(Path("benchmarks/timing/sharing/together.json").read_text())
    chips = {asked.name: chip for asked, _, chip in probes()}
    assert {row["name"]: row["chip"] for row in kept} == chips
