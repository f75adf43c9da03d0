"""What a launch moves to and from memory: shares of copies, and what they take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sm100sim.layouts.tensor_map import TensorMap
from sm100sim.timing.model.happenings import happening_of
from sm100sim.timing.predict import predict_launch
from sm100sim.timing.predict.gpu import asked_of_l2, time_launch, time_marked
from sm100sim.timing.predict.memory import MOVES, NO_TRAFFIC, Traffic
from sm100sim.timing.records import Action, DynamicEvent, Extent, LaunchTrace, Place
from sm100sim.timing.sass.trace import tensors_of
from testing.clocked import (
    BARRIER,
    READY,
    Program,
    arrive,
    chip,
    executed,
    fresh_of,
    init,
    op,
    wait,
)

KB = 1024
Q, K, OUT = Extent(0, 4 * KB, 4 * KB), Extent(64 * KB, 2 * KB, 2 * KB), Extent(96 * KB, KB, KB)
H200 = chip("h200", launch_cycles=0, cta_cycles=0)
B200 = chip("b200")


def copy(address: int, size: int, kind: Action = Action.COPY_LOAD) -> DynamicEvent:
    """A copy of rows of 128 bytes."""
    objects = (BARRIER,) if kind is Action.COPY_LOAD else ()
    return DynamicEvent(kind, 1, objects, size=size, shape=(size // 128, 128), address=address)


def launch(ctas: int = 4) -> LaunchTrace:
    """CTAs that each read a part of Q and the whole of K, twice, and write a part of the output."""
    load = op("UTMALDG.2D [UR4], [UR6]")
    program = Program().warp(
        0,
        init(1),
        arrive(5 * KB),
        (load, copy(Q.address, KB)),
        *[(load, copy(K.address, 2 * KB))] * 2,
        wait(1),
        READY,
        (op("UTMASTG.2D [UR4], [UR6]"), copy(OUT.address, KB // 4, Action.COPY_STORE)),
        op("NOP"),
    )
    trace = replace(program.trace(), clusters=tuple(range(ctas)))
    return LaunchTrace((ctas, 1, 1), (32, 1, 1), (1, 1, 1), 200_000, (trace,), (Q, K, OUT))


def test_what_is_read_once_is_fresh_and_what_is_shared_in_part() -> None:
    marked, traffic = fresh_of(launch())
    done = [event for event in executed(marked.traces[0]) if event.kind in MOVES]
    assert [(e.fresh, e.sharers) for e in done if e.address == Q.address] == [(1, 1)]
    twice = [(e.fresh, e.sharers) for e in done if e.address == K.address]
    assert twice == [(1 / 4, 4), (0, 4)]  # of each of four CTAs, which has it then
    assert [e.fresh for e in done if e.address == OUT.address] == [1]
    assert traffic == Traffic(asked=4 * 5 * KB + KB, read=6 * KB, written=KB)


def test_what_no_tensor_map_describes_finds_the_l2() -> None:
    marked, traffic = fresh_of(replace(launch(), tensors=(K,)))
    assert traffic.read == 2 * KB
    assert all(e.fresh == 0 for e in marked.traces[0].events if e.address == Q.address)


def test_what_was_written_before_has_to_go_as_others_come() -> None:
    """2 KB come where the L2 is full of lines that were written; memory takes writes slowly."""
    slow = {"launch_cycles": 0, "cta_cycles": 0, "hbm_write_gbytes": 1e-4}
    given = replace(launch(), tensors=(K,))
    clean, half, full = (
        time_launch(given, chip("h200", **slow, l2_dirty_bytes=dirty), cold=True)
        for dirty in (0, KB, 64 * KB)
    )
    assert clean.bound_by == "SMs"
    assert half.bound_by == full.bound_by == "HBM"
    written = KB / 1e-4 * H200["clock_mhz"] / 1e3
    assert half.cycles == pytest.approx(written, rel=0.001)
    assert full.cycles == pytest.approx(2 * written, rel=0.001)
    assert time_launch(given, chip("h200", **slow)).bound_by == "SMs", "what is warm is not"


def test_a_fresh_copy_takes_memorys_time() -> None:
    """Of rows of its own it waits for the last chunk, the longer the more others wait; what two SMs
    share comes later by what a chip says, and its bytes at the SM's share of memory."""
    box = replace(copy(0, 32 * KB), late=2)
    near, far = (happening_of(replace(box, fresh=f), H200) for f in (0, 1))
    assert near is not None
    assert far is not None
    longer = H200["hbm_latency"] + 2 * H200["hbm_deviation"]
    assert far.latency - near.latency == longer
    assert far.memory == near.memory == pytest.approx(32 * KB / (H200["l2_bytes"] / 132))
    busy = happening_of(replace(box, fresh=1), chip("h200", hbm_slower=1.5))
    assert busy is not None
    assert busy.latency == 1.5 * far.latency
    both = happening_of(replace(box, fresh=1 / 2, sharers=2), H200)
    assert both is not None
    assert both.latency - near.latency == H200["copy_memory_latency"]
    share = H200["hbm_gbytes"] * 1e3 / H200["clock_mhz"] / 132
    rate = 2 * H200["l2_bytes"] / 132
    assert both.memory == pytest.approx(16 * KB / share + 16 * KB / rate)


def test_rows_of_a_box_lie_apart_or_together() -> None:
    """Eight rows of 128 bytes are a chunk, or eight; the last of them is waited for."""
    box, wide = DynamicEvent(Action.COPY_LOAD, 1, (BARRIER,), size=KB, shape=(8, 128)), 8 * KB
    loads = [replace(box, span=7 * pitch + 128) for pitch in (128, 512, 1024)]
    loads += [replace(box, address=n * KB, shape=(1, KB)) for n in range(8)]
    program = Program().warp(0, *[(op("UTMALDG.2D [UR4], [UR6]"), load) for load in loads])
    alone = LaunchTrace((1, 1, 1), (32, 1, 1), (1, 1, 1), 0, (program.trace(),),
                        (Extent(0, wide, wide),))  # fmt: skip
    late = [event.late for event in executed(fresh_of(alone)[0].traces[0])]
    rows = late[3:]
    assert late[0] == rows[0]
    assert late[1] == max(rows[:4])
    assert late[2] == max(rows)
    assert len(set(rows)) == 8


def test_what_a_cta_copied_before_is_no_wait_and_another_cta_s_is() -> None:
    """Both CTAs of a cluster ask for the same rows before they have come."""
    load = op("UTMALDG.2D [UR4], [UR6]")
    program = Program()
    for rank in (0, 1):
        box = replace(copy(K.address, 2 * KB), objects=(Place(rank, 64),))
        other = replace(box, objects=(Place(rank, 72),))
        program = program.warp(0, (load, box), (load, other), rank=rank)
    pair = replace(launch(), cluster=(2, 1, 1), traces=(program.trace(),))
    (trace,) = fresh_of(pair)[0].traces
    assert [[e.fresh for e in executed(trace, warp)] for warp in (0, 1)] == [[1 / 2, 0]] * 2


def access(address: int, what: str, kind: Action = Action.GLOBAL) -> DynamicEvent:
    """Four sectors that lanes read or write."""
    return DynamicEvent(kind, 1, size=128, sectors=4, address=address, detail=(what,))


def test_loads_and_stores_of_lanes_move_memory_as_copies_do() -> None:
    program = Program().warp(
        0,
        *[(op("LDG.E.128 R4, [R2.64]", write=0), access(Q.address, "ld"))] * 2,
        (op("LDGSTS.E.128 [R2], [R4.64]"), access(K.address, "", Action.CP_ASYNC)),
        (op("STG.E.128 [R2.64], R4"), access(OUT.address, "st")),
        op("NOP", wait=(0,)),
    )
    trace = replace(program.trace(), clusters=tuple(range(32)))
    some = replace(launch(), traces=(trace,))
    marked, traffic = fresh_of(some)
    assert traffic == Traffic(asked=32 * 4 * 128, read=6 * KB, written=KB, own=8 * KB)
    fresh = [(e.detail[0], e.fresh) for e in executed(marked.traces[0])]
    assert fresh == [("ld", 1), ("ld", 0), ("", 1 / 2), ("st", 1 / 4)]  # 4, 4 and 4 KB of 4, 2, 1


def test_what_the_l1_answers_is_neither_fresh_nor_asked_of_the_l2() -> None:
    """Lanes load 128 bytes sixteen times; stores leave the SM each time."""
    pieces = tuple(range(Q.address // 32, Q.address // 32 + 4))
    load = replace(access(Q.address, "ld"), pieces=pieces)
    store = replace(access(OUT.address, "st"), pieces=(OUT.address // 32,))
    turn = ((op("LDG.E.128 R4, [R2.64]", write=0), load), op("NOP", wait=(0,)))
    program = Program().warp(0, *turn * 16, *[(op("STG.E.128 [R2.64], R4"), store)] * 16)
    trace = replace(program.trace(), clusters=tuple(range(32)), shared_bytes=200_000)
    some = replace(launch(), traces=(trace,))
    marked, traffic = fresh_of(some)
    assert traffic == Traffic(32 * 32 * 128, 4 * KB, KB, repeated=60 * KB, own=64 * KB)
    assert traffic.read_in_all(60 * KB) == 4 * KB
    fresh = [(event.detail[0], event.fresh) for event in marked.traces[0].events]
    assert fresh[0] == ("ld", 1.0)  # 4 KB of 4 pass the L1, once
    assert fresh[1:] == [("ld", 0.0)] * 15 + [("st", KB / (32 * 16 * 128))] * 16
    far = replace(some, traces=(replace(trace, shared_bytes=0),))
    near, all_ = (asked_of_l2(which, H200)["l2_pressure"] for which in (some, far))
    alone = replace(H200, values={**H200.values, "l2_pressure": 0.0, "hbm_pressure": 0.0})
    cycles = [time_marked(fresh_of(which)[0], alone, NO_TRAFFIC).cycles for which in (some, far)]
    asked = [pressure * time for pressure, time in zip((near, all_), cycles, strict=True)]
    assert asked[0] / asked[1] == pytest.approx((1 + 16) / (16 + 16))


def test_a_fresh_load_waits_for_memory_and_a_store_does_not() -> None:
    loads = access(0, "ld"), "hbm_latency"
    copies = access(0, "", Action.CP_ASYNC), "hbm_latency"
    for event, latency in (loads, copies):
        near, far = (happening_of(replace(event, fresh=f), H200) for f in (0, 1))
        assert near is not None
        assert far is not None
        assert far.latency - near.latency == pytest.approx(H200[latency])
        assert far.memory == near.memory, "it is in the latency"
    stores = [happening_of(replace(access(0, "st"), fresh=f), H200) for f in (0, 1)]
    assert stores[0] == stores[1]


@pytest.mark.parametrize("event", [copy(0, 32 * KB), access(0, "", Action.CP_ASYNC)])
def test_who_shares_rows_of_memory_waits_for_memory_where_a_chip_says_so(
    event: DynamicEvent,
) -> None:
    """A B200's file does not: there what is waited for is spread over all who share."""
    for of, waits in ((H200, H200["copy_memory_latency"]), (B200, B200["hbm_latency"] / 16)):
        near, far = (happening_of(replace(event, fresh=f), of) for f in (0, 1 / 16))
        assert near is not None
        assert far is not None
        assert far.latency - near.latency == pytest.approx(waits)


def test_rows_that_several_sms_ask_for_come_out_of_the_l2_once() -> None:
    """An H200's probe: 1, 2 and 4 SMs that copy the same get 1, 1.7 and 2.5 times the bytes."""
    share, most = H200["l2_bytes"] / 132, H200["l2_shared_bytes"]
    memory = H200["hbm_gbytes"] * 1e3 / H200["clock_mhz"] / 132
    for sharers in (2, 4, 12):
        box = replace(copy(0, 32 * KB), fresh=1 / sharers, sharers=sharers)
        found = happening_of(box, H200)
        assert found is not None
        rate = min(share * sharers, most)
        told = 32 * KB * ((1 - 1 / sharers) / rate + 1 / sharers / min(memory, rate))
        assert found.memory == pytest.approx(told)


def test_lanes_get_less_of_rows_that_several_sms_ask_for() -> None:
    """An H100's probe: 35 to 53 bytes a cycle, in which boxes get up to 74."""
    rate, fresh = H200["l2_lane_bytes"], 1 / 32
    memory = min(H200["hbm_gbytes"] * 1e3 / H200["clock_mhz"] / 132, rate)
    copied = replace(access(0, "", Action.CP_ASYNC), fresh=fresh, sharers=32)
    found = happening_of(copied, H200)
    assert found is not None
    assert found.memory == pytest.approx(128 * ((1 - fresh) / rate + fresh / memory))


def test_a_launch_that_asks_little_has_the_port_to_itself() -> None:
    draw = asked_of_l2(launch(), H200)
    assert 0 < draw["l2_pressure"] < 0.01
    alone = happening_of(copy(0, 32 * KB), draw)
    assert alone is not None
    assert alone.memory == pytest.approx(32 * KB / H200["copy_bytes"], rel=0.01)


def test_a_cold_launch_takes_longer() -> None:
    draw = asked_of_l2(launch(), H200)
    warm, cold = (time_launch(launch(), draw, cold=c).cycles for c in (False, True))
    assert cold - warm > H200["hbm_latency"] / 2
    predicted = predict_launch(launch(), "h200", draws=2, cold=True)
    assert predicted.typical.cycles > predict_launch(launch(), "h200", draws=2).typical.cycles


def test_tensors_of_a_launch_are_those_of_its_maps() -> None:
    described = TensorMap(
        element="FLOAT16", address=1 << 20, sizes=(64, 100), strides=(256,), box=(64, 8)
    )
    params = (described.encode(), bytes(8), bytes([255]) * 128)
    assert tensors_of(params) == (Extent(1 << 20, 25600, 12800),)


def test_maps_lie_in_structures_too() -> None:
    """As in the one parameter of a kernel of CUTLASS in C++; zeros and other words are no map."""
    described = TensorMap(
        element="FLOAT16", address=1 << 20, sizes=(64, 100), strides=(256,), box=(64, 8)
    )
    other = replace(described, address=1 << 24, sizes=(64, 50))
    within = bytes(64) + described.encode() + bytes(range(64)) + other.encode() + bytes(40)
    expected = (Extent(1 << 20, 25600, 12800), Extent(1 << 24, 12800, 6400))
    assert tensors_of((within,)) == expected
    broken = bytearray(within)
    broken[64 + 100] = 1
    assert tensors_of((bytes(broken),)) == expected[1:]
    assert tensors_of((bytes(1024), bytes([255]) * 1024)) == ()
