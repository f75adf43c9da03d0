"""Roles: warps that run the same code, what they do and what their time went to.

Nothing says what a role is for, so warps are grouped by the instructions that they execute. Names
come from the caller; without one a role is called after its warps. `jobs` says what it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ...contract import clock
from .detail import Detail, Floats
from .jobs import OTHER_JOB, jobs_of, operations_of, parts_of

SAME_CODE: Final = 0.9
"""Cosine of two warps' counts of executed instructions from which they have one role."""

Warps = Mapping[str, Sequence[int]]
"""Name of a role -> numbers of its warps in a CTA."""


@dataclass(frozen=True)
class Role:
    """Warps that run the same code, or to which the caller gave one name.

    Attributes:
        name: what it is called.
        warps: their numbers in a CTA, ascending; the same in each CTA of a cluster.
        members: numbers of all of them in a `Detail`.
        cycles: from start to end, added up over the members.
        waits: reason -> cycles, added up; "issued" is one of them, and their sum is `cycles`.
        named: by the caller.
        parts: kind of operation (`jobs.KINDS`) -> part of all that the kernel executes of it.
        jobs: what it does, the most telling first.
    """

    name: str
    warps: tuple[int, ...]
    members: tuple[int, ...]
    cycles: float
    waits: Mapping[str, float]
    named: bool = False
    parts: Mapping[str, float] = field(default_factory=dict)
    jobs: tuple[str, ...] = (OTHER_JOB,)

    def share(self, reason: str) -> float:
        """Part of its time that went to a reason."""
        return self.waits.get(reason, 0) / self.cycles if self.cycles else 0


def roles_of(detail: Detail, names: Warps | None = None) -> tuple[Role, ...]:
    """Return the roles, in the order of their first warps.

    Args:
        detail: a run.
        names: roles whose warps the caller knows; the others are grouped by their code.

    Raises:
        ValueError: a warp has two names, or there is no such warp.
    """
    named = _checked(detail, names or {})
    groups: dict[str | int, list[int]] = {}
    counts = _counts(detail)
    kept: list[int] = []
    for warp in range(len(detail.first) - 1):
        number = detail.place(warp)[2]
        if number in named:
            groups.setdefault(named[number], []).append(warp)
            continue
        like = next((k for k in kept if counts[k] @ counts[warp] >= SAME_CODE), warp)
        if like == warp:
            kept.append(warp)
        groups.setdefault(like, []).append(warp)
    roles = _working(detail, [_role(detail, key, members) for key, members in groups.items()])
    names_met = [role.name for role in roles]
    return tuple(
        replace(role, name=f"{role.name} of rank {_ranges(_ranks(detail, role))}")
        if names_met.count(role.name) > 1
        else role
        for role in roles
    )


def _working(detail: Detail, roles: Sequence[Role]) -> list[Role]:
    """Roles with what they do."""
    counts, executed = operations_of(detail), np.diff(detail.first)
    each = [float(executed[list(role.members)].mean()) for role in roles]
    parts = [parts_of(counts, list(role.members)) for role in roles]
    return [
        replace(role, parts=done, jobs=jobs_of(done, mine / max(*each, 1)))
        for role, done, mine in zip(roles, parts, each, strict=True)
    ]


def _ranks(detail: Detail, role: Role) -> set[int]:
    return {detail.place(member)[1] for member in role.members}


def _checked(detail: Detail, names: Warps) -> dict[int, str]:
    """Warp -> name."""
    found: dict[int, str] = {}
    known = {stream.warp for stream in detail.trace.streams}
    for name, warps in names.items():
        for warp in warps:
            if warp not in known:
                raise ValueError(f"roles: {name} has warp {warp}; the CTA has {_ranges(known)}")
            if warp in found:
                raise ValueError(f"roles: warp {warp} is of {found[warp]} and of {name}")
            found[warp] = name
    return found


def _counts(detail: Detail) -> Floats:
    """Executions by warp and instruction, each row of length 1."""
    width = len(detail.instructions)
    table = np.bincount(detail.warp * width + detail.op, minlength=(len(detail.first) - 1) * width)
    rows = table.reshape(-1, width).astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    result: Floats = rows / np.maximum(norms, 1)
    return result


def _role(detail: Detail, key: str | int, members: Sequence[int]) -> Role:
    warps = tuple(sorted({detail.place(member)[2] for member in members}))
    waits = detail.waited[list(members)].sum(axis=0)
    plural = "s" if len(warps) > 1 else ""
    name = key if isinstance(key, str) else f"warp{plural} {_ranges(warps)}"
    found = {reason: float(waits[k]) for k, reason in enumerate(clock.REASONS) if waits[k]}
    named = isinstance(key, str)
    return Role(name, warps, tuple(members), float(waits.sum()), found, named)


def _ranges(numbers: Sequence[int] | set[int]) -> str:
    """Numbers in a few characters, e.g. "0-3, 8"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
