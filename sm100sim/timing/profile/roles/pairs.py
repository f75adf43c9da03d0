"""Which roles of two kernels correspond: those of one name, and those that do the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .groups import Role
from .jobs import main_job


@dataclass(frozen=True)
class Pair:
    """Roles of two kernels that are held against each other, or of one that has no counterpart.

    Attributes:
        job: what they do, or the name that the caller gave them.
        first, second: roles of either kernel; none where it has no such role.
    """

    job: str
    first: tuple[Role, ...]
    second: tuple[Role, ...]

    @property
    def name(self) -> str:
        """What the pair is called, e.g. "MUFU (warps 0-3 and warps 4-7; warps 0-7)"."""
        given = {role.name for role in (*self.first, *self.second)}
        if given == {self.job}:
            return self.job
        sides = [_names(side) for side in (self.first, self.second) if side]
        return f"{self.job} ({'; '.join(dict.fromkeys(sides))})"


def _names(roles: Sequence[Role]) -> str:
    return " and ".join(role.name for role in roles)


def paired(first: Sequence[Role], second: Sequence[Role]) -> tuple[Pair, ...]:
    """Return the pairs, those of names first; each role stands in one.

    Roles that the caller named alike in both correspond. The others do by their main job, all that
    have it together: a kernel may have the same work in one role or in several.
    """
    sides = (first, second)
    named = [{role.name for role in side if role.named} for side in sides]
    common = [role.name for role in first if role.named and role.name in named[1]]
    found = [_pair(name, sides, lambda role: role.name) for name in dict.fromkeys(common)]
    left = [[role for role in side if role.name not in common] for side in sides]
    jobs = dict.fromkeys(main_job(role.jobs) for side in left for role in side)
    return (*found, *(_pair(job, left, lambda role: main_job(role.jobs)) for job in jobs))


def _pair(job: str, sides: Sequence[Sequence[Role]], key: Callable[[Role], str]) -> Pair:
    first, second = (tuple(role for role in side if key(role) == job) for side in sides)
    return Pair(job, first, second)
