"""What a launch asks of the L2 and of memory, where some of its clusters are there or all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sm100sim.timing.chips import load_chip
from sm100sim.timing.predict import predict_launch
from sm100sim.timing.predict.whole import asked_by, begins_cold, is_whole, marked
from sm100sim.timing.records import Action, DynamicEvent, Extent, LaunchTrace
from testing.clocked import BARRIER, READY, Program, arrive, chip, init, op, wait

KB = 1024
FIRST, BOX, COUNT = 4 * KB, 16 * KB, 16
H200, CHIP = chip("h200", launch_cycles=0, cta_cycles=0), load_chip("h200")


def copying(ctas: int, *, shared: bool) -> LaunchTrace:
    """CTAs that copy 16 boxes of 16 KB each, one after the other: all the same, or their own."""
    boxes = [
        DynamicEvent(
            Action.COPY_LOAD, 1, (BARRIER,), size=BOX, shape=(128, 128), address=FIRST + n * BOX
        )
        for n in range(COUNT)
    ]
    steps = [(op("UTMALDG.2D [UR4], [UR6]"), box) for box in boxes]
    program = Program().warp(0, init(1), arrive(COUNT * BOX), *steps, wait(1), READY, op("NOP"))
    trace = replace(program.trace(), clusters=tuple(range(ctas)))
    size = COUNT * BOX * (1 if shared else ctas)
    extent = Extent(FIRST, size, size)
    return LaunchTrace((ctas, 1, 1), (32, 1, 1), (1, 1, 1), 200_000, (trace,), (extent,))


def part_of(launch: LaunchTrace) -> LaunchTrace:
    """A launch of which one cluster was recorded."""
    return replace(launch, traces=(replace(launch.traces[0], clusters=(0,)),))


def test_rows_that_ctas_share_come_faster_of_a_warm_l2_too() -> None:
    """All SMs at once: of their own rows 33.5 bytes a cycle, of shared ones 74 (h200.toml)."""
    own, shared = (predict_launch(copying(132, shared=s), "h200", draws=1) for s in (False, True))
    rates = H200["l2_bytes"] / 132, H200["l2_shared_bytes"]
    for all_alike in (False, True):
        asked = asked_by(copying(132, shared=all_alike), CHIP, cold=False)
        assert asked["l2_pressure"] == 1
    longer = COUNT * BOX * (1 / rates[0] - 1 / rates[1])
    assert own.typical.cycles - shared.typical.cycles == pytest.approx(longer, rel=0.02)
    few = predict_launch(copying(8, shared=False), "h200", draws=1)
    assert few.typical.cycles < shared.typical.cycles, "eight SMs have the L2 nearly to themselves"
    assert asked_by(copying(8, shared=False), CHIP, cold=False)["l2_pressure"] < 0.2


def test_a_warm_launch_waits_for_no_memory() -> None:
    """It knows how much it asks of the L2, and that it asks nothing of memory."""
    asked = asked_by(copying(132, shared=False), CHIP, cold=False)
    assert asked["hbm_pressure"] == 0
    assert "hbm_slower" not in asked


@pytest.mark.parametrize("shared", [False, True])
def test_a_part_of_a_launch_stands_for_all(shared: bool) -> None:
    launch = copying(132, shared=shared)
    part = part_of(launch)
    assert (is_whole(launch), is_whole(part)) == (True, False)
    assert asked_by(part, CHIP, cold=False) == asked_by(launch, CHIP, cold=False)
    (found,) = marked(part, H200, cold=False).traces
    assert found.clusters == (0,)
    sharers = {e.sharers for e in found.events if e.kind is Action.COPY_LOAD}
    assert sharers == {132 if shared else 1}


def test_clusters_that_others_took_over_are_not_missed() -> None:
    """Of 132 CTAs 100 never began: the 32 that did are the whole launch."""
    launch = copying(132, shared=False)
    trace = replace(launch.traces[0], clusters=tuple(range(32)))
    taken = replace(launch, traces=(trace,), taken=100)
    assert taken.begun == 32
    assert is_whole(taken)
    assert not is_whole(replace(taken, taken=99))


def test_what_the_l2_has_no_room_for_comes_from_memory() -> None:
    """50 MB of an H200: 132 CTAs read 33 MB in all, 264 twice as much."""
    assert CHIP.parameters["l2_size_bytes"].value == 50 << 20
    assert not begins_cold(copying(132, shared=False), CHIP)
    assert not begins_cold(copying(264, shared=True), CHIP)
    large = copying(264, shared=False)
    assert begins_cold(large, CHIP)
    assert begins_cold(part_of(large), CHIP)
    own, warm = (predict_launch(large, "h200", draws=1, cold=cold) for cold in (None, False))
    assert (own.cold, warm.cold) == (True, False)
    assert own.typical.cycles > warm.typical.cycles
