"""How a fault is written down."""

from __future__ import annotations

from benchmarks.source_anchors import Fault

REMOVED = "pass"
"""What a statement becomes that is left out."""


def fault(place: str, old: str, new: str, killers: str, *, nth: int = 0, reason: str = "") -> Fault:
    """Return a fault; ``killers`` are names of probes or paths of tests, separated by blanks."""
    return Fault(place, old, new, tuple(killers.split()), reason, nth)
