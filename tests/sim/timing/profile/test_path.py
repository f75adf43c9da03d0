"""The critical path: from the end to the start, without gaps, through those who were waited for."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sm100sim.timing.profile.detail import Detail
from sm100sim.timing.profile.handovers import handovers, steps_of
from sm100sim.timing.profile.path import Piece, critical_path
from sm100sim.timing.profile.roles import roles_of
from sm100sim.timing.profile.spots import on_path
from sm100sim.timing.records import Place
from testing.clocked import Program, op
from tests.sim.timing.profile.programs import (
    chain,
    commit,
    handover,
    init,
    mma,
    run,
    tangle,
    wait,
)


def whole(detail: Detail) -> list[Piece]:
    """The path, after what holds of each."""
    path = critical_path(detail)
    assert (path[0].start, path[-1].end) == (0, detail.cycles)
    assert all(one.end == following.start for one, following in pairwise(path))
    assert all(piece.end >= piece.start for piece in path)
    assert sum(piece.end - piece.start for piece in path) == pytest.approx(detail.cycles)
    assert all(detail.issued[p.cause] == p.start for p in path if p.cause >= 0)
    steps = steps_of(path, roles_of(detail))
    assert sum(step.cycles for step in steps) == pytest.approx(detail.cycles)
    return path


@pytest.mark.parametrize("seed", range(12))
def test_its_length_is_the_run_s(seed: int) -> None:
    detail = run(tangle(seed))
    path = whole(detail)
    spots = on_path(detail, path, most=1000)
    assert sum(spot.cycles for spot in spots) == pytest.approx(detail.cycles)


def test_it_goes_from_the_giver_to_the_taker() -> None:
    detail = run(handover(first=100, second=30, other=40))
    path = whole(detail)
    spent = {warp: sum(p.end - p.start for p in path if p.warp == warp) for warp in range(3)}
    assert spent[2] == 0
    assert spent[0] >= 400
    assert spent[1] >= 120
    (edge,) = [piece for piece in path if piece.cause >= 0 and piece.what == "mbarrier"]
    assert detail.instructions[int(detail.op[edge.cause])].modifiers[0] == "ARRIVE"
    (found,) = handovers(detail, path, roles_of(detail))
    assert (found.giver, found.taker, found.times) == ("warp 0", "warp 1", 1)
    assert "PHASECHK" in found.taken


def test_only_what_is_on_it_makes_a_run_longer() -> None:
    base = run(handover(first=100, second=30, other=40)).cycles
    assert run(handover(first=110, second=30, other=40)).cycles == base + 40
    assert run(handover(first=100, second=35, other=40)).cycles == base + 20
    assert run(handover(first=100, second=30, other=50)).cycles == base
    assert run(handover(first=100, second=30, other=400)).cycles > base


def test_it_goes_through_the_products_that_stood_before() -> None:
    """Eight of 64 cycles each: the last starts when the seven before it are done."""
    program = (
        Program()
        .warp(0, init(1), *[mma()] * 8, commit())
        .warp(1, wait(), op("NOP", wait=(0,)), *chain(2))
    )
    detail = run(program)
    path = whole(detail)
    tensor = [piece for piece in path if piece.what == "tensor core"]
    assert len(tensor) == 8
    assert sum(piece.end - piece.start for piece in tensor) >= 8 * 64
    assert [piece.cause >= 0 for piece in tensor] == [True] + [False] * 7


def test_a_full_queue_leads_to_the_product_that_left_it() -> None:
    detail = run(Program().warp(0, *[mma()] * 20, op("NOP")))
    path = whole(detail)
    spent = sum(piece.end - piece.start for piece in path if piece.what == "tensor core")
    assert spent > 0.8 * detail.cycles


def test_an_arrival_that_came_before_is_not_on_it() -> None:
    program = (
        Program()
        .warp(0, init(1), op("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ"))
        .warp(1, init(1, Place(0, 128)), *chain(50))
    )
    path = whole(run(program))
    assert {piece.warp for piece in path} == {1}
