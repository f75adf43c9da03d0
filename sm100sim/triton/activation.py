"""Put the virtual device in the place of Triton's driver, and take it away again."""

from __future__ import annotations

from typing import Any

from ..host.device_model import DEFAULT_SM_COUNT, DeviceModel
from ..report import Report
from .driver import Driver

CAPABILITIES = (90, 100)
"""Compute capabilities that may be asked for, times ten."""

_before: list[Any] = []
_driver: Driver | None = None


def activate(*, capability: int = 100, sm_count: int = DEFAULT_SM_COUNT) -> None:
    """Run every Triton and Gluon launch of this process on the virtual device.

    Args:
        capability: what Triton compiles for: 100 (sm_100a) or 90 (sm_90a).
        sm_count: streaming multiprocessors; persistent kernels size their grid by it.

    Raises:
        ImportError: Triton is not installed; `pip install 'sm100sim[triton]'`.
        ValueError: another capability, or no multiprocessor.
    """
    global _driver
    if capability not in CAPABILITIES:
        raise ValueError(f"capability: {capability} is not one of {CAPABILITIES}; nearest: 100")
    from triton.runtime import driver as config

    device = Driver(capability, DeviceModel(sm_count=sm_count))
    if not _before:
        _before.append(config._active)
    _driver = device
    config.set_active(device)


def deactivate() -> None:
    """Give Triton the driver back that it had."""
    global _driver
    if not _before:
        return
    from triton.runtime import driver as config

    config._active = _before.pop()
    _driver = None


def last_report() -> Report | None:
    """The report of the latest launch under :func:`activate`; None before the first one."""
    return None if _driver is None else _driver.clock.report
