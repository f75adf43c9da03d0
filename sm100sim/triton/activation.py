"""Put the virtual device in the place of Triton's driver, and take it away again."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..host.device_model import DEFAULT_SM_COUNT, DeviceModel
from ..report import Report
from .cublas import CublasLt
from .driver import Driver

CAPABILITIES = (90, 100)
"""Compute capabilities that may be asked for, times ten."""

MODULE = "triton.runtime.driver"
"""The module that holds Triton's driver."""

_replaced: list[tuple[Any, Any]] = []
"""Triton's holder of drivers, and the driver that it had."""

_library: list[tuple[ModuleType, Any]] = []
"""Triton's module for cuBLAS, and the class that it had."""

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
    if capability not in CAPABILITIES:
        raise ValueError(f"capability: {capability} is not one of {CAPABILITIES}; nearest: 100")
    device = DeviceModel(sm_count=sm_count)
    from triton.runtime import driver

    put_into(driver, capability, device)


def put_into(holder: Any, capability: int = 100, device: DeviceModel | None = None) -> None:
    """Make the virtual device the active driver of `triton.runtime.driver`, which `holder` is."""
    global _driver
    if not _replaced:
        _replaced.append((holder, holder._active))
    _driver = Driver(capability, device or DeviceModel())
    holder.set_active(_driver)
    if not _library:
        from triton._C.libtriton import nvidia

        _library.append((nvidia.cublas, nvidia.cublas.CublasLt))
        nvidia.cublas.CublasLt = CublasLt


def put_into_module(module: ModuleType) -> None:
    """The same for the module that holds it, which a program has just imported."""
    put_into(module.driver)


def deactivate() -> None:
    """Give Triton the driver back that it had."""
    global _driver
    _driver = None
    if _replaced:
        holder, before = _replaced.pop()
        holder._active = before
    if _library:
        module, library = _library.pop()
        setattr(module, "CublasLt", library)  # noqa: B010  # not typed


def last_report() -> Report | None:
    """The report of the latest launch under :func:`activate`; None before the first one."""
    return None if _driver is None else _driver.clock.report
