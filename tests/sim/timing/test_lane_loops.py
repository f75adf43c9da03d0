"""Loops over lanes have all their turns: as many as the lanes have mbarriers, and counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sm100sim.timing.lane_loops import unrolled
from sm100sim.timing.records import Action, ClusterTrace, DynamicEvent, Place
from testing.clocked import Program, op


def initialises(count: int) -> DynamicEvent:
    """So many mbarriers, the first of them for 7 arrivals and the others for 1."""
    places = tuple(Place(0, 8 * k) for k in range(count))
    return DynamicEvent(Action.MBARRIER_INIT, 1, places, shape=(7, *(1 for _ in range(count - 1))))


def program(back: tuple[int, int], event: DynamicEvent) -> ClusterTrace:
    """A loop that tells counts (0 to 1), one that initialises (2 to 4), and one instruction."""
    branch = op("BRA.U.ANY `(.L)")
    return (
        Program()
        .warp(
            0,
            op("R2UR UR4, R2"), replace(branch, targets=(back[0],)),
            op("R2UR UR5, R3"), (op("SYNCS.EXCH.64 URZ, [UR8], UR4"), event),
            replace(branch, targets=(back[1],)), op("NOP"),
        )
        .trace()
    )  # fmt: skip


def test_a_turn_for_each_mbarrier_and_in_front_for_each_count() -> None:
    (stream,) = unrolled(program((0, 2), initialises(3))).streams
    assert stream.order.tolist() == [0, 1, 0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 5]
    assert stream.event.tolist() == [-1] * 11 + [0, -1, -1]


@pytest.mark.parametrize(
    "trace",
    [program((0, 2), initialises(1)), program((5, 5), initialises(3)),
     program((0, 2), DynamicEvent(Action.SHARED, 1))],
    ids=["one mbarrier", "no loops", "another access"],
)  # fmt: skip
def test_what_is_no_such_loop_stays(trace: ClusterTrace) -> None:
    (stream,) = unrolled(trace).streams
    assert stream.order.tolist() == [0, 1, 2, 3, 4, 5]
