"""Achieved over peak, and the name of what limits a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sm100sim.contract import clock
from sm100sim.timing.profile.uses import (
    LATENCY,
    SERVERS,
    SHARED_SERVERS,
    limit_of,
    tensor_arithmetic,
    uses_of,
)
from sm100sim.timing.records import Action, DynamicEvent
from testing.clocked import Program, op
from tests.sim.timing.profile.programs import ALL, commit, init, loads, mma, run, tangle, wait

MUFU = [op("MUFU.EX2 R0, R1", 2)] * 200
FMA = [op("FFMA R0, R2, R4, R6")] * 400
PACKED = [op("FFMA2 R0, R2, R4, R6")] * 400
ALU = [op("IADD3 R0, R2, R3, R4")] * 200
LOAD = DynamicEvent(Action.TMEM_LOAD, ALL, shape=(32, 32))
TMEM = [*[(op("LDTM.x32 R0, tmem[UR4]", write=0), LOAD)] * 100, op("NOP", wait=(0,))]
AWAITED: list[Any] = [init(1), *[mma()] * 60, commit(), wait(), op("NOP", wait=(0,))]
WAITS = [op("MUFU.EX2 R0, R1", write=0, wait=(0,)), op("FADD R2, R0, R0", 4)] * 50


def all_parts(body: Sequence[Any]) -> Program:
    """A warp on each sub-partition."""
    program = Program()
    for warp in range(4):
        program.warp(warp, *body)
    return program


@pytest.mark.parametrize(
    ("program", "limit"),
    [
        (all_parts(MUFU), "MUFU"),
        (all_parts(ALU), "ALU"),
        (all_parts(PACKED), "FMA"),
        (all_parts([loads(32)] * 50), "shared memory"),
        (all_parts(TMEM), "TMEM"),
        (Program().warp(0, *AWAITED), "tensor"),
        (Program().warp(1, *MUFU), "MUFU"),  # one sub-partition is enough
        (all_parts(WAITS), LATENCY),
    ],
)  # fmt: skip
def test_a_known_bottleneck_is_named(program: Program, limit: str) -> None:
    uses = uses_of(run(program))
    assert limit_of(uses) == limit
    if limit != LATENCY:
        assert uses[0].fullest > 0.9


def test_fma_and_issue_are_full_together() -> None:
    """One a cycle is the rate of both: neither is called less used than the other."""
    uses = {use.name: use.fullest for use in uses_of(run(all_parts(FMA)))}
    assert uses["FMA"] == pytest.approx(uses["issue"], abs=0.02)
    assert uses["FMA"] > 0.95


@pytest.mark.parametrize("seed", range(8))
def test_no_resource_does_more_than_it_can(seed: int) -> None:
    detail = run(tangle(seed))
    for use in uses_of(detail):
        assert 0 <= use.share <= use.fullest + 1e-9
        assert use.fullest <= 1
    assert tensor_arithmetic(detail) <= uses_of(detail)[0].fullest


def test_one_busy_sub_partition_of_four() -> None:
    uses = {use.name: use for use in uses_of(run(Program().warp(1, *MUFU)))}
    assert uses["MUFU"].share == pytest.approx(uses["MUFU"].fullest / 4)


def test_products_of_few_rows_are_not_the_peak() -> None:
    """256 columns take 128 cycles; 8 take as long as their operands do."""
    wide = run(Program().warp(0, *[mma(256)] * 40, op("NOP")))
    narrow = run(Program().warp(0, *[mma(8)] * 40, op("NOP")))
    assert tensor_arithmetic(wide) > 0.95
    assert tensor_arithmetic(narrow) < 0.2
    assert next(use for use in uses_of(narrow) if use.name == "tensor").share > 0.8


def test_work_that_outlives_the_warps_is_not_counted() -> None:
    """Forty products of 64 cycles, of which nobody waits for the last ones."""
    detail = run(Program().warp(0, *[mma()] * 40))
    assert detail.shared["tensor"] == 40 * 64 > detail.cycles
    uses = {use.name: use.share for use in uses_of(detail)}
    start = min(detail.works["start"])
    assert uses["tensor"] == pytest.approx((detail.cycles - start) / detail.cycles)


def test_resources_are_servers_of_the_machine() -> None:
    assert {name for names in SERVERS.values() for name in names} <= {"issue", *clock.UNITS}
    assert set(SHARED_SERVERS.values()) <= set(clock.SHARED_UNITS)
