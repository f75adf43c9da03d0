"""Named spans of a one-dimensional memory, and their drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class RegionTable:
    """Regions one after the other, found by name; an empty one keeps its place."""

    regions: tuple[Region, ...]

    @classmethod
    def stacked(cls, sizes: Mapping[str, int]) -> RegionTable:
        """Return regions of these ``sizes`` from 0 on, each where the one before ends."""
        regions: list[Region] = []
        for name, size in sizes.items():
            regions.append(Region(name, regions[-1].end if regions else 0, size))
        return cls(tuple(regions))

    def __getitem__(self, name: str) -> Region:
        """Return the region called ``name``; ``KeyError`` names the known ones."""
        for region in self.regions:
            if region.name == name:
                return region
        known = ", ".join(region.name for region in self.regions)
        raise KeyError(f"no region {name!r}; regions: {known}")

    @property
    def end(self) -> int:
        """One past the last unit of the last region."""
        return self.regions[-1].end

    @property
    def present(self) -> tuple[Region, ...]:
        """The regions that are not empty."""
        return tuple(region for region in self.regions if region.size)

    def render(self, unit: str) -> str:
        """Return the non-empty regions as text, one a line."""
        return render_regions(self.present, unit)


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
