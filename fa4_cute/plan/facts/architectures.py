"""The architectures that kernels exist for, and the devices that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .hardware import SM90A, SM100A, SM_COUNT


@dataclass(frozen=True)
class Architecture:
    """Devices that run the same kernels.

    Attributes:
        name: the compiler's name of it.
        major, minors: their compute capabilities.
        text: the same in words.
        num_sms: multiprocessors of the usual device; a GPU is asked.
    """

    name: str
    major: int
    minors: range
    text: str
    num_sms: int

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Return whether devices of compute ``capability`` belong to it."""
        return capability[0] == self.major and capability[1] in self.minors

    @property
    def cubin(self) -> tuple[int, int]:
        """Capability that a compiled kernel's binary is for."""
        return self.major, 0


ARCHITECTURES: Final = {
    SM100A: Architecture(
        SM100A, 10, range(10), "compute capability 10.x (Blackwell: B200, GB200, B300)", SM_COUNT
    ),
    SM90A: Architecture(
        SM90A, 9, range(1), "compute capability 9.0 (Hopper: H100, H200, GH200)", 132
    ),
}
"""By name; the first is that of tensors on the cpu, unless a call names another."""


def architecture_of(capability: tuple[int, int]) -> str | None:
    """Return the name of the architecture of devices of ``capability``, or None."""
    known = ARCHITECTURES.values()
    return next((arch.name for arch in known if arch.runs_on(capability)), None)
