"""One record per mbarrier, and the table of a kernel: offsets, counts, tests and pictures follow.

A kernel's table is a sequence of named groups of rows. The index of a barrier is its place in that
sequence, so an offset is never written down a second time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ..facts.hardware import WARP_THREADS


@dataclass(frozen=True)
class Arrival:
    """``count`` arrivals by role ``who`` in each completed phase, over all CTAs that signal."""

    who: str
    count: int


MMA_COMMIT = (Arrival("mma commit", 1),)
TMA_BYTES = (Arrival("load expect_tx", 1),)
LANE_COPIES = (Arrival("load cp.async", WARP_THREADS),)
"""Each lane of a load warp, once what it copies has arrived."""

BarrierRow = tuple[str, str, tuple[Arrival, ...], str]
"""Name, event, who arrives, who waits."""


@dataclass(frozen=True)
class BarrierSpec:
    """One mbarrier: position, event, the arrivals that complete a phase, and who waits for it."""

    index: int
    name: str
    event: str
    arrivals: tuple[Arrival, ...]
    waits: str

    @property
    def count(self) -> int:
        """Arrival count the barrier is initialised with."""
        return sum(arrival.count for arrival in self.arrivals)

    @property
    def arrives(self) -> str:
        """Who arrives and how often, for tables and drawings."""
        return " + ".join(f"{arrival.who} x{arrival.count}" for arrival in self.arrivals)


class BarrierTable(ABC):
    """Base of both kernels' barrier layouts."""

    @abstractmethod
    def groups(self) -> dict[str, list[BarrierRow]]:
        """Return the rows of every group, in index order; an empty group has no barriers."""

    @cached_property
    def _starts(self) -> dict[str, int]:
        starts, index = {}, 0
        for group, rows in self.groups().items():
            starts[group] = index
            index += len(rows)
        return starts

    def offset(self, group: str) -> int:
        """Return the index of the first barrier of ``group``."""
        return self._starts[group]

    @cached_property
    def specs(self) -> tuple[BarrierSpec, ...]:
        """The whole table, one record per barrier, in index order."""
        rows = [row for group in self.groups().values() for row in group]
        return tuple(BarrierSpec(i, *row) for i, row in enumerate(rows))

    @property
    def size(self) -> int:
        """Barriers of the block."""
        return len(self.specs)

    def num_mbars(self) -> int:
        """Return ``size`` (the name in seeds 000 and 002)."""
        return self.size

    def counts(self) -> tuple[int, ...]:
        """Return the initial arrival count of every barrier, by index."""
        return tuple(spec.count for spec in self.specs)


def render_barriers(specs: Iterable[BarrierSpec]) -> str:
    """Return the table as text, one barrier a line."""
    lines = [f"{'#':>3} {'name':<16} {'count':>5}  event; arrivals -> waiter"]
    lines += [
        f"{s.index:>3} {s.name:<16} {s.count:>5}  {s.event}; {s.arrives} -> {s.waits}"
        for s in specs
    ]
    return "\n".join(lines)
