"""``Tuning``: the free choices of a kernel, which change how fast it is and nothing else.

Which of them a kernel gets is looked up in ``plan.config.tuned``, which
``python -m benchmarks.tune`` writes: it tries choices in the timing model. What a feature needs
registers for is no free choice and stays in ``plan.spec.register_tuning``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

from ..facts.dtypes import DType
from ..facts.hardware import SETMAXNREG_STEP

SHARE_OF: Final = 64
"""Pairs that a share of emulated exponentials counts in."""
CAPPED_EMULATED: Final = 28
"""The share beside a softcap: predicted best of 20 to 48 at 128, 24 to 32 at 64 and with fp8."""
QUARTERS: Final = 4
"""Parts of P are quarters of a key tile."""


class RoleRegisters(NamedTuple):
    """Registers of a thread of each role; the single warps issue MMAs and loads."""

    softmax: int = 192
    correction: int = 88
    single: int = 40

    def with_more_to_load(self) -> RoleRegisters:
        """Return the same sum with a step more for the single warps, from the correction's."""
        step = SETMAXNREG_STEP
        return self._replace(correction=self.correction - step, single=self.single + step)


@dataclass(frozen=True)
class Tuning:
    """Free choices of the kernel with one or two Q tiles.

    Args:
        emulated: of 64 pairs of exponentials, those that run as a polynomial.
        parts: quarters of P in each part that the softmax hands to P V, where the keys of a tile
            divide so; else P is handed over in halves.
        registers: of the roles' threads.
        keys: most keys per tile, 0 for as many as Tensor Memory holds.
        slots: most slots of K and V together, 0 for as many as shared memory holds.
        crosses: with two Q tiles P of a chain lies in the columns of the other chain's S.

    Raises:
        ValueError: for a value that no kernel can have.
    """

    emulated: int = 16
    parts: tuple[int, ...] = (3, 1)
    registers: RoleRegisters = field(default=RoleRegisters())
    keys: int = 0
    slots: int = 0
    crosses: bool = False

    def __post_init__(self) -> None:
        """Refuse values outside the domain of the record."""
        if not 0 <= self.emulated <= SHARE_OF:
            raise ValueError(f"emulated={self.emulated}: choose 0 to {SHARE_OF}")
        if len(self.parts) < 2 or min(self.parts) < 1 or sum(self.parts) != QUARTERS:
            raise ValueError(
                f"parts={self.parts}: two parts or more, {QUARTERS} quarters together, e.g. (3, 1)"
            )
        for name, value in (("keys", self.keys), ("slots", self.slots)):
            if value < 0:
                raise ValueError(f"{name}={value}: choose 0 (as many as fit) or a positive number")

    @property
    def ends(self) -> tuple[int, ...]:
        """Quarters of P that have been handed over after each part."""
        return tuple(accumulate(self.parts))

    def beside_softcap(self) -> Tuning:
        """Return the same with the share of exponentials that goes with those of a softcap."""
        return replace(self, emulated=CAPPED_EMULATED)

    def num_emulated(self, num_pairs: int) -> int:
        """Return how many of ``num_pairs`` pairs of a row run as a polynomial."""
        return self.emulated * num_pairs // SHARE_OF


class TunedRow(NamedTuple):
    """A row of the table: a kind of kernel up to these head dims, and its choices.

    ``kernel`` is "2q" or "1q", by the Q tiles of a CTA; ``element_bytes`` is that of Q, K and V. A
    row with equal head dims holds kernels with equal ones only.
    """

    kernel: str
    element_bytes: int
    depth: int
    ov_depth: int
    tuning: Tuning


class _Row(Protocol):
    """What the rows of tables by kind of kernel have in common."""

    @property
    def kernel(self) -> str: ...
    @property
    def element_bytes(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def ov_depth(self) -> int: ...


def holds(row: _Row, kernel: str, dtype: DType, depth: int, ov_depth: int) -> bool:
    """Return whether ``row`` is for such a kernel."""
    same = (kernel, dtype.size) == (row.kernel, row.element_bytes)
    alike = (depth == ov_depth) == (row.depth == row.ov_depth)
    return same and alike and depth <= row.depth and ov_depth <= row.ov_depth


def tuning_of(
    rows: Iterable[TunedRow], kernel: str, dtype: DType, depth: int, ov_depth: int
) -> Tuning:
    """Return the choices of the first row that holds a kernel, or the defaults."""
    found = (row.tuning for row in rows if holds(row, kernel, dtype, depth, ov_depth))
    return next(found, Tuning())
