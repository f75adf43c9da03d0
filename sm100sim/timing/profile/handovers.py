"""The critical path in words: who spent its cycles on what, and who waited for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .detail import Detail
from .path import NOTHING, WORKS, Piece
from .roles import Role


@dataclass(frozen=True)
class Step:
    """Cycles of the critical path of one kind.

    Attributes:
        who: a role, or a unit of the SM.
        what: a reason for waiting, "issued", or "works" of a unit.
        cycles, times: in all, and pieces.
    """

    who: str
    what: str
    cycles: float
    times: int


@dataclass(frozen=True)
class Handover:
    """A place where the critical path goes from one warp to another, or through a unit.

    Attributes:
        giver, given: role and instruction that ended a wait.
        taker, taken: role and instruction that waited.
        through: what it waited for, e.g. "mbarrier", "tensor".
        cycles, times: of the path on the way, and how often.
    """

    giver: str
    given: str
    taker: str
    taken: str
    through: str
    cycles: float
    times: int


def names_of(roles: Sequence[Role]) -> dict[int, str]:
    """Return the role's name of each warp."""
    return {member: role.name for role in roles for member in role.members}


def steps_of(path: Sequence[Piece], roles: Sequence[Role]) -> tuple[Step, ...]:
    """Return the critical path by who and what, the largest part first."""
    names = names_of(roles)
    cycles: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for piece in path:
        key = _who(piece, names)
        cycles[key] += piece.end - piece.start  # type: ignore[assignment]  # fractions
        times[key] += 1
    return tuple(Step(*key, float(spent), times[key]) for key, spent in cycles.most_common())


def _who(piece: Piece, names: dict[int, str]) -> tuple[str, str]:
    if piece.what in WORKS.values():
        return piece.what, "works"
    return (NOTHING, NOTHING) if piece.warp < 0 else (names[piece.warp], piece.what)


def handovers(detail: Detail, path: Sequence[Piece], roles: Sequence[Role]) -> tuple[Handover, ...]:
    """Return where the path changes its warp or goes through a unit, the longest ways first."""
    names = names_of(roles)
    cycles: Counter[tuple[str, str, str, str, str]] = Counter()
    times: Counter[tuple[str, str, str, str, str]] = Counter()
    for piece, way, taker in _ways(path):
        if piece.what not in WORKS.values() and detail.warp[piece.cause] == taker.warp:
            continue  # a result of its own
        taken = detail.text(detail.waiting(taker.step))
        given = detail.text(int(detail.op[piece.cause]))
        giver = names[int(detail.warp[piece.cause])]
        key = (giver, given, names[taker.warp], taken, piece.what)
        cycles[key] += way  # type: ignore[assignment]  # fractions
        times[key] += 1
    return tuple(
        Handover(giver, given, taker, taken, through, float(way), times[key])
        for key, way in cycles.most_common()
        for giver, given, taker, taken, through in [key]
    )


def _ways(path: Sequence[Piece]) -> Iterator[tuple[Piece, float, Piece]]:
    """Pieces that leave a warp, the cycles until the path is with one again, and that piece."""
    left: Piece | None = None
    for piece, following in pairwise(path):
        if piece.cause >= 0:
            left = piece
        if left is not None and following.what not in WORKS.values():
            yield left, piece.end - left.start, following
            left = None
