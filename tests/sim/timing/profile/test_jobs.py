"""What roles do, told by the operations that they execute."""

from __future__ import annotations

import pytest

from sm100sim.timing.profile.jobs import jobs_of, main_job
from sm100sim.timing.profile.roles import roles_of
from testing.clocked import Program, op
from tests.sim.timing.profile.programs import chain, loads, mma, run


def test_operations_name_the_job_and_not_the_warp() -> None:
    found = roles_of(run(
        Program()
        .warp(0, op("NOP"))
        .warp(1, *[op("MUFU.EX2 R0, R1", 2)] * 30, loads(1), op("NOP", yields=True))
        .warp(2, *[mma(64)] * 3)
        .warp(3, *chain(50))
        .warp(4, *[op("STG.E [R2], R0")] * 9, op("MUFU.EX2 R0, R1", 2))
    ))  # fmt: skip
    assert [role.jobs for role in found] == [
        ("idle",), ("MUFU", "shared memory"), ("MMAs",), ("other work",), ("global stores",),
    ]  # fmt: skip
    assert found[4].parts == {"MUFU": pytest.approx(1 / 31), "global stores": 1}


def test_a_tenth_of_a_kind_is_a_job() -> None:
    assert jobs_of({"MUFU": 0.1, "MMAs": 0.09}, 1) == ("MUFU",)
    assert jobs_of({"MUFU": 0.09}, 0.05) == ("other work",)
    assert jobs_of({"MUFU": 0.09}, 0.04) == ("idle",)


def test_loads_and_stores_of_tensor_memory_are_one_job() -> None:
    assert main_job(("TMEM loads", "TMA stores")) == main_job(("TMEM stores",)) == "TMEM"
    assert main_job(("MUFU", "TMEM loads")) == "MUFU"
