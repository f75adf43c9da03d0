"""What the GPU was and how fast it ran while something was timed, from NVML.

The clocks are left as they are found; the records say what they were. Source: NVML API reference,
"Device Queries".
"""

from __future__ import annotations

import ctypes as ct
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

CARD: Final = ("name", "driver_version", "clocks.max.sm", "power.limit", "vbios_version")
PERIOD_SECONDS: Final = 0.02
SM_CLOCK, MEMORY_CLOCK, GPU_TEMPERATURE = 1, 2, 0
"""NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU."""
REASONS: Final = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal",
    0x80: "power brake",
}  # fmt: skip
"""Bits of nvmlClocksEventReasons that lower a clock under load."""


@dataclass(frozen=True)
class Sample:
    """One look: seconds on the host's monotonic clock, MHz, MHz, W, °C, bits of `REASONS`."""

    at: float
    sm: float
    memory: float
    power: float
    temperature: float
    reasons: int = 0


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Median and lowest SM clock, median power, highest temperature, what lowered the clock; empty
    without samples."""
    if not samples:
        return {}
    bits = 0
    for sample in samples:
        bits |= sample.reasons
    return {
        "samples": len(samples),
        "sm_mhz": median(s.sm for s in samples),
        "sm_mhz_lowest": min(s.sm for s in samples),
        "memory_mhz": median(s.memory for s in samples),
        "power_w": median(s.power for s in samples),
        "temperature_c": max(s.temperature for s in samples),
        "lowered_by": [name for bit, name in REASONS.items() if bits & bit],
    }


def card(index: int = 0) -> dict[str, str]:
    """Name, driver and limits of a GPU as nvidia-smi says; empty where there is none."""
    if shutil.which("nvidia-smi") is None:
        return {}
    query = f"--query-gpu={','.join(CARD)}"
    command = ["nvidia-smi", query, "--format=csv,noheader", f"--id={index}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    values = [part.strip() for part in done.stdout.split(",")]
    return dict(zip(CARD, values, strict=True)) if len(values) == len(CARD) else {}


class Nvml:
    """The queries of one GPU.

    Args:
        library: ``libnvidia-ml.so.1``, or a stand-in with its functions.

    Raises:
        OSError: NVML is not there, or does not know the GPU.
    """

    def __init__(self, index: int = 0, library: Any = None) -> None:
        """Open the library and find the GPU."""
        self._library = library or ct.CDLL("libnvidia-ml.so.1")
        self._device = ct.c_void_p()
        find, handle = self._library.nvmlDeviceGetHandleByIndex_v2, ct.byref(self._device)
        if self._library.nvmlInit_v2() or find(index, handle):
            raise OSError(f"NVML does not know GPU {index}")

    def _asked(self, query: str, *which: int, wide: bool = False) -> int:
        """The number that a query gives, 0 when it fails."""
        found = ct.c_ulonglong() if wide else ct.c_uint()
        status = getattr(self._library, query)(self._device, *which, ct.byref(found))
        return 0 if status else found.value

    def sample(self) -> Sample:
        """Look now."""
        return Sample(
            time.monotonic(),
            self._asked("nvmlDeviceGetClockInfo", SM_CLOCK),
            self._asked("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
            self._asked("nvmlDeviceGetPowerUsage") / 1000,
            self._asked("nvmlDeviceGetTemperature", GPU_TEMPERATURE),
            self._asked("nvmlDeviceGetCurrentClocksThrottleReasons", wide=True),
        )


class ClockLog:
    """Samples of a GPU, taken by a thread until :meth:`close`; none where there is no NVML."""

    def __init__(self, nvml: Nvml | None = None) -> None:
        """Start looking."""
        self._samples: list[Sample] = []
        self._ended = threading.Event()
        try:
            self._nvml = nvml or Nvml()
        except OSError:
            return
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._ended.wait(PERIOD_SECONDS):
            self._samples.append(self._nvml.sample())

    def since(self, start: float) -> dict[str, Any]:
        """:func:`summary` of the samples from ``time.monotonic()`` = `start` on."""
        return summary([s for s in list(self._samples) if s.at >= start])

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
