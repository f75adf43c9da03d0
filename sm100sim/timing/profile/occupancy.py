"""Occupancy: how many CTAs an SM holds, and what keeps it from holding more."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..chips import Draw
from ..model.residency import THREADS_PER_WARP, limits
from ..predict.gpu import resident_ctas
from ..records import LaunchTrace


@dataclass(frozen=True)
class Occupancy:
    """How full an SM is.

    Attributes:
        ctas: of an SM. warps: of them together; places: for warps that an SM has.
        registers: of a thread at its start. shared_bytes: of a CTA.
        bound_by: "registers", "shared memory", "warps" or "CTAs".
    """

    ctas: int
    warps: int
    places: int
    registers: int
    shared_bytes: int
    bound_by: str

    @property
    def share(self) -> float:
        """Warps over places."""
        return self.warps / self.places


def occupancy(launch: LaunchTrace, draw: Draw) -> Occupancy:
    """Return how full a launch makes an SM that has CTAs enough.

    Raises:
        ValueError: not even one CTA fits.
    """
    ctas = resident_ctas(launch, draw)
    warps = -(-prod(launch.block) // THREADS_PER_WARP)
    registers = max(trace.kernel.registers for trace in launch.traces)
    by = limits(warps, registers, launch.shared_bytes, draw)
    bound_by = min(by, key=lambda name: by[name])
    return Occupancy(
        ctas, ctas * warps, int(draw["max_warps"]), registers, launch.shared_bytes, bound_by
    )
