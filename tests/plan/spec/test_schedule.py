from __future__ import annotations

from dataclasses import replace

import pytest

from fa4_cute.plan.config.tuning import RoleRegisters
from fa4_cute.plan.facts.hardware import REGISTERS_PER_SM
from fa4_cute.plan.spec.schedule import (
    ATTENTION_SCHEDULE,
    DEPTH512_SCHEDULE,
    SCHEDULER,
    SM90_FEW_ROWS_SCHEDULES,
    VALUES,
    WarpRole,
    WarpSchedule,
    two_group_schedule,
)


def test_the_attention_kernel_uses_every_register() -> None:
    assert ATTENTION_SCHEDULE.num_threads == 512
    assert ATTENTION_SCHEDULE.register_sum == (192 + 192 + 88 + 40) * 128 == 65536
    assert [role.registers for role in ATTENTION_SCHEDULE.roles] == [192, 192, 88, 40, 40, 24]


def test_the_pair_kernel_stays_inside() -> None:
    assert DEPTH512_SCHEDULE.num_threads == 384
    assert DEPTH512_SCHEDULE.register_sum == (256 + 184 + 64) * 128
    assert DEPTH512_SCHEDULE.register_sum <= 65536


@pytest.mark.parametrize(
    ("warp", "role"),
    [(0, "softmax0"), (7, "softmax1"), (11, "correction"), (12, "mma"), (13, "load"), (15, "idle")],
)
def test_warp_to_role(warp: int, role: str) -> None:
    assert ATTENTION_SCHEDULE.role_of(warp).name == role
    assert warp in ATTENTION_SCHEDULE[role].warps


def test_roles_of_one_budget_set_it_together() -> None:
    names = [[role.name for role in group] for group in ATTENTION_SCHEDULE.groups]
    assert names == [["softmax0", "softmax1"], ["correction"], ["mma", "load"]]
    names = [[role.name for role in group] for group in DEPTH512_SCHEDULE.groups]
    assert names == [["softmax"], ["correction"], ["mma", "load"]]
    paged = two_group_schedule(RoleRegisters().with_more_to_load())
    for schedule in (ATTENTION_SCHEDULE, paged, DEPTH512_SCHEDULE):
        for group in schedule.groups:
            # setmaxnreg must agree within four warps.
            assert group[0].first_warp % 4 == 0
            assert len({role.registers for role in group}) == 1


@pytest.mark.parametrize(
    ("schedule", "warp"), [(ATTENTION_SCHEDULE, 14), (DEPTH512_SCHEDULE, 10)]
)
def test_an_idle_warp_asks_for_work_tiles(schedule: WarpSchedule, warp: int) -> None:
    asking = schedule.asking()
    assert asking["scheduler"].warps == range(warp, warp + 1)
    assert [role.name for role in asking.groups[-1]] == ["mma", "load", "scheduler"]
    assert asking.role_of(warp + 1).is_idle
    for name in ("num_threads", "launch_registers", "register_sum"):
        assert getattr(asking, name) == getattr(schedule, name)


@pytest.mark.parametrize(
    ("schedule", "warp"), [(ATTENTION_SCHEDULE, 14), (DEPTH512_SCHEDULE, 10)]
)
def test_idle_warps_load_values_and_ask(schedule: WarpSchedule, warp: int) -> None:
    apart = schedule.with_single_warps(asks=False, loads_apart=True)
    assert apart == schedule.apart()
    assert apart[VALUES].warps == range(warp, warp + 1)
    assert apart[VALUES].registers == apart["load"].registers
    assert apart.role_of(warp + 1).is_idle
    both = schedule.with_single_warps(asks=True, loads_apart=True)
    names = ["mma", "load", SCHEDULER, VALUES]
    assert [role.name for role in both.groups[-1]] == names
    assert not any(role.is_idle for role in both.roles), "no warp is left"
    assert both.num_warps == schedule.num_warps
    assert both.register_sum == apart.register_sum == schedule.register_sum
    assert schedule.with_single_warps(asks=False, loads_apart=False) is schedule


def test_direction_of_setmaxnreg() -> None:
    assert ATTENTION_SCHEDULE.launch_registers == 128
    assert ATTENTION_SCHEDULE.increases("softmax0")
    assert not ATTENTION_SCHEDULE.increases("correction")
    assert DEPTH512_SCHEDULE.launch_registers == 168
    assert DEPTH512_SCHEDULE.increases("correction")


def test_ctas_share_the_registers_of_an_sm() -> None:
    for ctas, schedule in SM90_FEW_ROWS_SCHEDULES.items():
        assert schedule.ctas_per_sm == ctas
        assert schedule.launch_registers == REGISTERS_PER_SM // (256 * ctas)
        assert schedule.increases("consumer") is (ctas > 1)
    with pytest.raises(ValueError, match="budgets need 32768 registers of 20480"):
        replace(SM90_FEW_ROWS_SCHEDULES[2], ctas_per_sm=3)


def test_sub_partitions_see_whole_lanes() -> None:
    # Softmax and correction warps reach lanes 32 * (warp % 4): each group must cover all four.
    for schedule in (ATTENTION_SCHEDULE, DEPTH512_SCHEDULE):
        for role in schedule.roles:
            if role.num_warps == 4:
                assert sorted(warp % 4 for warp in role.warps) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ((WarpRole("a", 0, 4, 128), WarpRole("b", 5, 3, 128)), "starts at warp 5, not 4"),
        ((WarpRole("a", 0, 4, 100),), "multiple of 8"),
        ((WarpRole("a", 0, 4, 264),), "from 24 to 256"),
        ((WarpRole("a", 0, 3, 64),), "not whole warp groups"),
        ((WarpRole("a", 0, 8, 256), WarpRole("b", 8, 4, 24)), "68608 registers of 64512"),
        # 384 threads have 168 registers each at launch, and no others.
        ((WarpRole("a", 0, 8, 240), WarpRole("b", 8, 4, 32)), "65536 registers of 64512"),
    ],
)
def test_impossible_schedules_are_refused(roles: tuple[WarpRole, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WarpSchedule(roles)


def test_unknown_roles_and_warps_are_named() -> None:
    with pytest.raises(KeyError, match="no role 'epilogue'; roles: softmax0"):
        ATTENTION_SCHEDULE["epilogue"]
    with pytest.raises(ValueError, match="warp=16: the CTA has 16 warps"):
        ATTENTION_SCHEDULE.role_of(16)


def test_describe_lists_every_role() -> None:
    lines = ATTENTION_SCHEDULE.describe().splitlines()
    assert len(lines) == 6
    assert lines[3].split() == ["warps", "12-12", "mma", "40", "registers"]
