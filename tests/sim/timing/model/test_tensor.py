"""The tensor core: wgmma of a warp group, tcgen05.mma of one warp, Tensor Memory."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sm100sim.timing.model import ClusterTime
from sm100sim.timing.records import Action, DynamicEvent, Place
from testing.clocked import Program, chip, op, run, single

H100 = chip("h100")
BARRIER = Place(0, 64)


def wgmmas(count: int, columns: int, a: str = "gdesc[UR4]", groups: int = 1) -> Program:
    """A chain by one warp group; each of ``groups`` equal parts is a group; waits for all."""
    name = f"HGMMA.64x{columns}x16.F32 R24, {a}, R24"
    part = [*[op(name, 4)] * (count // groups - 1), op(f"{name}, gsb0", 4)]
    program = Program()
    for warp in range(4):
        program.warp(warp, *part * groups, op("WARPGROUP.DEPBAR.LE gsb0, 0x0"), op("NOP"))
    return program


@pytest.mark.parametrize(
    ("columns", "published"), [(8, 21.0), (16, 22.8), (32, 27.0), (64, 35.3), (128, 67.4)]
)
def test_a_chain_of_wgmmas(columns: int, published: float) -> None:
    """wgmma, "Round 5": 32 of them, divided by 32, with about 100 cycles that a chain takes once;
    h200.json has 64.0, 88.0 and 128.0 cycles for N = 128, 176 and 256."""
    long, short = (run(wgmmas(count, columns), H100).cycles for count in (64, 32))
    assert 85 <= 32 * published - (long - short) <= 110
    assert (long - short) / 32 == max(columns / 2, 16 + columns / 4)


@pytest.mark.parametrize(("columns", "published"), [(16, 57), (64, 81), (256, 177)])
def test_one_wgmma(columns: int, published: float) -> None:
    """wgmma, "Round 3", 2: 49 cycles and one per register of the accumulator."""
    assert run(wgmmas(1, columns), H100).cycles - 1 == pytest.approx(published, abs=1)


def test_operands_in_registers_save_the_passes_of_a() -> None:
    """wgmma: 12.0 cycles at n8 and n16 but for the gap, 18 less latency."""
    long, short = (run(wgmmas(n, 16, "R152"), H100).cycles for n in (64, 32))
    assert (long - short) / 32 == pytest.approx(12 + H100["wgmma_gap"], abs=0.1)
    apart = run(wgmmas(1, 64), H100).cycles - run(wgmmas(1, 64, "R152"), H100).cycles
    assert apart == 18


def test_seven_wgmmas_are_admitted_at_once() -> None:
    """wgmma, "HGMMA admission queue": the first seven at the pace of issue, the eighth later."""
    issued = []
    for count in (6, 7, 8, 9):
        program = Program()
        for warp in range(4):
            program.warp(warp, *[op("HGMMA.64x64x16.F32 R24, gdesc[UR4], R24", 4)] * count)
        issued.append(run(program, H100).cycles - 1)
    steps = [b - a for a, b in pairwise(issued)]
    assert steps[0] == 4
    assert steps[1] > 4
    assert steps[2] > 30


def test_a_wait_leaves_the_latest_groups() -> None:
    name = "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, gsb0"
    ends = []
    for keep in (0, 1, 2):
        program = Program()
        for warp in range(4):
            wait = op(f"WARPGROUP.DEPBAR.LE gsb0, {keep:#x}")
            program.warp(warp, *[op(name, 4)] * 3, wait, op("NOP"))
        ends.append(run(program, H100).cycles)
    assert [a - b for a, b in pairwise(ends)] == [64, 64]


def test_a_wgmma_starts_when_all_warps_of_its_group_issued() -> None:
    late = [op("NOP", 15)] * 40
    program = wgmmas(1, 64)
    early = run(program, H100).cycles
    program.warps[0, 3] = [(i, None) for i in late] + program.warps[0, 3]
    assert run(program, H100).cycles - early == pytest.approx(600, abs=2)


def test_operands_of_mmas_come_before_other_accesses() -> None:
    """wgmma: n64 takes 32 of its 34 cycles at the port, so an LDS finds one in 16 free."""
    draw = chip("h100", wgmma_gap=2)
    event = DynamicEvent(Action.SHARED, 0xFFFFFFFF, wavefronts=1)
    loads = [(op("LDS RZ, [RZ]"), event)] * 100
    alone = run(Program().warp(4, *loads), draw).cycles
    program = wgmmas(32, 64).warp(4, *loads)
    beside = run(program, draw)
    assert beside.warps[4].end > 5 * alone
    assert beside.warps[0].end == pytest.approx(run(wgmmas(32, 64), draw).cycles, rel=0.01)


@pytest.mark.parametrize("columns", [64, 128])
def test_an_alu_takes_twice_as_long_beside_products_which_do_not(columns: int) -> None:
    """h200_beside.json: 4.0 cycles of a maximum beside products, whose 32.0 and 64.0 stay.

    register_bandwidth, "Round 3": each pair of an accumulator takes a cycle of a stream of MOV32I.
    """
    ends, cycles = [], []
    for count in (128, 64):
        program = wgmmas(count, columns)
        for warp in range(4, 8):
            program.warp(warp, *[op("FMNMX R0, R2, R3, !PT", 2)] * (4 * count))
        found = run(program, H100)
        ends.append(found.warps[0].end)
        cycles.append(found.warps[4].end)
    assert (ends[0] - ends[1]) / 64 == pytest.approx(columns / 2, rel=0.01)
    assert (cycles[0] - cycles[1]) / 256 == pytest.approx(4, rel=0.02)


def test_a_narrow_wgmma_has_time_for_other_writes() -> None:
    """The same note: IMAD beside an n16 chain costs it a hundredth: its operands limit it."""
    ends = []
    for count in (64, 32):
        program = wgmmas(count, 16)
        for warp in range(4, 8):
            program.warp(warp, *[op("IMAD R0, R2, R3, R5", 2)] * 2000)
        ends.append(run(program, H100).warps[0].end)
    assert (ends[0] - ends[1]) / 32 == pytest.approx(20, rel=0.02)


def test_exponentials_and_an_alu_share_the_write_ports_beside_products() -> None:
    """h200_mixtures.json: without products four maxima and an exponential take 8 cycles, each as
    long as alone; h200_beside.json: beside products an exponential takes 10.7, a maximum 4."""
    exponential, maximum = op("MUFU.EX2 R0, R2"), op("FMNMX R4, R5, R6, !PT", 2)
    mixed = Program().warp(0, *[exponential] * 320).warp(4, *[maximum] * 1280)
    assert run(mixed, H100).cycles == pytest.approx(320 * 8, rel=0.01)
    beside = wgmmas(64, 128).warp(4, *[exponential] * 300)
    assert run(beside, H100).warps[4].end == pytest.approx(300 * 32 / 3, rel=0.03)
    both = wgmmas(128, 128).warp(4, *[exponential] * 300).warp(8, *[maximum] * 600)
    ends = [warp.end for warp in run(both, H100).warps[4:]]
    assert max(ends) == pytest.approx(300 * (32 / 3 + 2 * 4), rel=0.05)


def tcgen05(count: int, shape: tuple[int, ...], chip_name: str = "b200", **values: float) -> float:
    """Cycles from the first of some MMAs to what a warp that waits for their commit sees."""
    detail = ("a_tmem",) if values.pop("tmem", 0) else ()
    mma = DynamicEvent(Action.MMA, 1, shape=shape, detail=detail)
    commit = DynamicEvent(Action.MMA_COMMIT, 1, objects=(BARRIER,))
    init = DynamicEvent(Action.MBARRIER_INIT, 1, objects=(BARRIER,), shape=(1,))
    wait = DynamicEvent(Action.MBARRIER_WAIT, 1, objects=(BARRIER,), phase=1)
    program = Program().warp(
        0,
        (op("SYNCS.EXCH.64 URZ, [UR4], UR5"), init),
        *[(op("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]"), mma)] * count,
        (op("UTCBAR [UR4], URZ"), commit),
        (op("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R0", write=0), wait),
        op("NOP", wait=(0,)),
    )
    return run(program, chip(chip_name, **values)).cycles - 2


@pytest.mark.parametrize("count", [4, 32, 128])
def test_mmas_from_issue_to_seen(count: int) -> None:
    """utchmma: 64 n + 129 for n of 128 x 128 x 16; what issues them costs one cycle here."""
    assert tcgen05(count, (128, 128, 16)) == pytest.approx(64 * count + 129, abs=3)


@pytest.mark.parametrize(
    ("shape", "tmem", "cycles"),
    [
        # SemiAnalysis, umma_throughput: 2 M N K / FLOP per clock.
        ((128, 64, 16), 0, 2 * 128 * 64 * 16 / 5399),
        ((128, 80, 16), 0, 2 * 128 * 80 * 16 / 6233),
        ((128, 96, 16), 0, 2 * 128 * 96 * 16 / 6949),
        ((128, 112, 16), 0, 2 * 128 * 112 * 16 / 7570),
        ((128, 128, 16), 0, 2 * 128 * 128 * 16 / 8114),
        ((128, 256, 16), 0, 2 * 128 * 256 * 16 / 8153),
        ((128, 64, 16), 1, 2 * 128 * 64 * 16 / 8068),
        ((64, 128, 16), 0, 2 * 64 * 128 * 16 / 4050),
    ],
)
def test_the_rate_of_mmas(shape: tuple[int, ...], tmem: int, cycles: float) -> None:
    many, few = (tcgen05(n, shape, tmem=tmem) for n in (96, 32))
    assert (many - few) / 64 == pytest.approx(cycles, rel=0.02)


@pytest.mark.parametrize(("columns", "published"), [(64, 11996), (80, 14229), (128, 16194)])
def test_the_rate_of_pairs(columns: int, published: int) -> None:
    """SemiAnalysis, umma_throughput: M = 256 over both SMs, and both are busy."""
    mma = DynamicEvent(Action.MMA, 1, shape=(256, columns, 16), detail=("pair",))
    ends = []
    for count in (96, 32):
        body = [(op("UTCHMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR8]"), mma)] * count
        program = Program().warp(0, *body).warp(0, op("NOP"), rank=1)
        times = run(program, chip("b200"))
        ends.append(times.busy["tensor"])
    assert (ends[0] - ends[1]) / 64 == pytest.approx(2 * 256 * columns * 16 / published, rel=0.04)


def test_six_mmas_are_admitted() -> None:
    """b200_mio_admission_depth: about six per sub-partition; the next waits for the first."""
    mma = DynamicEvent(Action.MMA, 1, shape=(128, 128, 16))
    body = [(op("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]", 7), mma)] * 7
    draw = chip("b200", mma_front=60)
    assert single(draw, *body[:6]) == 35
    assert single(draw, *body) == 60 + 64


def loads(texts: tuple[str, ...], count: int, columns: int) -> ClusterTime:
    """Loads and stores of Tensor Memory by one warp."""
    kinds = {"LDTM": Action.TMEM_LOAD, "STTM": Action.TMEM_STORE}
    body = []
    for text in texts * count:
        event = DynamicEvent(kinds[text.split(".")[0]], 0xFFFFFFFF, shape=(32, columns))
        body.append((op(text, write=0), event))
    return run(Program().warp(0, *body, op("NOP", wait=(0,))), chip("b200"))


@pytest.mark.parametrize(("columns", "cycles"), [(8, 4), (16, 8), (32, 16)])
def test_tensor_memory_moves_two_columns_a_cycle(columns: int, cycles: int) -> None:
    """ldtm: 1536 loads of x16 take 22 + 8 each; a load and its wait 24 to 25."""
    text = (f"LDTM.x{columns} R0, tmem[UR4]",)
    many, few = (loads(text, n, columns).cycles for n in (200, 100))
    assert (many - few) / 100 == cycles
    if columns == 16:
        assert loads(text, 1, 16).cycles - 1 == pytest.approx(24.5, abs=1)


def test_loads_and_stores_share_the_path() -> None:
    """sttm: both together 255.3 of 256 bytes a cycle, so 16 cycles for a pair of x16."""
    texts = ("LDTM.x16 R0, tmem[UR4]", "STTM.x16 tmem[UR4], R0")
    many, few = (loads(texts, n, 16).cycles for n in (100, 50))
    assert (many - few) / 50 == 16


def test_a_fence_waits_for_the_stores_of_its_warp() -> None:
    """sttm: a store of eight columns and the fence take about 8 cycles, at most 12."""
    event = DynamicEvent(Action.TMEM_STORE, 0xFFFFFFFF, shape=(32, 8))
    store = (op("STTM.x8 tmem[UR4], R0"), event)
    assert 8 <= single(chip("b200"), store, op("FENCE.VIEW.ASYNC.T"), op("NOP")) <= 12


@pytest.mark.parametrize(
    ("shape", "detail", "address", "cycles"),
    [
        ((32, 16), (), 1, 9),  # an odd first column: one more
        ((16, 32), ("16x64b",), 0, 16),  # 16x64b.x16: about N
        ((16, 64), ("16x128b",), 0, 32),  # 2 N
        ((16, 128), ("16x256b",), 0, 128),  # 8 N, by the banks
        ((32, 16), ("packed",), 0, 16),
    ],
)
def test_shapes_of_loads(
    shape: tuple[int, int], detail: tuple[str, ...], address: int, cycles: int
) -> None:
    """ldtm: odd starts, other shapes, packing."""
    event = DynamicEvent(Action.TMEM_LOAD, 1, shape=shape, detail=detail, address=address)
    load = (op("LDTM R0, tmem[UR4]", write=0), event)
    many, few = (single(chip("b200"), *[load] * n, op("NOP", wait=(0,))) for n in (40, 20))
    assert (many - few) / 20 == cycles


def test_a_copy_to_tensor_memory_takes_the_tensor_core() -> None:
    """utchmma: 64 bytes a cycle and sub-partition; the port gives 128 to all four."""
    copy = DynamicEvent(Action.TMEM_COPY, 1, shape=(128, 8))
    body = [(op("UTCBAR tmem[UR4], gdesc[UR6]"), copy)] * 20
    times = run(Program().warp(0, *body, op("NOP")), chip("b200"))
    assert times.busy["tensor"] == times.busy["port"] == 20 * 32
