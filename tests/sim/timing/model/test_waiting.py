"""Memories, copies and barriers."""

from __future__ import annotations

from itertools import product

import pytest

from sm100sim.timing.model import Residents, StuckError
from sm100sim.timing.model.machine import replay
from sm100sim.timing.records import Action, DynamicEvent, Place
from testing.clocked import (
    BARRIER,
    READY,
    Entry,
    Program,
    arrive,
    chip,
    init,
    op,
    run,
    single,
    wait,
)

ALL = 0xFFFFFFFF
H100, H200 = chip("h100"), chip("h200")


def shared(passes: int) -> DynamicEvent:
    return DynamicEvent(Action.SHARED, ALL, wavefronts=passes)


def test_one_warp_presents_half_a_request_a_cycle_and_an_sm_takes_one() -> None:
    """h800_mio_queue_topology, LDS with an address register: 0.497 of one, 0.99 of four."""
    for warps, rate in ((1, 0.497), (4, 0.993)):
        ends = []
        for count in (400, 200):
            program = Program()
            for warp in range(warps):
                program.warp(warp, *[(op("LDS R0, [R4]"), shared(1))] * count)
            ends.append(run(program, H100).cycles)
        assert 200 * warps / (ends[0] - ends[1]) == pytest.approx(rate, rel=0.04)


def test_shuffles_pay_for_each_register_that_they_read() -> None:
    """The same note, "Late GPR operand collection": 2.04, 3.90, 5.82 cycles."""
    for operands, cycles in (("R1, 0x1, 0x1f", 2.04), ("R1, R2, 0x1f", 3.9), ("R1, R2, R3", 5.82)):
        many, few = (single(H100, *[op(f"SHFL.BFLY PT, R0, {operands}")] * n) for n in (300, 100))
        assert (many - few) / 200 == pytest.approx(cycles, rel=0.05)


def test_conflicts_take_their_passes() -> None:
    """The same note: 32-way conflicts drain one pass of 128 bytes a cycle over the SM."""
    program = Program()
    for warp in range(4):
        program.warp(warp, *[(op("LDS R0, [R4]"), shared(32))] * 50)
    assert run(program, H100).busy["port"] == 4 * 50 * 32
    assert run(program, H100).cycles == pytest.approx(4 * 50 * 32 - 8 * 4 * 32, rel=0.05)


def test_a_global_load_takes_the_latency_of_the_l2() -> None:
    event = DynamicEvent(Action.GLOBAL, ALL, sectors=4)
    load = (op("LDG.E R0, [R2.64]", write=0), event)
    cycles = single(H100, load, op("NOP", wait=(0,)))
    assert cycles == pytest.approx(H100["global_latency"], abs=12)


def test_a_phase_ends_with_its_last_arrival() -> None:
    """An arrival is seen after `arrive_latency`, a suspended wait `wake_latency` later."""
    draw = chip("h100", arrive_latency=10, wake_latency=20, wait_latency=36)
    late = [op("NOP", 10)] * 100
    program = Program().warp(0, init(2), arrive(), wait(1), READY).warp(1, *late, arrive())
    times = run(program, draw)
    seen = 1000 + 10 + 20
    assert times.warps[0].end - 1 == pytest.approx(seen, abs=1)
    assert times.warps[0].reasons["mbarrier"] > 900


def test_a_wait_for_a_phase_that_ended_costs_its_own_latency() -> None:
    draw = chip("h100", wait_latency=36)
    spent = [op("NOP", 15)] * 10
    times = run(Program().warp(0, init(1), arrive(), *spent, wait(1), READY), draw)
    before = 2 + 150
    assert times.cycles - 1 - before == pytest.approx(36 + draw["operand_cycles"], abs=1)


def test_a_check_that_its_guard_leaves_out_takes_its_latency_too() -> None:
    """h100_fixed_pipeline: squashed instructions occupy their pipes like others."""
    draw = chip("h100", wait_latency=36)
    check = op("SYNCS.PHASECHK.TRANS64 P0, [UR4], R0", write=0)
    assert single(draw, check, READY) == pytest.approx(36, abs=3)


def test_an_arrival_at_another_cta_takes_longer() -> None:
    draw = chip("h100", remote_latency=180)
    ends = []
    for rank in (0, 1):
        program = Program().warp(0, init(1), wait(1), READY)
        program.warp(4 * (1 - rank), op("NOP", 15), arrive(), rank=rank)
        ends.append(run(program, draw).warps[0].end)
    assert ends[1] - ends[0] == pytest.approx(180, abs=2)


def test_who_waits_for_what_never_comes_is_named() -> None:
    with pytest.raises(StuckError, match=r"warp 3 of rank 0.*NOP"):
        run(Program().warp(3, init(2), arrive(), wait(1), READY), H100)
    with pytest.raises(StuckError, match=rf"no mbarrier at {BARRIER.offset:#x} of rank 0$"):
        run(Program().warp(3, arrive(), wait(1), READY), H100)


def test_a_store_is_waited_for_by_groups() -> None:
    """utchmma: 31.8 bytes a cycle from shared to global memory."""
    draw = chip("b200")
    store = DynamicEvent(Action.COPY_STORE, 1, size=8192, shape=(64, 128))
    commit = DynamicEvent(Action.BULK_COMMIT, 1)
    body = [(op("UTMASTG.2D [UR8], [UR4]"), store), (op("UTMACMDFLUSH"), commit)] * 2
    ends = []
    for keep, detail in ((1, ("read",)), (0, ("read",)), (0, ())):
        event = DynamicEvent(Action.BULK_WAIT, 1, count=keep, detail=detail)
        ends.append(single(draw, *body, (op("DEPBAR.LE SB0, 0x0"), event), op("NOP")))
    moved = 8192 / 31.8
    assert ends[0] == pytest.approx(moved, abs=2)
    assert ends[1] - ends[0] == pytest.approx(moved, abs=4)
    assert ends[2] - ends[1] == pytest.approx(draw["store_latency"], abs=1)


@pytest.mark.parametrize("warps", [4, 8, 16])
def test_a_named_barrier_takes_22_cycles_and_2_for_each_warp(warps: int) -> None:
    """QuickRunCUDA: 22 + 2 W."""
    event = DynamicEvent(Action.NAMED_BARRIER, ALL, objects=(Place(0, 1),), count=32 * warps)
    program = Program()
    for warp in range(warps):
        program.warp(warp, (op("BAR.SYNC.DEFER_BLOCKING 0x1, 0x80"), event), op("NOP"))
    times = run(program, chip("b300"))
    assert times.cycles - 1 == pytest.approx(22 + 2 * warps, abs=3)


def test_who_only_arrives_does_not_wait() -> None:
    objects = (Place(0, 1),)
    sync = DynamicEvent(Action.NAMED_BARRIER, ALL, objects=objects, count=64)
    arrival = DynamicEvent(Action.NAMED_ARRIVE, ALL, objects=objects, count=64)
    program = Program().warp(0, (op("BAR.SYNC 0x1, 0x40"), sync), op("NOP"))
    program.warp(1, *[op("NOP", 15)] * 20, (op("BAR.ARV 0x1, 0x40"), arrival), op("NOP"))
    times = run(program, H100)
    assert times.warps[0].end > 310
    assert times.warps[1].end < 305


MEET = (
    (op("UCGABAR_ARV"), DynamicEvent(Action.CLUSTER_ARRIVE, ALL)),
    (op("UCGABAR_WAIT"), DynamicEvent(Action.CLUSTER_WAIT, ALL)),
    op("NOP"),
)


def test_a_cluster_meets() -> None:
    """All warps that have not ended take part; a wait ends `cluster_latency` after the last."""
    draw = chip("h100", cluster_latency=200)
    program = Program().warp(0, *MEET).warp(0, *[op("NOP", 15)] * 20, *MEET, rank=1)
    program.warp(1, op("NOP"))
    times = run(program, draw)
    assert [round(w.end) - 1 for w in times.warps[:2]] == pytest.approx([500, 500], abs=6)


def test_arrivals_at_a_cluster_s_barrier_pass_one_after_the_other() -> None:
    """An H200 takes 23.7 cycles longer of 12 warps a CTA than of one, 2.1 a warp."""
    ends = []
    for warps in (1, 12):
        program = Program()
        for rank, warp in product((0, 1), range(warps)):
            program.warp(warp, *MEET, rank=rank)
        ends.append(run(program, H200).cycles)
    assert ends[1] - ends[0] == pytest.approx(23.7, abs=5)


def test_a_barrier_of_the_gpu_waits_for_what_its_warp_asked() -> None:
    """Stores and loads; that of the CTA does not, nor that of the system, which takes longer."""
    asked = [DynamicEvent(Action.GLOBAL, ALL, sectors=4, detail=(name,)) for name in ("st", "ld")]
    store, load = op("STG.E [R2.64], R0"), op("LDG.E R0, [R2.64]", write=0)
    for access in ((), ((store, asked[0]),), ((load, asked[1]),)):
        under_way = H200["global_latency"] if access else 0
        for scope, alone, waits in (
            ("ALL.CTA", "membar_cycles", False), ("ALL.GPU", "membar_gpu_cycles", True),
            ("SC.GPU", "membar_gpu_cycles", True), ("ALL.SYS", "membar_sys_cycles", False),
        ):  # fmt: skip
            took = single(H200, *access, op(f"MEMBAR.{scope}"), op("NOP"))
            assert took == pytest.approx(H200[alone] + under_way * waits, abs=24)
    for code, alone in (("ERRBAR", "errbar_cycles"), ("CGAERRBAR", "")):
        took = single(H200, op(code), op("NOP"))
        assert took == pytest.approx(H200[alone] if alone else 0, abs=8)


def test_clusters_on_the_same_sms_have_barriers_of_their_own() -> None:
    program = Program().warp(0, init(1), arrive(), wait(1), READY)
    alone = run(program, H100)
    both = run(program, H100, copies=2)
    assert both.warps[1].end == pytest.approx(alone.cycles, abs=6)
    assert [w.copy for w in both.warps] == [0, 1]


def test_a_place_is_taken_again_while_the_other_goes_on() -> None:
    """Three of two at once: barriers are new, and the third begins a gap after the first ended."""
    quick = Program().warp(0, init(1), arrive(), wait(1), READY)
    alone = run(quick, H100).cycles
    assert run(quick, H100, clusters=3, gap=100).cycles == pytest.approx(3 * alone + 200, abs=12)
    pair = run(quick, H100, copies=2, clusters=3, gap=100)
    assert pair.cycles == pytest.approx(2 * alone + 100, abs=8)
    assert pair.executed.sum() == 3 * 4

    with pytest.raises(ValueError, match="clusters: 3; waits are told of 2 that run at once"):
        replay(quick.trace(), H100, Residents(copies=2, clusters=3), stand_room=10)


def test_the_timeline_has_what_fits() -> None:
    program = Program().warp(0, init(1), wait(1), READY).warp(1, op("NOP", 15), op("NOP"), arrive())
    times = run(program, H100, room=4)
    assert [(span.what, span.warp) for span in times.spans] == [("mbarrier", 0)]
    assert times.spans[0].end == pytest.approx(times.warps[0].end - 1, abs=1)
    assert run(program, H100, room=0).spans_lost == 1


def test_a_barrier_without_a_count_is_of_all_warps() -> None:
    event = DynamicEvent(Action.NAMED_BARRIER, ALL, objects=(Place(0, 0),))
    program = Program()
    for warp in range(3):
        late = [op("NOP", 15)] * (10 * warp)
        program.warp(warp, *late, (op("BAR.SYNC.DEFER_BLOCKING 0x0"), event), op("NOP"))
    times = run(program, H100)
    assert min(warp.end for warp in times.warps) > 300


@pytest.mark.parametrize("turns", [0, 20])
def test_a_barrier_without_a_count_does_not_wait_for_warps_that_have_exited(turns: int) -> None:
    """The third warp exits before or after two others came."""
    event = DynamicEvent(Action.NAMED_BARRIER, ALL, objects=(Place(0, 0),))
    program = Program()
    for warp in range(2):
        program.warp(warp, (op("BAR.SYNC.DEFER_BLOCKING 0x0"), event), op("NOP"))
    program.warp(2, *[op("NOP", 15)] * (1 + turns))
    first, second, gone = run(program, H100).warps
    after = max(gone.end, 1) if turns else 0
    assert first.end == second.end
    assert after + H100["named_latency"] <= first.end <= after + 2 * H100["named_latency"]


def test_bytes_of_a_store_to_another_cta_are_heard_of() -> None:
    """st.async: a barrier of the other CTA counts the bytes once they are there."""
    draw = chip("h100", remote_latency=180)
    there = Place(1, 64)
    store = DynamicEvent(Action.SHARED, 1, (there,), size=8, wavefronts=1, detail=("remote",))
    program = Program().warp(0, init(1, there), arrive(8, there), wait(1, there), READY, rank=1)
    program.warp(0, op("NOP", 15), (op("LDS R0, [R4]"), store))
    times = run(program, draw)
    assert times.warps[0].end > 15 + draw["shared_latency"] + 180


def test_copies_of_lanes_are_waited_for_in_groups() -> None:
    """cp.async: the latency of a load from the L2, then a pass of shared memory."""
    lanes = DynamicEvent(Action.CP_ASYNC, ALL, size=512, sectors=16, wavefronts=4)
    commit, rest = DynamicEvent(Action.CP_COMMIT, ALL), DynamicEvent(Action.CP_WAIT, ALL)
    copy = (op("LDG.E R0, [R2.64]"), lanes)
    done = single(H100, copy, (op("NOP"), commit), (op("DEPBAR.LE SB0, 0x0"), rest), op("NOP"))
    assert done == pytest.approx(H100["global_latency"] + 16 * 32 / (4100 / 132) + 4, abs=6)


def test_what_lanes_copied_does_not_wait_for_the_operands_of_products() -> None:
    """h100_lanes.json: 574 to 577 cycles for 32 KB beside products of n64 to n256, 585 alone."""
    lanes = DynamicEvent(Action.CP_ASYNC, ALL, size=512, sectors=16, wavefronts=4)
    commit, rest = DynamicEvent(Action.CP_COMMIT, ALL), DynamicEvent(Action.CP_WAIT, ALL)
    copy = (op("LDGSTS.E.BYPASS.128 [R2], [R4.64]"), lanes)
    draw = chip("h100", l2_pressure=0.0, global_latency=0.0, copy_bytes=1e6)
    end: list[Entry] = [(op("NOP"), commit), (op("DEPBAR.LE SB0, 0x0"), rest), op("NOP")]
    work: list[Entry] = [*[copy] * 64, *end]
    product = op("HGMMA.64x64x16.F32 R24, gdesc[UR4], R24, gsb0", 4)
    ends = []
    for products in (0, 40):
        program = Program()
        for warp in range(4 if products else 0):
            program.warp(warp, *[product] * products)
        program.warp(4, *work)
        found = run(program, draw)
        ends.append(max(time.end for time in found.warps if time.warp == 4))
    assert ends[1] <= ends[0] + 8
