"""Profiles as plain data, for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .comparison import Comparison, Difference
from .held import held, held_ratios
from .kernel_profile import KernelProfile
from .roles import Role

PLAIN = (
    "kernel", "chip", "compiler", "grid", "block", "cluster", "clock_mhz", "cycles", "draws",
    "seed", "cold", "copies", "waves", "taken", "launches", "limit", "doubts",
)  # fmt: skip
TABLES = ("uses", "roles", "steps", "handovers", "path_spots", "sass", "ptx", "source")


def profile_document(found: KernelProfile) -> dict[str, Any]:
    """Return a profile without the run behind it."""
    plain = {name: getattr(found, name) for name in PLAIN}
    error = held(multiplies=found.multiplies)
    return {
        **plain,
        "band": asdict(found.band),
        "with_error": error.widened(found.cycles, found.band),
        "held": asdict(error),
        "launch": None if found.launch is None else asdict(found.launch.band),
        "occupancy": asdict(found.occupancy),
        "tensor_arithmetic": found.arithmetic,
        "operations": dict(found.operations),
        "l1": dict(zip(("asked", "answered"), found.detail.l1, strict=True)),
        **{name: [asdict(one) for one in getattr(found, name)] for name in TABLES},
    }


def comparison_document(found: Comparison) -> dict[str, Any]:
    """Return a comparison without its profiles."""

    def rows(differences: tuple[Difference, ...]) -> list[dict[str, Any]]:
        return [{**asdict(one), "cycles": one.cycles} for one in differences]

    def names(roles: tuple[Role, ...]) -> list[str]:
        return [role.name for role in roles]

    return {
        "first": found.first.kernel,
        "second": found.second.kernel,
        "cycles": found.cycles,
        "ratio": asdict(found.ratio),
        "held": asdict(held_ratios(found.first.chip)),
        "resources": rows(found.resources),
        "path": rows(found.path),
        "roles": rows(found.roles),
        "pairs": [
            {"job": pair.job, "first": names(pair.first), "second": names(pair.second)}
            for pair in found.pairs
        ],
    }
