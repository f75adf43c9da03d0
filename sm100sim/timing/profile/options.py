"""What a caller may choose of a profile, and refusals of what is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypedDict

from ...options import whole_number
from .roles import Warps

DRAWS: Final = 8
"""Draws of a profile's band; a prediction of `sm100sim.timing.predict` takes more."""
MOST: Final = 10
"""Hot spots of each kind."""


class Options(TypedDict, total=False):
    """Options of a profile as a call names them; `Settings` says what they are."""

    roles: Warps | None
    draws: int
    seed: int
    most: int
    cold: bool | None


@dataclass(frozen=True)
class Settings:
    """Options of a profile.

    Attributes:
        roles: name -> warps of a CTA; other warps are grouped by the code that they run.
        draws: number of times that parameters known only as a range are drawn, for the band.
        seed: seed of the draws.
        most: number of hot spots of each kind.
        cold: nothing is in the L2 when the launch begins; else all that it reads is. When not
            given, it begins cold if it reads more than the L2 holds.

    Raises:
        TypeError: the draws, the seed, the hot spots or a warp is no whole number, `roles` is no
            mapping or `cold` neither True, False nor None.
        ValueError: the seed or the number of hot spots is negative.
    """

    roles: Warps | None = None
    draws: int = DRAWS
    seed: int = 0
    most: int = MOST
    cold: bool | None = None

    def __post_init__(self) -> None:
        for name, value, near in (
            ("draws", self.draws, DRAWS), ("seed", self.seed, 0), ("most", self.most, MOST),
        ):  # fmt: skip
            whole_number(name, value, f"; nearest supported choice: {near}")
            if value < 0:
                raise ValueError(f"{name}: {value}; nearest supported choice: {min(near, 1)}")
        if not self.draws:
            raise ValueError("draws: 0; nearest supported choice: 1")
        if not (self.cold is None or isinstance(self.cold, bool)):
            raise TypeError(f"cold: {self.cold!r} is none of True, False and None")
        _check_roles({} if self.roles is None else self.roles)


def _check_roles(roles: object) -> None:
    if not isinstance(roles, Mapping):
        raise TypeError(f"roles: {roles!r} is no mapping; give e.g. {{'producer': range(4)}}")
    for name, warps in roles.items():
        if isinstance(warps, str) or not isinstance(warps, Iterable):
            raise TypeError(f"roles: {name} has {warps!r}, no warps; give e.g. range(4) or [0, 1]")
        for warp in warps:
            whole_number(f"roles: a warp of {name}", warp, "; nearest supported choice: 0")


def checked_work(work: object) -> tuple[float, float]:
    """Return the work of two clusters.

    Raises:
        TypeError: it is no pair of numbers. ValueError: they are not positive.
    """
    if not isinstance(work, tuple | list) or len(work) != 2:
        raise TypeError(f"work: {work!r} is no pair; give what a cluster of either does")
    if not all(isinstance(part, int | float) for part in work):
        raise TypeError(f"work: {work!r}; both must be numbers")
    if not all(isfinite(part) and part > 0 for part in work):
        raise ValueError(f"work: {work}; both must be positive")
    return work[0], work[1]
