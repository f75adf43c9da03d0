"""Time of launches: what Triton's benchmarks and autotuner read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

from ..crew.recording import Recording, recording
from ..report import Report
from ..timing.model import StuckError
from ..timing.profile.call import profile_recording

KHZ_OF_MHZ = 1e3


class Clock:
    """Adds up the launches.

    Attributes:
        ms: milliseconds that executing them took here; events of benchmarks read it.
        report: of the latest one.
    """

    def __init__(self) -> None:
        self.ms = 0.0
        self.report: Report | None = None

    def add(self, report: Report) -> None:
        """A launch has ended."""
        self.ms += report.seconds * 1e3
        self.report = report

    def bench(
        self, call: Callable[[], object], *, quantiles: Sequence[float] | None = None, **_: object
    ) -> float | list[float]:
        """Predicted milliseconds of a call, once per quantile: every run takes the same.

        Of each launch the first cluster is replayed (`sm100sim.profile`), and counts as often as
        all clusters fill the chip. What cannot be replayed takes for ever, so the autotuner ranks
        it last; a warning says why.
        """
        with recording((0,), abreast=True) as launches:
            call()
        spent = sum(map(_predicted_ms, launches))
        return spent if quantiles is None else [spent] * len(quantiles)


def _predicted_ms(launch: Recording) -> float:
    try:
        found = profile_recording(launch, draws=1)
    except (FileNotFoundError, NotImplementedError, StuckError, ValueError) as error:
        name, why = launch.request.kernel, str(error).partition("\n")[0]
        warnings.warn(
            f"{name}: no time can be predicted, so this choice ranks last: {why}", stacklevel=2
        )
        return math.inf
    return found.cycles * found.waves / (found.clock_mhz * KHZ_OF_MHZ)


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
