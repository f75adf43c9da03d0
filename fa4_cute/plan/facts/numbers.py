"""Factors between natural and binary logarithms."""

from __future__ import annotations

import math
from typing import Final

LOG2_E: Final = math.log2(math.e)
"""Times this, a natural logarithm is a binary one."""
LN_2: Final = math.log(2.0)
"""Times this, a binary logarithm is a natural one."""
