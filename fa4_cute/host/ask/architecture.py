"""The architecture of a call: that of its device, or on the cpu the one that is asked for."""

from __future__ import annotations

import sys
from typing import Any

from ...plan.facts.architectures import ARCHITECTURES, architecture_of
from ...plan.facts.hardware import SM100A


def check_arch(value: Any) -> None:
    """Refuse what names no architecture; None names none.

    Raises:
        TypeError: it is no name.
        ValueError: there is none of that name.
    """
    if value is None:
        return
    names = ", ".join(ARCHITECTURES)
    if not isinstance(value, str):
        raise TypeError(f"arch={value!r}: expected one of {names} or None")
    if value not in ARCHITECTURES:
        raise ValueError(f"arch={value!r}: nearest supported choice: {names.replace(',', ' or')}")


def capability_of(tensor: Any) -> tuple[int, int] | None:
    """Return the compute capability of the tensor's device; None where there is none."""
    torch = sys.modules["torch"]
    if tensor.device.type != "cuda" or torch.version.cuda is None:
        return None
    major, minor = torch.cuda.get_device_capability(tensor.device.index)
    return major, minor


def num_sms_of(tensor: Any) -> int | None:
    """Return the multiprocessors of the tensor's device; None where there are none."""
    if capability_of(tensor) is None:
        return None
    torch = sys.modules["torch"]
    return int(torch.cuda.get_device_properties(tensor.device.index).multi_processor_count)


def arch_for(asked: str | None, capability: tuple[int, int] | None) -> str:
    """Return the architecture to compile for: ``asked``, else that of ``capability``.

    Devices that belong to none count as the first, and are refused when they are looked at.
    """
    if asked is not None:
        return asked
    found = None if capability is None else architecture_of(capability)
    return found or SM100A
