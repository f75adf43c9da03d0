"""What SMs wait for: loads of lanes from memory, alone and with others, and atomic operations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sm100sim.timing.model.happenings import happening_of
from sm100sim.timing.predict.gpu import asked_of_l2, time_launch
from sm100sim.timing.predict.memory import lost
from sm100sim.timing.records import Action, DynamicEvent, Extent, LaunchTrace
from testing.clocked import Entry, Program, chip, executed, fresh_of, op

KB = 1024
FIRST = 4 * KB
"""Where tensors begin."""
H200 = chip("h200", launch_cycles=0, cta_cycles=0)
B200 = chip("b200")


def load(n: int, pieces: int, apart: int = 0) -> DynamicEvent:
    """The nth load of so many pieces."""
    first = FIRST // 32 + n * (apart or pieces)
    return DynamicEvent(
        Action.GLOBAL, 1, size=32 * pieces, sectors=pieces, address=first * 32, detail=("ld",),
        pieces=tuple(range(first, first + pieces)),
    )  # fmt: skip


def loads(count: int, pieces: int, apart: int = 0) -> list[Entry]:
    """Loads of so many pieces each, one after the other, each waited for."""
    found: list[Entry] = []
    for n in range(count):
        found += [(op("LDG.E.128 R4, [R2.64]", write=0), load(n, pieces, apart))]
        found += [op("NOP", wait=(0,))]
    return found


def reading(*steps: Entry, ctas: int = 1, size: int = 64 * KB) -> LaunchTrace:
    """CTAs of one warp that read a tensor of their own."""
    trace = replace(Program().warp(0, *steps).trace(), clusters=tuple(range(ctas)))
    extent = Extent(FIRST, size * ctas, size * ctas)
    return LaunchTrace((ctas, 1, 1), (32, 1, 1), (1, 1, 1), 0, (trace,), (extent,))


def test_64_bytes_come_at_once() -> None:
    """Who asks for the second 32 of them finds them, whoever asked for the first."""
    marked, _ = fresh_of(reading(*loads(8, 1), size=256))
    assert [event.fresh for event in executed(marked.traces[0])] == [1, 0] * 4
    marked, _ = fresh_of(reading(*loads(4, 1, apart=2), size=256))
    assert [event.fresh for event in executed(marked.traces[0])] == [1] * 4


def test_a_load_waits_for_the_last_of_its_chunks() -> None:
    """A chunk is as late whatever is loaded of it; a larger load waits for more of them."""
    (marked, _), (whole, _) = (fresh_of(reading(*loads(n, 512 // n))) for n in (16, 1))
    late = [event.late for event in marked.traces[0].events]
    assert len(set(late)) == 16
    assert [event.late for event in whole.traces[0].events] == [max(late)]
    again, _ = fresh_of(reading(*loads(16, 8, apart=32)))
    assert [event.late for event in again.traces[0].events] == late
    each = [happening_of(event, H200) for event in marked.traces[0].events]
    mean = sum(one.latency for one in each if one) / 16
    assert mean == pytest.approx(H200["global_latency"] + H200["hbm_latency"], rel=0.1)
    assert len({one.latency for one in each if one}) == 16
    assert len({getattr(happening_of(e, B200), "latency", 0) for e in marked.traces[0].events}) == 1


def test_waits_are_longer_the_more_others_wait() -> None:
    """With other work in between fewer do; nobody waits `hbm_slowest` times as long."""
    work = [op("IADD3 R1, R1, 0x1, RZ", stall=15)] * 200
    one, all_ = (asked_of_l2(reading(*loads(16, 64), ctas=n), H200) for n in (1, 132))
    rows = loads(16, 64)
    busy = [step for at in range(0, len(rows), 2) for step in (*rows[at : at + 2], *work)]
    paced = asked_of_l2(reading(*busy, ctas=132), H200)
    assert 1 < one["hbm_slower"] < 1.01 < paced["hbm_slower"] < all_["hbm_slower"]
    assert (
        asked_of_l2(reading(*loads(16, 4096), ctas=132, size=2048 * KB), H200)["hbm_slower"]
        == (H200["hbm_slowest"])
    )
    all_at_once = reading(*loads(16, 64), ctas=132)
    slow, fast = (time_launch(all_at_once, draw, cold=True).cycles for draw in (all_, one))
    assert slow > fast
    assert "hbm_slower" not in asked_of_l2(reading(op("NOP")), H200).values


def test_clusters_of_a_kind_end_one_after_the_other() -> None:
    """The last of many ends later; where each place takes many, they make up for one another."""
    few, many = (asked_of_l2(reading(*loads(16, 64), ctas=n), H200) for n in (2, 132))
    (one,) = time_launch(reading(*loads(16, 64), ctas=132), many, cold=True).parts
    whole = time_launch(reading(*loads(16, 64), ctas=132), many, cold=True).cycles
    spread = many["wait_spread"]
    assert spread == pytest.approx(few["wait_spread"], rel=0.01)
    assert 1 + 2 * spread < whole / one.cycles < 1 + 3.5 * spread


def test_who_waits_for_atomics_ends_apart() -> None:
    """An SM's take always as long: many deviate by as much as one."""
    detail = "atomic", "answered"
    event = DynamicEvent(Action.GLOBAL, 1, size=4, sectors=1, address=0, detail=detail)
    assert happening_of(replace(event, detail=detail[:1]), H200) != happening_of(event, H200)
    turn = (op("ATOMG.E.ADD R4, [R2.64], R5", write=0), event), op("NOP", wait=(0,))
    short, long = (asked_of_l2(reading(*turn * n, ctas=2), H200)["wait_spread"] for n in (20, 80))
    one = H200["global_latency"] + H200["atomic_latency"]
    assert long == pytest.approx(H200["atomic_deviation"] / one, rel=0.1)
    assert short == pytest.approx(long, rel=0.1)
    taken = happening_of(event, H200)
    assert taken is not None
    assert taken.latency == one


def test_the_l2_loses_what_many_ctas_load_in_between() -> None:
    """A row that each of them loads twice; 22 MB are kept, of more a part comes again."""
    assert [lost(size * 1e6, H200) for size in (10, 22, 37, 52, 80)] == [0, 0, 0.5, 1, 1]
    assert lost(80e6, B200) == 0
    for row, share in ((128 * KB, 0), (512 * KB, 1)):
        turn = loads(row // 4096, 128)
        _, traffic = fresh_of(reading(*turn, *turn, ctas=132, size=row))
        assert (traffic.repeated, traffic.again) == (132 * row, share * 132 * row)
        assert traffic.read_in_all(0) == (1 + share) * traffic.read
        assert traffic.read_in_all(traffic.repeated / 2) == (1 + share / 2) * traffic.read
    shared = replace(reading(*turn, *turn, ctas=132), tensors=(Extent(FIRST, row, row),))
    assert fresh_of(shared)[1].again == 0, "others have loaded them since"


def test_what_is_loaded_again_waits_for_memory_as_often_as_it_is_lost() -> None:
    """A warp goes through its row twice with the same instructions; the first time it is new."""
    for row, fresh in ((32 * KB, 0), (512 * KB, 1)):
        launched = reading(*loads(row // 4096, 128), ctas=132, size=row)
        (trace,) = launched.traces
        stream = trace.streams[0]
        twice = replace(stream, order=np.tile(stream.order, 2), event=np.tile(stream.event, 2))
        marked, _ = fresh_of(replace(launched, traces=(replace(trace, streams=(twice,)),)))
        found = [event.fresh for event in executed(marked.traces[0])]
        assert found == [1] * (row // 4096) + [fresh] * (row // 4096)


def test_lanes_that_load_from_the_l2_have_its_port_until_it_is_used_up() -> None:
    """32 KB of all SMs at once: no load takes longer, and the launch as long as the L2."""
    far = reading(*loads(16, 1024), ctas=132, size=512 * KB)
    draw = asked_of_l2(replace(far, tensors=far.tensors), H200)
    assert draw["l2_cycles"] == pytest.approx(132 * 512 * KB / H200["l2_bytes"])
    assert time_launch(far, draw).cycles == pytest.approx(draw["l2_cycles"])
    one = happening_of(load(0, 1024), draw)
    assert one is not None
    assert one.memory == pytest.approx(32 * KB / H200["copy_bytes"])


def test_nobody_waits_where_memory_takes_all_the_time() -> None:
    """Loads whose results nobody needs: the launch takes as long as memory, at any rate."""
    rows = loads(16, 1024)[::2]
    far = reading(*rows, ctas=132, size=512 * KB)
    draw = asked_of_l2(far, chip("h200", launch_cycles=0, cta_cycles=0, l2_dirty_bytes=0))
    assert draw["hbm_slower"] <= draw["hbm_slowest"]
    time = time_launch(far, draw, cold=True)
    moving = 132 * 512 * KB / draw["hbm_gbytes"] * draw["clock_mhz"] / 1e3
    assert time.bound_by == "HBM"
    assert time.cycles == pytest.approx(moving)
