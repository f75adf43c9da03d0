"""Ways that warps of a Hopper SM share: an H100 and an H200 answered (`sharing/accesses.py`)."""

from __future__ import annotations

import pytest

from sm100sim.timing.records import Action, DynamicEvent, Place
from testing.clocked import Entry, Program, chip, op, run, single

H200 = chip("h200")
ALL = 0xFFFFFFFF
BARRIER = Place(0, 64)
ONE_PASS = DynamicEvent(Action.SHARED, ALL, wavefronts=1)
SHUFFLE = op("SHFL.BFLY PT, R0, R1, 0x1, 0x1f", write=0)
LOAD = (op("LDS R0, [R4]", write=0), ONE_PASS)
STORE = (op("STS [R4], R0"), ONE_PASS)


def beside(
    access: Entry, columns: int, a: str = "gdesc[UR4]", few: int = 2, many: int = 6
) -> float:
    """Cycles of an access: of four warps beside a chain of products, one of each sub-partition."""
    product = op(f"HGMMA.64x{columns}x16.F32 R24, {a}, R24", 4)
    ends = []
    for count in (few, many):
        program = Program()
        for warp in range(4):
            program.warp(warp, *[product] * 40)
        for warp in range(4, 8):
            begin: list[Entry] = [op("NOP", 15)] * 8
            program.warp(warp, *begin, *[access] * count, LOAD, op("NOP", wait=(0,)))
        ends.append(max(w.end for w in run(program, H200).warps if w.warp > 3))
    return (ends[1] - ends[0]) / 4 / (many - few)


@pytest.mark.parametrize("access", [SHUFFLE, LOAD], ids=["shuffle", "load"])
def test_what_comes_back_has_a_quarter_of_the_cycles_beside_products(access: Entry) -> None:
    """8 shuffles of each sub-partition's warp: 115 to 130 cycles beside three kinds of products."""
    assert beside(access, 64, "R4") == pytest.approx(4, rel=0.03)
    assert beside(access, 128) == pytest.approx(4, rel=0.03)
    assert beside(access, 256) == pytest.approx(4, rel=0.03)


def test_a_store_has_what_products_leave() -> None:
    """A store of 16 bytes a lane: 2.3 and 3.4 cycles a pass beside n64 of registers and n128."""
    assert beside(STORE, 64, "R4") == pytest.approx(2, rel=0.03)
    assert beside(STORE, 128) == pytest.approx(4, rel=0.03)


@pytest.mark.parametrize("columns", [48, 64])
def test_a_shuffle_passes_beside_products_that_read_all_the_time(columns: int) -> None:
    """One in 19.5 to 21.5 cycles; before, it waited until no product was queued."""
    assert beside(SHUFFLE, columns, few=0, many=1) == pytest.approx(20, rel=0.03)


def test_other_chips_have_no_such_limits() -> None:
    assert {"lane_share_least", "lane_share_most"} <= chip("h100").values.keys()
    assert not {"lane_share_least", "lane_share_most", "l2_write_bytes", "init_latency"} & (
        chip("b200").values.keys()
    )


def stores(pressure: float, size: int = 32) -> float:
    """Cycles of a warp's store to 8 rows of 32 bytes."""
    event = DynamicEvent(Action.GLOBAL, ALL, size=8 * size, sectors=8, detail=("st",))
    draw = chip("h200", l2_pressure=pressure)
    many, few = (single(draw, *[(op("STG.E.64 [R2.64], R4"), event)] * n) for n in (96, 32))
    return (many - few) / 64


def test_what_lanes_store_leaves_an_sm_more_slowly_where_all_store() -> None:
    """One SM: 7.4 cycles for 256 bytes. All at once: 14.8; the record's median is 17.6 bytes."""
    assert stores(0) == pytest.approx(256 / 32, rel=0.01)
    assert stores(1) == pytest.approx(256 / (2327 / 132), rel=0.01)


def test_a_bulk_store_takes_as_long_where_all_store() -> None:
    """sharing/h200_cold.json: 16 KB every 4,000 cycles 599 cycles, of one SM and of all."""
    event, ends = DynamicEvent(Action.COPY_STORE, 1, size=16384), []
    for pressure in (0.0, 1.0):
        store = (op("UTMASTG.2D [UR4], [UR8]"), event)
        end: list[Entry] = [
            (op("UTMACMDFLUSH"), DynamicEvent(Action.BULK_COMMIT, 1)),
            (op("DEPBAR.LE SB0, 0x0"), DynamicEvent(Action.BULK_WAIT, 1)), op("NOP"),
        ]  # fmt: skip
        ends.append(single(chip("h200", l2_pressure=pressure), store, *end))
    assert ends == pytest.approx([599, 599], rel=0.04)


def test_a_fence_waits_for_mbarriers_that_its_warp_initialises() -> None:
    """67.6 cycles a turn where one thread initialises and fences; 5.6 without fences."""
    event = DynamicEvent(Action.MBARRIER_INIT, 1, objects=(BARRIER,), shape=(1,))
    exchange, fence = op("SYNCS.EXCH.64 URZ, [UR4], UR5"), op("FENCE.VIEW.ASYNC.S")
    for one in ((exchange, event), exchange):  # without an event it is a turn of a loop over lanes
        many, few = (single(H200, *[one, fence] * n) for n in (9, 1))
        expected = H200["init_latency"] + H200["fence_cycles"]
        assert (many - few) / 8 == pytest.approx(expected, abs=2)
        assert single(H200, *[one] * 9) - single(H200, one) <= 8 * 6


def test_an_initialisation_reads_its_registers_late() -> None:
    """Turns of a loop over lanes: 74.0 cycles where two counts make them write new registers."""
    exchange = op("SYNCS.EXCH.64 URZ, [UR4], UR5", read=0)
    done = single(H200, exchange, op("UMOV UR5, 0x1", wait=(0,)))
    assert done == pytest.approx(H200["init_read_latency"], abs=4)
