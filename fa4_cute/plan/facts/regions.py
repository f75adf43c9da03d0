"""Named spans of a one-dimensional memory, and their drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_BAR = 28


@dataclass(frozen=True)
class Region:
    """``size`` units of memory from ``start``."""

    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        """One past the last unit."""
        return self.start + self.size

    def overlaps(self, other: Region) -> bool:
        """Whether the two spans share a unit."""
        return self.start < other.end and other.start < self.end


def render_regions(regions: Sequence[Region], unit: str) -> str:
    """Return one line per region: span, size, a bar in proportion, name."""
    total = max(region.end for region in regions)
    lines = []
    for region in regions:
        left = region.start * _BAR // total
        bar = " " * left + "#" * max(1, region.size * _BAR // total)
        lines.append(
            f"{region.start:>7} .. {region.end:>7}  {region.size:>7} {unit}  "
            f"|{bar:<{_BAR}.{_BAR}}|  {region.name}"
        )
    return "\n".join(lines)
