"""``Refusal``: why something cannot be run, and the nearest thing that can; those of devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ...plan.facts.architectures import ARCHITECTURES, architecture_of

DEVICES: Final = {
    "cpu": "the kernel's PTX runs on sm100sim, the virtual SM100 or SM90",
    "cuda": " or ".join(arch.text for arch in ARCHITECTURES.values()),
}
"""Device types and what they stand for."""
_CALLERS_NAMES: Final = {
    "qk_depth": "head_dim",
    "ov_depth": "head_dim_v",
    "depth": "head_dim",
    "splitk_partitions": "num_splits",
}
"""Arguments of a configuration, and what a call calls them."""
_PLANS_NAME: Final = re.compile(r"\b(?:qk_depth|ov_depth|splitk_partitions|depth(?==))")


@dataclass(frozen=True)
class Refusal:
    """Why a problem cannot be run, and the exception that says so."""

    error: type[Exception]
    reason: str
    nearest: str | None = None

    @property
    def message(self) -> str:
        """Reason and nearest choice in one sentence."""
        if self.nearest is None:
            return self.reason
        return f"{self.reason}; nearest supported choice: {self.nearest}"

    def exception(self) -> Exception:
        """Return the exception to raise."""
        return self.error(self.message)


def refusal_of_error(kind: type[Exception], error: Exception) -> Refusal:
    """Return the refusal whose message is that of ``error``, a plan's, with the caller's names."""
    message = _PLANS_NAME.sub(lambda found: _CALLERS_NAMES[found[0]], str(error))
    reason, _, nearest = message.partition("; nearest supported choice: ")
    return Refusal(kind, reason, nearest or None)


def device_refusal(
    kind: str,
    capability: tuple[int, int] | None = None,
    name: str | None = None,
    arch: str | None = None,
) -> Refusal | None:
    """Return why tensors on a device of type ``kind`` cannot be computed, or None.

    Args:
        kind: torch's device type, such as ``cpu`` or ``cuda``.
        capability: compute capability of a ``cuda`` device; None when it is not an NVIDIA one.
        name: the device's name for the message.
        arch: architecture of the kernel; None for that of the device.
    """
    if kind == "cpu":
        return None
    shown = f"{kind} ({name})" if name else kind
    known = "; ".join(f"{device}: {text}" for device, text in DEVICES.items())
    if kind != "cuda":
        return Refusal(
            NotImplementedError, f"device {shown} is not supported (supported are {known})", "cpu"
        )
    if capability is None:
        return Refusal(
            NotImplementedError,
            f"device {shown} is no NVIDIA device (supported are {known})",
            "tensors on the cpu, which run on sm100sim",
        )
    found, version = architecture_of(capability), f"{capability[0]}.{capability[1]}"
    if found is None:
        return Refusal(
            NotImplementedError,
            f"device {shown} has compute capability {version}, and the kernels use tcgen05, which "
            f"only 10.x has, or wgmma, which only 9.0 has (supported are {known})",
            "tensors on the cpu, which run on sm100sim",
        )
    if arch not in (None, found):
        return Refusal(
            NotImplementedError,
            f"arch={arch!r}: device {shown} has compute capability {version}",
            f"arch={found!r}, or None",
        )
    return None
