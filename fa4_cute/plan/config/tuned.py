"""Free choices that the timing model prefers: ``benchmarks.tune`` writes them.

The first row that holds a kernel is taken; a kernel that none holds has the defaults of ``Tuning``.
"""

from __future__ import annotations

from typing import Final

from .tuning import TunedRow, Tuning

TUNED: Final[tuple[TunedRow, ...]] = (
    TunedRow("2q", 2, 64, 64,
             Tuning(emulated=24, keys=128, crosses=True)),
    TunedRow("2q", 2, 96, 96,
             Tuning(emulated=20, crosses=True)),
    TunedRow("2q", 2, 128, 128,
             Tuning(emulated=20, crosses=True)),
    TunedRow("2q", 2, 192, 128,
             Tuning(crosses=True)),
    TunedRow("2q", 1, 64, 64,
             Tuning(emulated=24, keys=128, crosses=True)),
    TunedRow("2q", 1, 96, 96,
             Tuning(emulated=24, crosses=True)),
    TunedRow("2q", 1, 128, 128,
             Tuning(emulated=24, crosses=True)),
    TunedRow("2q", 1, 192, 128,
             Tuning(emulated=24, crosses=True)),
    TunedRow("1q", 2, 64, 64,
             Tuning(emulated=20, keys=128)),
    TunedRow("1q", 1, 64, 64,
             Tuning(emulated=24, keys=128)),
    TunedRow("1q", 2, 128, 128,
             Tuning()),
    TunedRow("pair", 2, 256, 256,
             Tuning()),
    TunedRow("pair", 2, 512, 512,
             Tuning()),
    TunedRow("pair", 1, 256, 256,
             Tuning(emulated=28)),
    TunedRow("pair", 1, 512, 512,
             Tuning()),
)  # fmt: skip
