"""Issue: stall counts, the slot, units and their queues, results, fetch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sm100sim.timing.chips import Draw, load_chip
from sm100sim.timing.model import run_cluster, tables
from sm100sim.timing.model.operands import Form
from sm100sim.timing.model.rules import Cost, cost_of
from testing.clocked import Program, chip, op, run, single

H100 = chip("h100", yield_cycles=0)
B200 = chip("b200", yield_cycles=0)


def test_dependent_ffmas_issue_every_four_cycles() -> None:
    """The stall count is the distance; ptxas gives 4 (usched_latency, "FFMA to FFMA")."""
    assert single(H100, *[op("FFMA R0, R1, R2, R0", 4, reuse=3)] * 101) == 400


@pytest.mark.parametrize(
    ("draw", "text", "cycles"),
    [
        (H100, "FADD R0, R2, R3", 1),  # h100_fixed_pipeline, "Solo pipe rates"
        (H100, "IADD3 R0, R2, R3, R4", 2),
        (H100, "IMAD R0, R2, R3, R4", 2),
        (H100, "IMAD.WIDE R0, R2, R3, R4", 4),
        (H100, "MUFU.EX2 R0, R2", 8),
        (B200, "FFMA R0, R2, R4, R6", 1),  # b200_fixed_admission_depth
        (B200, "FFMA2 R0, R2, R4, R6", 2),
        (B200, "MUFU.EX2 R0, R2", 8),
        (chip("b300"), "MUFU.EX2 R0, R2", 4),  # b300_mufu_ex2_throughput
    ],
)
def test_a_unit_takes_one_instruction_after_the_other(draw: Draw, text: str, cycles: int) -> None:
    long, short = (single(draw, *[op(text)] * n) for n in (300, 200))
    assert long - short == 100 * cycles


@pytest.mark.parametrize(
    ("texts", "h100", "b200"),
    [
        (("IADD3 R0, R2, R3, R4", "IMAD R1, R2, R3, R4"), 2, 1),  # one server; two
        (("FADD R0, R2, R3", "FADD R1, R2, R3"), 1, 1),
        (("FADD R0, R2, R3", "IADD3 R1, R2, R3, RZ"), 1, 1),
        (("IADD3 R0, R2, R3, R4", "FMNMX R1, R2, R3, PT"), 2, 2),  # heavy and lite share a rate
    ],
)
def test_pairs_of_units(texts: tuple[str, str], h100: int, b200: int) -> None:
    for draw, cycles in ((H100, h100), (B200, b200)):
        long, short = (single(draw, *[op(text) for text in texts] * n) for n in (200, 100))
        assert long - short == 200 * cycles


def test_the_third_mufu_waits() -> None:
    """Two entries: "first two fast, then +8" (h800_mio_queue_topology, "XU")."""
    assert [single(H100, *[op("MUFU.EX2 R0, R1", 2)] * n) for n in (2, 3, 4)] == [2, 8, 16]


def test_sources_of_one_bank_are_read_one_after_the_other() -> None:
    """Two of one parity take two cycles; a reused one is not read (register_bandwidth).

    An H200 takes 1.53 cycles for FFMAs whose sources have now two even and now two odd registers
    (docs/timing_probes.md, "multiplications and additions").
    """

    def rate(text: str, reuse: int = 0) -> float:
        return (single(H100, *[op(text, reuse=reuse)] * 201) - 1) / 200

    assert rate("FFMA R0, R2, R3, R4") == pytest.approx(2, abs=0.05)
    assert rate("FFMA R0, R2, R4, R6") == pytest.approx(3, abs=0.05)
    assert rate("FFMA R0, R2, R3, R4", reuse=1) == pytest.approx(1, abs=0.05)
    turns = [op("FFMA R0, R2, R3, R4"), op("FFMA R0, R5, R6, R7")] * 100
    assert single(H100, *turns) / 200 == pytest.approx(1.5, abs=0.05)


def test_two_warps_of_a_sub_partition_share_its_slot() -> None:
    """Equal pairs share evenly and reach one instruction a cycle (yield_dispatch_cost)."""
    body = [op("FADD R0, R2, R3")] * 200
    times = run(Program().warp(0, *body).warp(4, *body), H100)
    assert times.cycles == pytest.approx(400, abs=2)
    assert times.use("issue") * 4 == pytest.approx(1, abs=0.01)
    ends = [warp.end for warp in times.warps]
    assert ends[0] == pytest.approx(ends[1], abs=2)
    apart = run(Program().warp(0, *body).warp(1, *body), H100)
    assert apart.cycles == pytest.approx(200, abs=2)


def test_a_yield_leaves_the_slot_empty_for_a_cycle() -> None:
    """Both yield on every instruction: 0.52 a cycle together, else 0.96 (the same note)."""
    body = [op("NOP", yields=True)] * 200
    times = run(Program().warp(0, *body).warp(4, *body), chip("h100", yield_cycles=1))
    assert times.use("issue") * 4 == pytest.approx(0.5, abs=0.02)


def test_a_warp_waits_for_a_scoreboard_and_says_why() -> None:
    draw = chip("h100", mufu_latency=20)
    chain = [op("MUFU.EX2 R0, R1", write=0, wait=(0,))] * 11
    times = run(Program().warp(0, *chain), draw)
    assert times.cycles - 1 == 10 * (8 + 20)
    assert times.warps[0].reasons["mufu"] == 10 * 27
    assert times.stood[1:].tolist() == [27] * 10


@pytest.mark.parametrize(
    ("draw", "low", "high"),
    [
        (chip("h200"), 17, 17.2),  # docs/timing_probes.md, "ex2, a chain": 17.1
        (B200, 18, 18),  # FlashGPU-Sim, configs/SM100_B200: EX2 18, one in 8
        (chip("b300"), 14, 18),  # QuickRunCUDA
    ],
)
def test_a_chain_of_exponentials_takes_as_long_as_published(
    draw: Draw, low: float, high: float
) -> None:
    """What sources call latency holds the cycles of the unit."""
    one = op("MUFU.EX2 R0, R0", write=0, wait=(0,))
    long, short = (single(draw, *[one] * n) for n in (201, 101))
    assert low <= (long - short) / 100 <= high


def test_reasons_add_up() -> None:
    body = [op("MUFU.EX2 R0, R1", 2, write=0), op("FADD R2, R0, R0", 4, wait=(0,))] * 20
    times = run(Program().warp(0, *body).warp(4, *body), H100)
    for warp in times.warps:
        assert sum(warp.reasons.values()) == pytest.approx(warp.end)
    assert times.issued == 80


def test_a_taken_branch_costs_its_cycles() -> None:
    """Twelve cycles to the next instruction (FlashGPU-Sim, taken back edge)."""
    trace = Program().warp(0, op("NOP"), op("BRA 0"), op("NOP")).trace()
    order = trace.streams[0].order
    straight = single(H100, op("NOP"), op("BRA 0"), op("NOP"))
    order[2] = 0  # back to the first
    assert run_cluster(trace, H100).cycles - 1 - straight == H100["branch_cycles"] - 1


def test_code_larger_than_the_cache_is_fetched_again_and_again() -> None:
    """48 KB of NOPs of two cycles take 1.5 times as long as 31 KB (b200_icache_topology)."""
    cost = load_chip("b200").draw()["icache_next"]
    draw = chip("b200", icache_next=cost, icache_jump=cost, branch_cycles=1)

    def rate(kilobytes: int) -> float:
        count = kilobytes * 64
        trace = Program().warp(0, *[op("NOP", 2)] * count).trace()

        def loops(n: int) -> float:
            (stream,) = trace.streams
            again = replace(stream, order=np.tile(stream.order, n), event=np.tile(stream.event, n))
            return run_cluster(replace(trace, streams=(again,)), draw).cycles

        return (loops(3) - loops(2)) / count

    assert rate(31) == pytest.approx(2, abs=0.01)
    assert rate(48) == pytest.approx(3, abs=0.05)


def test_draws_share_what_was_read_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form of instruction costs once a draw, and the code is read once for all of them."""
    trace = Program().warp(0, *[op("FADD R0, R2, R3"), op("MUFU.EX2 R0, R2")] * 50).trace()
    asked: list[str] = []

    def cost(form: Form, draw: Draw) -> Cost:
        asked.append(form.opcode)
        return cost_of(form, draw)

    monkeypatch.setattr(tables, "cost_of", cost)
    first, second = (run_cluster(trace, draw).cycles for draw in (H100, chip("h100")))
    assert first == second
    assert asked == ["FADD", "MUFU"] * 2
    assert tables._code(trace.kernel) is tables._code(trace.kernel)


@pytest.mark.parametrize(("warps", "ctas", "most"), [(1, 4, 1), (1, 5, 2), (5, 4, 5), (6, 2, 3)])
def test_ctas_take_places_one_behind_the_other(warps: int, ctas: int, most: int) -> None:
    """h200_places.json: of CTAs of any size sub-partitions have as many warps, or one more."""
    program = Program()
    for warp in range(warps):
        program.warp(warp, *[op("NOP")] * 1000)
    assert run(program, H100, copies=ctas).cycles == pytest.approx(1000 * most, abs=most)


def test_warps_with_tensor_memory_lie_where_their_lanes_do() -> None:
    """Tensor Memory's lanes are those of the warp's number: both CTAs' lie in one place."""
    program = Program().warp(0, *[op("NOP")] * 1000, op("FENCE.VIEW.ASYNC.T"))
    tmem = Program().warp(0, *[op("NOP")] * 1000, op("LDTM.x32 R0, tmem[UR4]"))
    alone, together = (run(p, B200, copies=2).cycles for p in (program, tmem))
    assert together == pytest.approx(2 * alone, rel=0.02)
