"""What memory alone takes, asked of torch's reads, writes and copies: no GPU needed.

    python -m benchmarks.timing.judges.streams

The flush in front leaves the L2 full of written lines. The machine lets them go first: each line
that comes drives one out. Here lines go by chance, whichever they are: of what comes, a share of
what is dirty then is written. How many there are and how soon they are gone is told by reads,
writes tell what writing takes, and copies are not used: they are what is predicted. No kernel that
judges the machine is either.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Final

import numpy as np

MEASURED: Final = Path(__file__).parents[1] / "h200_cycles.json"
RANGE: Final = np.arange(20.0, 121.0)
"""MiB that may come until of the dirty lines one in e is left."""
LARGE: Final = 256
"""MiB of a write from which on its rate is told."""
Streams = dict[str, dict[int, float]]


@dataclass(frozen=True)
class Memory:
    """What reads and writes tell.

    Attributes:
        read, write: cycles of a MiB. dirty: MiB of written lines at the beginning.
        gone: MiB that come until of the dirty lines one in e is left.
        begin: cycles besides, of a write.
    """

    read: float
    write: float
    dirty: float
    gone: float
    begin: float

    def cycles(self, read: float, written: float) -> float:
        """What a launch takes that reads and writes so many MiB at once, and nothing else."""
        moved = read + written
        steady = self.gone * written / moved
        more = (self.dirty - steady) * (1 - exp(-moved / self.gone))
        return self.begin + self.read * read + self.write * (written + more)


def streams(path: Path = MEASURED) -> Streams:
    """Cycles of torch's kernels: what it does, MiB of a tensor, cycles."""
    found: Streams = {}
    for row in json.loads(path.read_text())["rows"]:
        if row["runner"] == "torch":
            what, _, size, _ = row["name"].split()
            found.setdefault(what, {})[int(size)] = row["cycles"]
    return found


def told(measured: Streams) -> Memory:
    """Fit reads and writes; what torch's sum takes besides is not memory's and is left out."""
    sizes, cycles = np.array(sorted(measured["write"].items()), float).T
    large = sizes >= LARGE
    write = float(np.polyfit(sizes[large], cycles[large], 1)[0])
    begin = float((cycles - write * sizes).mean())
    sizes, cycles = np.array(sorted(measured["read"].items()), float).T
    best = None
    for gone in RANGE:
        terms = np.stack([np.ones_like(sizes), sizes, 1 - np.exp(-sizes / gone)], 1)
        # Each size counts by its own cycles, lest the largest decide.
        found = np.linalg.lstsq(terms / cycles[:, None], np.ones_like(cycles), rcond=None)[0]
        error = float(((terms @ found / cycles - 1) ** 2).sum())
        if best is None or error < best[0]:
            best = (error, Memory(found[1], write, found[2] / write, float(gone), begin))
    assert best is not None
    return best[1]


def main() -> None:
    """Print what is told, and copies beside it."""
    measured = streams()
    memory = told(measured)
    print(memory)
    for size, cycles in sorted(measured["copy"].items()):
        found = memory.cycles(size, size)
        print(f"copy of {size} MiB: {cycles:,.0f}, told {found:,.0f} ({found / cycles - 1:+.1%})")


if __name__ == "__main__":
    main()
