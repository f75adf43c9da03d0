"""Interval arithmetic on registers."""

import cutlass
from cutlass import Int32

from ..plan.masks.masks import Arithmetic

DEVICE = Arithmetic(
    lambda a, b: cutlass.min(Int32(a), Int32(b)),
    lambda a, b: cutlass.max(Int32(a), Int32(b)),
    lambda condition, then, otherwise: Int32(
        cutlass.select_(condition, Int32(then), Int32(otherwise))
    ),
)
"""The interval arithmetic of ``plan.masks.masks`` on registers."""
