"""The critical path: from the end to the start, without gaps, through those who were waited for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sm100sim.timing.profile.detail import Detail, detailed
from sm100sim.timing.profile.handovers import handovers, steps_of
from sm100sim.timing.profile.path import WORKS, Piece, critical_path
from sm100sim.timing.profile.roles import roles_of
from sm100sim.timing.profile.spots import on_path
from sm100sim.timing.profile.uses import limit_of, uses_of
from sm100sim.timing.records import Action, DynamicEvent, Place
from testing.clocked import Program, chip, op
from tests.sim.timing.profile.programs import (
    B200,
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


@pytest.mark.parametrize("seed", range(4))
def test_several_clusters_of_an_sm(seed: int) -> None:
    """They share its units: only through those does the path go from one to another."""
    detail = detailed(tangle(seed).trace(), B200, copies=3)
    path = whole(detail)
    for one, following in pairwise(path):
        if detail.place(one.warp)[0] != detail.place(following.warp)[0]:
            assert {one.what, following.what} & set(WORKS.values())
    assert np.allclose(detail.waited.sum(axis=1), detail.ends)
    assert all(use.fullest <= 1 for use in uses_of(detail))


def test_products_of_a_pair_wait_for_both_sms() -> None:
    """The partner's tensor core is taken too, and its warp hears of the last product."""
    pair = DynamicEvent(Action.MMA, 1, shape=(256, 128, 16, 16), detail=("pair",))
    both = (op("UTCHMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR8]", 7), pair)
    done = Place(1, 64)
    program = (
        Program()
        .warp(0, *[both] * 6, commit(done))
        .warp(0, init(1, done), wait(place=done), op("NOP", wait=(0,)), *chain(2), rank=1)
    )
    detail = run(program)
    path = whole(detail)
    works = [piece for piece in path if piece.what == "tensor core"]
    assert len(works) == 6
    assert path[-1].warp == 1
    (found,) = handovers(detail, path, roles_of(detail))
    assert (found.giver, found.through, found.times) == ("warp 0 of rank 0", "tensor core", 1)
    uses = {use.name: use for use in uses_of(detail)}
    assert uses["tensor"].share * detail.cycles == pytest.approx(
        sum(work["end"] - work["start"] for work in detail.works), rel=0.01
    )


def test_a_chain_of_wgmmas_is_one_way() -> None:
    """A group of warps issues 16 products, each of 64 cycles and more, and waits for them."""
    program = Program()
    for warp in range(4):
        products = [op("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", 4)] * 15
        last = op("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, gsb0", 4)
        program.warp(warp, *products, last, op("WARPGROUP.DEPBAR.LE gsb0, 0x0"), op("NOP"))
    detail = detailed(program.trace(), chip("h100"))
    path = whole(detail)
    works = [piece for piece in path if piece.what == "tensor core"]
    assert len(works) == 16
    assert sum(piece.end - piece.start for piece in works) > 0.95 * detail.cycles
    assert limit_of(uses_of(detail)) == "tensor"


def test_a_copy_that_stood_behind_another_leads_to_it() -> None:
    """Two boxes of 128 rows, 137 cycles each: the engine is the way of both."""
    box = DynamicEvent(Action.COPY_LOAD, 1, (Place(0, 64),), size=16384, shape=(128, 128))
    expect = DynamicEvent(Action.MBARRIER_ARRIVE, 1, (Place(0, 64),), count=1, size=2 * 16384)
    load = op("UTMALDG.4D [UR4], [UR6]", 2)
    program = (
        Program()
        .warp(0, init(1), (op("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ"), expect), (load, box),
              (load, box))
        .warp(1, wait(), op("NOP", wait=(0,)))
    )  # fmt: skip
    detail = run(program)
    loads = [piece for piece in whole(detail) if piece.what == "TMA load"]
    assert [piece.cause >= 0 for piece in loads] == [True, False]
    assert loads[0].end - loads[0].start == pytest.approx(128 * B200["copy_row_cycles"], abs=4)
