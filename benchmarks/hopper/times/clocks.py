"""What the GPU was and how fast it ran while something was timed: nvidia-smi, asked all along.

The clocks are left as they are found; the records say what they were.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

FIELDS: Final = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
CARD: Final = ("name", "driver_version", "clocks.max.sm", "power.limit", "vbios_version")
PERIOD_MS: Final = 50


@dataclass(frozen=True)
class Sample:
    """One line of nvidia-smi: seconds on the host's monotonic clock, MHz, MHz, W, °C."""

    at: float
    sm: float
    memory: float
    power: float
    temperature: float


def parse(line: str, at: float) -> Sample | None:
    """The sample in a line of ``--format=csv,noheader,nounits``; None where a value is missing."""
    try:
        values = [float(part) for part in line.split(",")]
    except ValueError:
        return None
    return Sample(at, *values) if len(values) == len(FIELDS) else None


def summary(samples: Sequence[Sample]) -> dict[str, float]:
    """Median and lowest SM clock, median power and highest temperature; empty without samples."""
    if not samples:
        return {}
    return {
        "sm_mhz": median(s.sm for s in samples),
        "sm_mhz_lowest": min(s.sm for s in samples),
        "memory_mhz": median(s.memory for s in samples),
        "power_w": median(s.power for s in samples),
        "temperature_c": max(s.temperature for s in samples),
    }


def card(index: int = 0) -> dict[str, str]:
    """Name, driver and limits of a GPU; empty where there is no nvidia-smi."""
    if shutil.which("nvidia-smi") is None:
        return {}
    query = f"--query-gpu={','.join(CARD)}"
    command = ["nvidia-smi", query, "--format=csv,noheader", f"-i={index}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    values = [part.strip() for part in done.stdout.split(",")]
    return dict(zip(CARD, values, strict=True)) if len(values) == len(CARD) else {}


class ClockLog:
    """Samples of a GPU, taken by a process beside this one until :meth:`close`."""

    def __init__(self, index: int = 0) -> None:
        """Start nvidia-smi, if there is one."""
        self._samples: list[Sample] = []
        self._process: subprocess.Popen[str] | None = None
        if shutil.which("nvidia-smi") is not None:
            query = f"--query-gpu={','.join(FIELDS)}"
            self._process = subprocess.Popen(
                ["nvidia-smi", query, "--format=csv,noheader,nounits", f"-i={index}",
                 f"-lms={PERIOD_MS}"],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            sample = parse(line, time.monotonic())
            if sample is not None:
                self._samples.append(sample)

    def since(self, start: float) -> dict[str, float]:
        """:func:`summary` of the samples from ``time.monotonic()`` = `start` on."""
        return summary([s for s in list(self._samples) if s.at >= start])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
