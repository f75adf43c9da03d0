"""Two profiles side by side: the ratio of their times, and where they differ most.

Cycles are those of an SM for one unit of work: a cluster's, times its SMs, over what it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

import numpy as np

from ...contract import clock
from ..predict import Band
from ..predict.launches import same_draws
from ..records import Pipe
from .jobs import IDLE_JOB, main_job
from .kernel_profile import KernelProfile
from .options import checked_work
from .roles import Role
from .spots import place_of

OPERATIONS: Final = 3
"""Opcodes that explain a difference."""
WHOLE: Final = 10
"""Times from which on no parts of one are said."""
PIPES: Final[Mapping[str, tuple[Pipe, ...]]] = {
    "MUFU": (Pipe.MUFU,),
    "ALU": (Pipe.ALU,),
    "FMA": (Pipe.FMA_HEAVY, Pipe.FMA_LITE, Pipe.FMA_PACKED),
    "FP64": (Pipe.FP64,),
    "uniform": (Pipe.UNIFORM,),
    "TMEM": (Pipe.TMEM,),
    "tensor": (Pipe.TENSOR,),
    "shared memory": (Pipe.LSU, Pipe.TENSOR),
    "shared requests": (Pipe.LSU,),
    "TMA loads": (Pipe.TMA,),
    "TMA stores": (Pipe.TMA,),
    "issue": tuple(Pipe),
}
"""Resource -> units whose instructions keep it busy."""


@dataclass(frozen=True)
class Difference:
    """Something that two profiles do not have in common.

    Attributes:
        what: e.g. "MUFU", "on the path: tensor", "warps 0-3: mbarrier".
        first, second: cycles of either.
        why: what is behind it in either.
    """

    what: str
    first: float
    second: float
    why: str = ""

    @property
    def cycles(self) -> float:
        """How many more the first one takes."""
        return self.first - self.second


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
        sides = [_joined(side) for side in (self.first, self.second) if side]
        return f"{self.job} ({'; '.join(dict.fromkeys(sides))})"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two profiles over equal draws.

    Attributes:
        first, second: the profiles.
        cycles: of an SM for a unit of work, of either.
        ratio: that of the first over that of the second, draw by draw.
        resources: busy cycles. path: cycles of the critical path. roles: cycles of a warp, by
            reason. All with the largest difference first.
        pairs: roles that are held against each other, and those without a counterpart.
    """

    first: KernelProfile
    second: KernelProfile
    cycles: tuple[float, float]
    ratio: Band
    resources: tuple[Difference, ...]
    path: tuple[Difference, ...]
    roles: tuple[Difference, ...]
    pairs: tuple[Pair, ...] = ()
    as_text: ClassVar[Callable[[Comparison], str]]
    """How it is printed; `text`, which imports this module, puts it here."""

    def __str__(self) -> str:
        """Return what `--compare` prints of it."""
        return self.as_text()

    def __repr__(self) -> str:
        """Return a line, not both runs."""
        return f"Comparison({self.first!r}, {self.second!r}, ratio={self.ratio.median:.3f})"


@dataclass(frozen=True)
class _Side:
    """A profile, and what its cycles are multiplied by."""

    profile: KernelProfile
    scale: float

    @classmethod
    def of(cls, profile: KernelProfile, work: float) -> _Side:
        return cls(profile, prod(profile.cluster) / (profile.copies * work))


def compare(
    first: KernelProfile, second: KernelProfile, *, work: tuple[float, float] | None = None
) -> Comparison:
    """Compare two profiles.

    Args:
        first, second: of the same chip, with equally many draws of the same seed.
        work: how much a cluster of either does, in any unit. When not given, both launches do the
            same work, and their clusters share it evenly.

    Raises:
        ValueError: other chips, numbers of draws or seeds, or work that is not positive.
        TypeError: work that is no pair of numbers.
    """
    same_draws(
        (first.chip, len(first.draws), first.seed),
        "second",
        (second.chip, len(second.draws), second.seed),
    )
    each = (_part(first), _part(second)) if work is None else checked_work(work)
    one, other = (_Side.of(*pair) for pair in zip((first, second), each, strict=True))
    pairs = paired(first.roles, second.roles)
    drawn = zip(first.draws, second.draws, strict=True)
    return Comparison(
        first, second,
        cycles=(first.cycles * one.scale, second.cycles * other.scale),
        ratio=Band.of([a * one.scale / (b * other.scale) for a, b in drawn]),
        resources=_resources(one, other),
        path=_path(one, other),
        roles=_roles(one, other, pairs),
        pairs=pairs,
    )  # fmt: skip


def _part(profile: KernelProfile) -> float:
    """What part of a launch's work a cluster does."""
    return prod(profile.cluster) / prod(profile.grid)


def _ordered(found: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(sorted((d for d in found if d.cycles), key=lambda d: -abs(d.cycles)))


def _resources(one: _Side, other: _Side) -> tuple[Difference, ...]:
    busy = [
        {use.name: use.share * side.profile.cycles * side.scale for use in side.profile.uses}
        for side in (one, other)
    ]
    return _ordered(
        Difference(name, busy[0].get(name, 0), busy[1].get(name, 0),
                   _operations(one, other, PIPES.get(name, ())))
        for name in dict.fromkeys((*busy[0], *busy[1]))
    )  # fmt: skip


def _operations(one: _Side, other: _Side, pipes: Sequence[Pipe]) -> str:
    """The opcodes of some units whose numbers differ most."""
    counts = []
    for side in (one, other):
        detail, count = side.profile.detail, Counter[str]()
        ctas = prod(side.profile.cluster)
        for index in detail.executed.nonzero()[0].tolist():
            instruction = detail.instructions[index]
            if instruction.pipe in pipes:
                executed = int(detail.executed[index]) * side.scale / ctas
                count[instruction.mnemonic] += executed  # type: ignore[assignment]  # fractions
        counts.append(count)
    return _most_different(counts[0], counts[1])


def _most_different(first: Mapping[str, float], second: Mapping[str, float]) -> str:
    names = sorted(
        dict.fromkeys((*first, *second)),
        key=lambda name: -abs(first.get(name, 0) - second.get(name, 0)),
    )
    return ", ".join(
        f"{name} {first.get(name, 0):,.0f} and {second.get(name, 0):,.0f}"
        for name in names[:OPERATIONS]
        if first.get(name, 0) != second.get(name, 0)
    )


def _path(one: _Side, other: _Side) -> tuple[Difference, ...]:
    spent = []
    for side in (one, other):
        count: Counter[str] = Counter()
        for step in side.profile.steps:
            what = step.what if step.what in clock.REASONS else step.who
            count[what] += step.cycles * side.scale  # type: ignore[assignment]  # fractions
        spent.append(count)
    return _ordered(
        Difference(what, spent[0][what], spent[1][what],
                   f"{_on_path(one, what)}; and {_on_path(other, what)}")
        for what in dict.fromkeys((*spent[0], *spent[1]))
    )  # fmt: skip


def _on_path(side: _Side, what: str) -> str:
    """How often the path comes to something, whose it is most, and where."""
    profile = side.profile
    mine = [step for step in profile.steps if what in (step.what, step.who)]
    if not mine:
        return "never"
    cycles, times = sum(s.cycles for s in mine), sum(s.times for s in mine)
    often = times * side.scale  # as its cycles are
    lines: Counter[int] = Counter()
    for piece in profile.path:
        if piece.what == what and piece.warp >= 0:
            lines[place_of(profile.detail, piece)] += round(piece.end - piece.start)
    index, most = lines.most_common(1)[0]
    whose = "" if mine[0].who == what else f", {mine[0].cycles / cycles:.0%} of {mine[0].who}"
    return (
        f"{often:,.{0 if often >= WHOLE else 1}f} times {cycles / times:.1f} cycles{whose}, "
        f"{most / cycles:.0%} at {_statement(profile, index)}"
    )


def _statement(profile: KernelProfile, index: int) -> str:
    """The place of an instruction, to stand within a sentence."""
    return profile.detail.text(index).rstrip(";")


def _joined(roles: Sequence[Role]) -> str:
    return " and ".join(role.name for role in roles)


def paired(first: Sequence[Role], second: Sequence[Role]) -> tuple[Pair, ...]:
    """Return the pairs, those of names first; each role stands in one.

    Roles that the caller named alike in both correspond. The others do by their main job, all that
    have it together: a kernel may have the same work in one role or in several.
    """
    sides = (first, second)
    theirs = {role.name for role in second if role.named}
    common = [role.name for role in first if role.named and role.name in theirs]
    found = [_pair(name, sides, lambda role: role.name) for name in common]
    left = [[role for role in side if role.name not in common] for side in sides]
    jobs = dict.fromkeys(main_job(role.jobs) for side in left for role in side)
    return (*found, *(_pair(job, left, lambda role: main_job(role.jobs)) for job in jobs))


def _pair(job: str, sides: Sequence[Sequence[Role]], key: Callable[[Role], str]) -> Pair:
    first, second = (tuple(role for role in side if key(role) == job) for side in sides)
    return Pair(job, first, second)


def _roles(one: _Side, other: _Side, pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Waits of roles that both have; idle ones cost nothing."""
    found = []
    for pair in pairs:
        if not (pair.first and pair.second) or pair.job == IDLE_JOB:
            continue
        sides = ((pair.first, one), (pair.second, other))
        for reason in clock.REASONS:
            cycles = [_waited(roles, reason) * side.scale for roles, side in sides]
            why = " and ".join(_where(side, roles, reason) for roles, side in sides)
            found.append(Difference(f"{pair.name}: {reason}", cycles[0], cycles[1], why))
    return _ordered(found)


def _waited(roles: Sequence[Role], reason: str) -> float:
    """Cycles that a warp of some roles spends on a reason."""
    return sum(role.waits.get(reason, 0) for role in roles) / len(_members(roles))


def _members(roles: Sequence[Role]) -> list[int]:
    return [member for role in roles for member in role.members]


def _where(side: _Side, roles: Sequence[Role], reason: str) -> str:
    """Where the time that some roles spend on a reason is spent most."""
    detail = side.profile.detail
    if not _waited(roles, reason):
        return "nowhere"
    if reason == "issued":
        return f"{_waited(roles, reason) * side.scale:,.0f} instructions a warp"
    mine = np.isin(detail.stands["warp"], _members(roles))
    mine &= detail.stands["why"] == clock.REASONS.index(reason)
    spent = (detail.stands["end"] - detail.stands["start"])[mine]
    cycles = np.bincount(detail.op[detail.waits_at[mine]], spent)
    index = int(cycles.argmax())
    return f"{cycles[index] / cycles.sum():.0%} at {_statement(side.profile, index)}"
