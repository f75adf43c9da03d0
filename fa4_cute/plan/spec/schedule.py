"""Which warp plays which role, with how many registers (``docs/sources.md`` sections 7 and 10).

``setmaxnreg`` moves registers between warp groups of a running CTA; the sum over all threads must
stay inside the register file. It is set per warp, and the pool is granted per group of four warps,
so that four warps of single-warp roles share one group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from ..config.tuning import RoleRegisters
from ..facts.hardware import (
    REGISTERS_PER_SM,
    SETMAXNREG_RANGE,
    SETMAXNREG_STEP,
    WARP_THREADS,
    WARPS_PER_GROUP,
    ceil_div,
)

IDLE = "idle"
"""Name of the role of warps that have none."""
SCHEDULER: Final = "scheduler"
"""Role of the warp that asks for work tiles: one that is idle otherwise."""
TRANSPOSE: Final = "transpose"
"""Role of the warps that transpose V of fp8 operands: those that are idle otherwise."""
VALUES: Final = "values"
"""Role of the warp that loads V, where another loads Q and K alone: one that is idle otherwise."""
BIASES: Final = "biases"
"""Role of the warps that copy biases to shared memory: those that are idle otherwise."""


@dataclass(frozen=True)
class WarpRole:
    """``num_warps`` consecutive warps from ``first_warp`` in one role."""

    name: str
    first_warp: int
    num_warps: int
    registers: int

    @property
    def warps(self) -> range:
        """Warp indices of the role."""
        return range(self.first_warp, self.first_warp + self.num_warps)

    @property
    def num_threads(self) -> int:
        """Threads of the role."""
        return self.num_warps * WARP_THREADS

    @property
    def is_idle(self) -> bool:
        """Whether its warps only fill up a warp group."""
        return self.name == IDLE


@dataclass(frozen=True)
class WarpSchedule:
    """All roles of a kernel, in warp order.

    Args:
        roles: the roles.
        ctas_per_sm: CTAs that share the register file.

    Raises:
        ValueError: when warps overlap or leave a gap, a budget is not a legal ``setmaxnreg``
            value, or the budgets exceed what the CTA has at launch (``setmaxnreg`` takes from no
            other pool).
    """

    roles: tuple[WarpRole, ...]
    ctas_per_sm: int = 1

    def __post_init__(self) -> None:
        """Refuse a schedule that the hardware could not run."""
        expected = 0
        low, high = SETMAXNREG_RANGE
        for role in self.roles:
            if role.first_warp != expected:
                raise ValueError(
                    f"role {role.name} starts at warp {role.first_warp}, not {expected}"
                )
            expected += role.num_warps
            if role.registers % SETMAXNREG_STEP or not low <= role.registers <= high:
                raise ValueError(
                    f"role {role.name}: registers={role.registers} must be a multiple of "
                    f"{SETMAXNREG_STEP} from {low} to {high}"
                )
        if expected % WARPS_PER_GROUP:
            raise ValueError(f"{expected} warps are not whole warp groups of {WARPS_PER_GROUP}")
        pool = self.launch_registers * self.num_threads
        if self.register_sum > pool:
            raise ValueError(f"budgets need {self.register_sum} registers of {pool}")

    @property
    def num_warps(self) -> int:
        """Warps of the CTA."""
        return sum(role.num_warps for role in self.roles)

    @property
    def num_threads(self) -> int:
        """Threads of the CTA."""
        return self.num_warps * WARP_THREADS

    @property
    def register_sum(self) -> int:
        """Registers the budgets claim; a warp group pays its largest budget for all its warps."""
        return sum(
            max(self.role_of(warp).registers for warp in self._group(group))
            * WARPS_PER_GROUP
            * WARP_THREADS
            for group in range(ceil_div(self.num_warps, WARPS_PER_GROUP))
        )

    @property
    def launch_registers(self) -> int:
        """Registers per thread at launch: an equal share, in legal steps."""
        return self._register_share // self.num_threads // SETMAXNREG_STEP * SETMAXNREG_STEP

    @property
    def _register_share(self) -> int:
        """Registers that a CTA may take."""
        return REGISTERS_PER_SM // self.ctas_per_sm

    @cached_property
    def groups(self) -> tuple[tuple[WarpRole, ...], ...]:
        """The roles in warp order, those together that set their registers to the same budget.

        Idle warps belong to the group before them and have no role in it.
        """
        groups: list[tuple[WarpRole, ...]] = []
        for role in self.roles:
            if role.is_idle:
                continue
            if groups and groups[-1][-1].registers == role.registers:
                groups[-1] += (role,)
            else:
                groups.append((role,))
        return tuple(groups)

    @cached_property
    def _by_name(self) -> dict[str, WarpRole]:
        return {role.name: role for role in self.roles}

    def __getitem__(self, name: str) -> WarpRole:
        """Return the role called ``name``; ``KeyError`` names the known ones."""
        if name not in self._by_name:
            raise KeyError(f"no role {name!r}; roles: {', '.join(self._by_name)}")
        return self._by_name[name]

    def role_of(self, warp: int) -> WarpRole:
        """Return the role of warp ``warp``.

        Raises:
            ValueError: when the CTA has no such warp.
        """
        for role in self.roles:
            if warp in role.warps:
                return role
        raise ValueError(f"warp={warp}: the CTA has {self.num_warps} warps")

    def transposing(self) -> WarpSchedule:
        """Return the schedule whose idle warps transpose V."""
        return self._without_idle(TRANSPOSE)

    def copying_biases(self) -> WarpSchedule:
        """Return the schedule whose idle warps copy biases to shared memory."""
        return self._without_idle(BIASES)

    def _without_idle(self, name: str) -> WarpSchedule:
        """Return the schedule whose idle warps have a role."""
        roles = (replace(r, name=name) if r.is_idle else r for r in self.roles)
        return replace(self, roles=tuple(roles))

    def apart(self) -> WarpSchedule:
        """Return the schedule whose first idle warp loads V."""
        return self._with_warp(VALUES)

    def with_single_warps(self, *, asks: bool, loads_apart: bool) -> WarpSchedule:
        """Return the schedule in which idle warps do what else is to do: ask for work, load V."""
        schedule = self.asking() if asks else self
        return schedule.apart() if loads_apart else schedule

    def _with_warp(self, name: str) -> WarpSchedule:
        """Return the schedule in which the first idle warp has a role."""
        *others, before, idle = self.roles
        warp = WarpRole(name, idle.first_warp, 1, before.registers)
        rest = replace(idle, first_warp=idle.first_warp + 1, num_warps=idle.num_warps - 1)
        return replace(self, roles=(*others, before, warp, *([rest] if rest.num_warps else ())))

    def asking(self) -> WarpSchedule:
        """Return the schedule whose first idle warp asks for work tiles, beside its neighbours."""
        return self._with_warp(SCHEDULER)

    def increases(self, name: str) -> bool:
        """Whether the role's ``setmaxnreg`` grows its budget over the launch value."""
        return self[name].registers > self.launch_registers

    def describe(self) -> str:
        """Return the schedule as text, one role a line."""
        return "\n".join(
            f"warps {role.warps.start:>2}-{role.warps.stop - 1:<2} {role.name:<11} "
            f"{role.registers:>3} registers"
            for role in self.roles
        )

    def _group(self, group: int) -> range:
        start = group * WARPS_PER_GROUP
        return range(start, min(start + WARPS_PER_GROUP, self.num_warps))


IDLE_REGISTERS: Final = 24
"""Registers of a thread that has no role."""


@lru_cache(maxsize=64)
def two_group_schedule(registers: RoleRegisters) -> WarpSchedule:
    """Return the 512 threads of the 2Q and 1Q kernel: two softmax groups, correction, MMA, load.

    Raises:
        ValueError: as ``WarpSchedule``.
    """
    softmax, correction, single = registers
    return WarpSchedule(
        (
            WarpRole("softmax0", 0, 4, softmax),
            WarpRole("softmax1", 4, 4, softmax),
            WarpRole("correction", 8, 4, correction),
            WarpRole("mma", 12, 1, single),
            WarpRole("load", 13, 1, single),
            WarpRole(IDLE, 14, 2, IDLE_REGISTERS),
        )
    )


ATTENTION_SCHEDULE: Final = two_group_schedule(RoleRegisters())
"""By default: 512 threads, (192 + 192 + 88 + 40) * 128 = 65536 registers."""

def _sm90_schedule(
    consumers: int, registers: int, load_registers: int, ctas_per_sm: int = 1
) -> WarpSchedule:
    """Return ``consumers`` warp groups that multiply, and one of which a warp loads."""
    first = consumers * WARPS_PER_GROUP
    return WarpSchedule(
        (
            WarpRole("consumer", 0, first, registers),
            WarpRole("load", first, 1, load_registers),
            WarpRole(IDLE, first + 1, WARPS_PER_GROUP - 1, load_registers),
        ),
        ctas_per_sm,
    )


SM90_SCHEDULES = {2: _sm90_schedule(2, 240, 24), 3: _sm90_schedule(3, 160, 32)}
"""Hopper kernel, by its number of consumers: (2 x 240 + 24) * 128 = 64512 registers, and
(3 x 160 + 32) * 128 = 65536."""

SM90_LENDING_SCHEDULE = _sm90_schedule(2, 232, 40)
"""With more for the warps beside the consumers: (2 x 232 + 40) * 128 = 64512."""

SM90_TRANSPOSING_SCHEDULE = SM90_LENDING_SCHEDULE.transposing()
"""The same for warps that transpose."""

SM90_FEW_ROWS_SCHEDULES = {
    1: _sm90_schedule(1, 240, 40),
    2: _sm90_schedule(1, 216, 40, ctas_per_sm=2),
}
"""The same with one consumer, by the CTAs that share an SM: 2 x (216 + 40) * 128 = 65536."""


def _depth512_schedule(correction: int, single: int) -> WarpSchedule:
    """Return the 384 threads of the head dim 256/512 kernel; ``single`` warps multiply and load."""
    return WarpSchedule(
        (
            WarpRole("softmax", 0, 4, 256),
            WarpRole("correction", 4, 4, correction),
            WarpRole("mma", 8, 1, single),
            WarpRole("load", 9, 1, single),
            WarpRole(IDLE, 10, 2, IDLE_REGISTERS),
        )
    )


DEPTH512_SCHEDULE = _depth512_schedule(184, 64)
"""Head dim 256/512 kernel: (256 + 184 + 64) * 128 = 64512 registers."""

DEPTH512_STREAMED_SCHEDULE = _depth512_schedule(168, 80)
"""The same with stream-K, where the correction writes no O, and MMA and load find their places in
the line: (256 + 168 + 80) * 128 = 64512."""
