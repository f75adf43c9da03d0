"""Boxes that warps ask for, and the engine that copies them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sm100sim.timing.chips import Draw
from sm100sim.timing.records import Action, DynamicEvent
from testing.clocked import BARRIER, READY, Entry, Program, Step, arrive, chip, init, op, run, wait


def copy(size: int, rows: int, row_bytes: int) -> Step:
    shape = (rows, row_bytes)
    event = DynamicEvent(Action.COPY_LOAD, 1, objects=(BARRIER,), size=size, shape=shape)
    return op("UTMALDG.2D [UR8], [UR4]"), event


def copies(count: int, rows: int, row_bytes: int, draw: Draw) -> float:
    """Cycles until all of some copies have arrived."""
    size = rows * row_bytes
    expect = arrive(size * count)
    loads = [copy(size, rows, row_bytes)] * count
    return run(Program().warp(0, init(1), expect, *loads, wait(1), READY), draw).cycles


@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_the_engine_moves_a_row_in_a_little_more_than_a_cycle(row_bytes: int) -> None:
    """The sweep at 1.3 GHz: 0.77 to 0.83 ns a row; an H200: 1.00 cycles of short ones."""
    draw = chip("b200", l2_pressure=0.0)  # one CTA has the L2 for itself
    many, few = (copies(n, 192, row_bytes, draw) for n in (12, 4))
    each = (many - few) / 8 / 192
    assert each == 1 if row_bytes < 128 else 0.77 * 1.3 < each < 0.83 * 1.3


@pytest.mark.parametrize(("few", "cycles"), [(8, 264), (16, 272), (32, 288), (64, 320)])
def test_a_box_of_few_rows_beside_one_of_many_takes_its_rows(few: int, cycles: float) -> None:
    """An H200 copies boxes of 256 and 8, 16, 32 or 64 rows in turn with a row a cycle."""
    draw = chip("h200", l2_pressure=0.0)
    loads = [copy(rows * 32, rows, 32) for rows in (256, few)]
    ends = []
    for turns in (12, 4):
        expect = arrive((256 + few) * 32 * turns)
        ends.append(run(Program().warp(0, init(1), expect, *loads * turns, wait(1), READY), draw))
    assert (ends[0].cycles - ends[1].cycles) / 8 == cycles


@pytest.mark.parametrize("rows", [16, 32, 64])
def test_a_warp_stands_where_the_engine_has_as_many_boxes_as_it_takes(rows: int) -> None:
    """h200_asked.json: the 16th has been asked for once six have been copied. A B200's file does
    not say how many it takes."""
    for name, waits in (("h200", True), ("b200", False)):
        draw = chip(name)
        size, queued = rows * 128, []
        for count in (16, 1):
            loads = [copy(size, rows, 128)] * count
            program = Program().warp(0, init(1), arrive(size * count), *loads, wait(1), READY)
            queued.append(run(program, draw).warps[0].reasons.get("queue", 0))
        queue = queued[0] - queued[1]
        six = 6 * rows * draw["copy_row_cycles"]
        assert queue == pytest.approx(six if waits else 0, abs=20 if waits else 0)


def test_registers_of_a_box_have_been_read_after_a_while() -> None:
    """h200_asked.json: a lane that may not be the only one asks every 66 cycles."""
    for name, cycles in (("h200", 37), ("b200", 8)):
        asked, box = copy(2048, 16, 128)
        turn: list[Entry] = [(replace(asked, read_barrier=1), box), op("UMOV UR8, UR9", wait=(1,))]
        draw, ends = chip(name), []
        for turns in (8, 4):
            expect = arrive(2048 * turns)
            program = Program().warp(0, init(1), expect, *turn * turns, wait(1), READY)
            ends.append(run(program, draw).warps[0].reasons.get("other result", 0))
        assert (ends[0] - ends[1]) / 4 == pytest.approx(cycles, abs=2)


def test_a_box_begins_some_cycles_after_the_last_one() -> None:
    draw = chip("b200", l2_pressure=0.0)
    many, few = (copies(n, 8, 128, draw) for n in (12, 4))
    assert (many - few) / 8 == draw["copy_issue_cycles"]


def test_the_l2_bounds_what_a_copy_brings() -> None:
    draw = chip("h100", l2_bytes=16 * 132)
    many, few = (copies(n, 64, 128, draw) for n in (12, 4))
    assert (many - few) / 8 == pytest.approx(64 * 128 / 16, rel=0.01)


def test_bytes_in_a_row_have_no_limit_of_rows() -> None:
    """utchmma: bulk copies move 120 bytes a cycle."""
    draw = chip("b200", l2_pressure=0.0)
    many, few = (copies(n, 1, 24_000, draw) for n in (12, 4))
    assert (many - few) / 8 == pytest.approx(24_000 / 120, rel=0.01)
