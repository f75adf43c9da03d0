"""What warps write of their waits: records of four words, in the order of the waits.

Which wait, the clock before it, the clock behind it, and 0. The first record and the last one say
when the warp began and ended: clock, SM, nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

BEGIN, END = 1 << 16, (1 << 16) + 1
"""Records that are of no wait."""
WORDS: Final = 4
RECORDS: Final = 64 * 12
"""Of a warp: 64 rounds of a loop with at most so many waits."""
WAITS: Final = "waits"
"""The tensor of records, among those of a launch."""
Waits = list[list[list[int]]]
"""By warp: each record's wait, its begin in cycles since the CTA's first, and how long it took."""


@dataclass(frozen=True)
class Record:
    """A wait of a warp by either clock; of a begin or end `behind` is the SM."""

    site: int
    before: int
    behind: int


def decoded(words: npt.NDArray[np.uint32], warps: int, records: int) -> list[list[list[Record]]]:
    """What each warp of each CTA wrote, in order; places that nobody wrote hold zeros."""
    found = []
    for cta in words.reshape(-1, warps, records, WORDS):
        rows = [[Record(*map(int, row[:3])) for row in warp] for warp in cta]
        ends = [next((k for k, r in enumerate(w) if r.site == END), -1) + 1 for w in rows]
        found.append([w[:n] for w, n in zip(rows, ends, strict=True)])
    return found


def counted(warps: Sequence[Sequence[Record]]) -> Waits:
    """Records of a CTA, in cycles since the first of them."""
    origin = next(warp[0].before for warp in warps if warp)
    first = min(_since(warp[0].before, origin) for warp in warps if warp) + origin
    return [
        [
            [r.site, _since(r.before, first), _since(r.behind, r.before) if r.site < BEGIN else 0]
            for r in warp
        ]
        for warp in warps
    ]


def _since(clock: int, origin: int) -> int:
    """Cycles, where 32 bits of the clock may have begun anew."""
    return (clock - origin + 2**31) % 2**32 - 2**31
