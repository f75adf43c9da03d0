"""One record per mbarrier: the table from which tests, pictures and device code derive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Arrival:
    """``count`` arrivals by role ``who`` in each completed phase, over all CTAs that signal."""

    who: str
    count: int


MMA_COMMIT = (Arrival("mma commit", 1),)
TMA_BYTES = (Arrival("load expect_tx", 1),)


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


def render_barriers(specs: Iterable[BarrierSpec]) -> str:
    """Return the table as text, one barrier a line."""
    lines = [f"{'#':>3} {'name':<16} {'count':>5}  event; arrivals -> waiter"]
    lines += [
        f"{s.index:>3} {s.name:<16} {s.count:>5}  {s.event}; {s.arrives} -> {s.waits}"
        for s in specs
    ]
    return "\n".join(lines)
