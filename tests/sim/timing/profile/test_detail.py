"""Every cycle of every warp, and what it went to."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.contract import clock
from sm100sim.timing.profile.detail import Detail, detailed
from sm100sim.timing.profile.roles import roles_of
from sm100sim.timing.profile.views.tracks import tracks_of
from testing.clocked import Program, op
from tests.sim.timing.profile.programs import B200, handover, run, tangle


@pytest.fixture(scope="module", params=range(6))
def tangled(request: pytest.FixtureRequest) -> Detail:
    return run(tangle(request.param))


def test_reasons_of_each_warp_add_up_to_its_cycles(tangled: Detail) -> None:
    assert np.allclose(tangled.waited.sum(axis=1), tangled.ends)
    assert tangled.cycles == tangled.ends.max()
    for role in roles_of(tangled):
        assert sum(role.waits.values()) == pytest.approx(role.cycles)
        assert role.cycles == pytest.approx(tangled.ends[list(role.members)].sum())


def test_stands_leave_no_cycle_out(tangled: Detail) -> None:
    """Between two issues of a warp each cycle has one reason."""
    for warp in range(len(tangled.first) - 1):
        mine = tangled.stands[tangled.stands["warp"] == warp]
        issued = tangled.issued[tangled.first[warp] : tangled.first[warp + 1]]
        start = np.sort(np.concatenate([mine["start"], issued]))
        end = np.sort(np.concatenate([mine["end"], issued + 1]))
        assert start[0] == 0
        assert np.array_equal(start[1:], end[:-1])
        assert end[-1] == tangled.ends[warp]


def test_instructions_share_the_same_cycles(tangled: Detail) -> None:
    assert tangled.stood.sum() == pytest.approx(tangled.waited.sum())
    assert np.allclose(tangled.stood.sum(axis=0), tangled.waited.sum(axis=0))
    assert tangled.executed.sum() == len(tangled.op)


def test_tracks_show_the_same_cycles(tangled: Detail) -> None:
    for track in tracks_of(tangled, roles_of(tangled)):
        assert (track.end > track.start).all()
        assert (track.start[1:] >= track.shown_end[:-1]).all()
        if not track.unit:
            assert (track.end - track.start).sum() == track.end[-1]


def test_a_wait_counts_at_the_instruction_that_waits() -> None:
    detail = run(handover())
    waits = detail.stood[:, clock.REASONS.index("mbarrier")]
    index = int(waits.argmax())
    assert detail.instructions[index].opcode == "SYNCS"
    assert "PHASECHK" in detail.instructions[index].modifiers
    assert waits[index] == pytest.approx(400, abs=60)


def test_keeping_everything_changes_no_time() -> None:
    """More waits than there was room for at first are kept, too."""
    contended = Program()
    for warp in range(8):
        contended.warp(warp, *[op("MUFU.EX2 R0, R1", 2)] * 40)
    detail = detailed(contended.trace(), B200, copies=2)
    assert len(detail.stands) > len(detail.op)
    assert len(detail.ends) == 16
    assert np.allclose(detail.waited.sum(axis=1), detail.ends)
