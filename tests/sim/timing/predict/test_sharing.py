"""Clusters that share rows: who asks while they are under way waits for the rest, who is late
finds them in the L2.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sm100sim.timing.predict.gpu import asked_of_l2, finish, time_launch
from sm100sim.timing.predict.sharing import Kind, groups_of, last_end
from sm100sim.timing.records import Action, DynamicEvent, Extent, LaunchTrace
from testing.clocked import (
    BARRIER,
    READY,
    Entry,
    Program,
    arrive,
    chip,
    fresh_of,
    init,
    op,
    wait,
)

KB = 1024
H200 = chip("h200", launch_cycles=0)
ONE = Kind(near=100, far=140)
LONGER = 20


def test_who_asks_together_waits_together() -> None:
    assert ONE.waits(LONGER) == 2
    assert last_end([0, 0], [ONE], [0, 0], LONGER, places=2, gap=3) == 143


def test_who_comes_later_finds_rows_in_the_l2() -> None:
    assert last_end([0, 0], [ONE], [0, 0], LONGER, places=1, gap=3) == 3 + 140 + 3 + 100


def test_groups_share_nothing() -> None:
    assert last_end([0, 0], [ONE], [0, 1], LONGER, places=1, gap=0) == 280


def test_who_catches_up_waits_with_the_first() -> None:
    """The second begins 50 cycles after the first, asks for the third of four rows 10 cycles after
    it and waits for the rest, and for the fourth as long as the first: both end together."""
    kinds = Kind(10, 10), Kind(100, 180), Kind(50, 50)
    assert last_end([1], kinds, [0], LONGER, places=1, gap=0) == 180
    ends = last_end([1, 2, 1], kinds, [0, 1, 0], LONGER, places=2, gap=0)
    assert ends == 180


def test_who_waits_for_nothing_ends_as_if_alone() -> None:
    kinds = Kind(70, 70), Kind(30, 30)
    order = [0, 1, 1, 0, 1, 0]
    each = [kinds[kind].near for kind in order]
    for places in (1, 2, 3):
        found = last_end(order, kinds, [0] * 6, LONGER, places, gap=7)
        assert found == finish(each, places, 7)


def test_tritons_attention_of_eight_warps() -> None:
    """What was said before an H200 was asked, of 16 that share, 132 at once: 3 % more than it took;
    where all wait as if they were the first it is 13 %."""
    kind, count = Kind(50120, 61561), 256 * 16
    groups = [number // 16 for number in range(count)]
    found = last_end([0] * count, [kind], groups, 673, places=132, gap=312)
    assert found + 4083 == pytest.approx(1_798_399, abs=1)
    assert found < 0.91 * finish([kind.far] * count, 132, 312)


def launch(grid: tuple[int, int, int], shared: int = 32, apart: int = 1) -> LaunchTrace:
    """CTAs of a row of the grid share rows of 128 bytes, each waited for; `apart`: kinds."""
    load = op("UTMALDG.2D [UR4], [UR6]")
    steps: list[Entry] = [init(1)]
    for k in range(shared):
        box = DynamicEvent(
            Action.COPY_LOAD, 1, (BARRIER,), size=16 * KB, shape=(128, 128), address=16 * KB * k
        )
        steps += [arrive(16 * KB), (load, box), wait(k + 1), READY]
    trace = Program().warp(0, *steps).trace()
    count, rows = grid[0] * grid[1] * grid[2], grid[1] * grid[2]
    size = 16 * KB * shared * rows
    kinds = tuple(
        replace(trace, clusters=tuple(range(first, count, apart))) for first in range(apart)
    )
    return LaunchTrace(grid, (32, 1, 1), (1, 1, 1), 200 * KB, kinds, (Extent(0, size, size),))


def grouped(asked: LaunchTrace) -> tuple[int, ...] | None:
    """The groups of a launch from memory."""
    return groups_of(fresh_of(asked)[0])


def test_who_shares_is_told_by_how_many_lie_along_an_axis() -> None:
    assert grouped(launch((4, 3, 1))) == (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2)
    columns = replace(launch((4, 3, 1)), grid=(3, 4, 1))
    assert grouped(columns) == (0, 1, 2) * 4
    planes = replace(launch((12, 2, 1)), grid=(4, 3, 2))
    assert grouped(planes) == (0,) * 12 + (1,) * 12
    assert grouped(replace(launch((4, 4, 1)), grid=(4, 4, 1))) is None, "as many along both"
    assert grouped(replace(launch((5, 3, 1)), grid=(15, 1, 1))) is None, "along none"
    assert grouped(launch((1, 12, 1))) is None, "nobody shares"
    assert groups_of(launch((4, 3, 1))) is None, "all lies in the L2"


def test_with_a_mask_half_of_them_share_in_the_mean() -> None:
    masked = launch((9, 20, 1), apart=9)
    (extent,) = masked.tensors
    half = replace(masked, tensors=(Extent(0, extent.reach, extent.size * 9 // 5),))
    assert grouped(half) is not None
    assert grouped(replace(launch((9, 20, 1)), tensors=half.tensors)) is None


def test_a_launch_takes_less_where_who_is_late_finds_rows_in_the_l2() -> None:
    """Of 16 that share 132 run at once: a group is torn apart in each wave, and then the next."""
    torn, whole = launch((16, 256, 1)), replace(launch((16, 256, 1)), grid=(4096, 1, 1))
    draw = asked_of_l2(torn, H200)
    assert grouped(torn) is not None
    assert grouped(whole) is None
    less, all_ = (time_launch(x, draw, cold=True).cycles for x in (torn, whole))
    assert 0.75 < less / all_ < 0.97
    warm = [time_launch(x, draw).cycles for x in (torn, whole)]
    assert warm[0] == warm[1] < less
