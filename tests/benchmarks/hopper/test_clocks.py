from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.hopper.times.clocks import ClockLog, Nvml, Sample, summary


def library(known: int = 0) -> Any:
    """NVML of one GPU at 1755 MHz and 512.5 W that its power limit slows down."""

    def answer(value: int) -> Any:
        def query(_device: Any, *rest: Any) -> int:
            rest[-1]._obj.value = value
            return 0

        return query

    def clock(_device: Any, which: int, found: Any) -> int:
        found._obj.value = {1: 1755, 2: 3201}[which]
        return 0

    return SimpleNamespace(
        nvmlInit_v2=lambda: 0,
        nvmlDeviceGetHandleByIndex_v2=lambda index, _handle: int(index != known),
        nvmlDeviceGetClockInfo=clock,
        nvmlDeviceGetPowerUsage=answer(512_500),
        nvmlDeviceGetTemperature=answer(61),
        nvmlDeviceGetCurrentClocksThrottleReasons=answer(0x4),
    )


def test_a_look_at_the_gpu() -> None:
    sample = Nvml(0, library()).sample()
    assert sample == Sample(sample.at, 1755, 3201, 512.5, 61, 4)


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(OSError, match="GPU 3"):
        Nvml(3, library())


def test_a_query_that_fails_gives_nothing() -> None:
    found = library()
    found.nvmlDeviceGetPowerUsage = lambda *_: 3
    assert Nvml(0, found).sample().power == 0


def test_a_log_of_what_happened_since() -> None:
    log = ClockLog(Nvml(0, library()))
    start = time.monotonic()
    while log.since(start).get("samples", 0) < 2:
        time.sleep(0.01)
    log.close()
    found = log.since(start)
    assert (found["sm_mhz"], found["lowered_by"]) == (1755, ["power cap"])
    assert log.since(time.monotonic() + 1) == {}


def test_a_summary() -> None:
    bits = (0, 0x4, 0x20)
    clocks = (1980, 1700, 1800)
    samples = [
        Sample(0, sm, 3201, sm / 4, 50 + k, bit)
        for k, (sm, bit) in enumerate(zip(clocks, bits, strict=True))
    ]
    assert summary(samples) == {
        "samples": 3, "sm_mhz": 1800, "sm_mhz_lowest": 1700, "memory_mhz": 3201, "power_w": 450,
        "temperature_c": 52, "lowered_by": ["power cap", "software thermal"],
    }  # fmt: skip
    assert summary([]) == {}
