"""Numbers that host and device agree on: limits, and factors between logarithms."""

from __future__ import annotations

import math
from typing import Any, Final

LOG2_E: Final = math.log2(math.e)
"""Times this, a natural logarithm is a binary one."""
MAX_SEQLEN: Final = 2**31 - 2**10
"""Positions are signed 32-bit numbers on the device, and the last tile may reach past the end."""
MAX_FLOAT32: Final = (2 - 2**-23) * 2.0**127
SMALLEST_NORMAL_FLOAT32: Final = 2.0**-126
LN_2: Final = math.log(2.0)
"""Times this, a binary logarithm is a natural one."""
BRIEF_CAP: Final = 256.0
"""Softcaps up to which a few float32 roundings of the cap itself are nothing to a softmax."""


def as_float(value: Any) -> float:
    """Return a real number as a float; one beyond all floats as the infinity of its sign."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
