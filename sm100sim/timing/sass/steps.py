"""A step of a recording with its operands, and places in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...contract import forms
from ...contract.codes import WINDOW_RANK_SHIFT
from ..records import DynamicEvent, Place

LOW = 2**32 - 1
OFFSETS = (1 << WINDOW_RANK_SHIFT) - 1

Values = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Step:
    """A step with its instruction and operands.

    Attributes:
        form: modifiers. sources: which source -> values of the active lanes.
        cluster_size: CTAs of the cluster.
    """

    name: str
    form: forms.Form | None
    imm: int
    counts: tuple[int, int]
    lanes: int
    rank: int
    notes: tuple[int, ...]
    sources: dict[int, Values]
    cluster_size: int = 1

    def place(self, which: int, offset: int | None = None) -> tuple[Place, ...]:
        """Places in shared memory that a source names, each once."""
        shift = self.imm if offset is None else offset
        found = dict.fromkeys((int(v) + shift) & LOW for v in self.sources[which])
        return tuple(Place(a >> WINDOW_RANK_SHIFT, a & OFFSETS) for a in found)

    def total(self, which: int) -> int:
        """Sum of a source over the active lanes; 0 when it is not there."""
        return int(self.sources[which].sum()) if which in self.sources else 0

    def first(self, which: int) -> int:
        """A source of the first active lane; 0 when it is not there."""
        return int(self.sources[which][0]) if which in self.sources else 0


Meaning = Callable[[Step], DynamicEvent]
"""What a step is to the clock."""
