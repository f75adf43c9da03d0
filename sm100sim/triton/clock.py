"""Modelled time of the launches so far: what Triton's benchmarks and autotuner read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..report import Report

CYCLES_PER_MS = 1.9e6
"""Boost clock of a B200 (published), in cycles per millisecond."""


class Clock:
    """Adds up the launches.

    Attributes:
        ms: modelled milliseconds of all launches.
        report: of the latest one.
    """

    def __init__(self, sm_count: int) -> None:
        self.ms = 0.0
        self.report: Report | None = None
        self._sms = sm_count

    def add(self, report: Report) -> None:
        """A launch: its slowest cluster, as often as all clusters need to pass over the chip."""
        waves = math.ceil(max(math.prod(report.grid), 1) / self._sms)
        self.ms += report.cycles * waves / CYCLES_PER_MS
        self.report = report

    def bench(
        self, call: Callable[[], object], *, quantiles: Sequence[float] | None = None, **_: object
    ) -> float | list[float]:
        """Modelled milliseconds of a call, once per quantile: every run takes the same."""
        before = self.ms
        call()
        spent = self.ms - before
        return spent if quantiles is None else [spent] * len(quantiles)


class Event:
    """What `torch.cuda.Event` is to Triton's benchmarks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = 0.0

    def record(self) -> None:
        """Now."""
        self._at = self._clock.ms

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds until another event, never 0: benchmarks divide by it."""
        return max(end._at - self._at, 1e-6)


class Interface:
    """What `torch.cuda` is to Triton's benchmarks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def Event(self, enable_timing: bool = False) -> Event:
        """An event; `enable_timing` is torch's argument."""
        return Event(self._clock)

    def synchronize(self) -> None:
        """Launches end before they return."""

    def current_device(self) -> int:
        """The only device."""
        return 0
