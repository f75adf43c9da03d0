"""Free choices that the timing model prefers; written by ``python -m benchmarks.tune --write``.

The first row that holds a kernel is taken; a kernel that none holds, and a CTA pair, has the
defaults of ``Tuning``.
"""

from __future__ import annotations

from typing import Final

from .tuning import TunedRow

TUNED: Final[tuple[TunedRow, ...]] = ()
