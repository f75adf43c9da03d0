"""Interval arithmetic on registers."""

import cutlass
from cutlass import Int32, Uint32

from ..plan.masks.masks import Arithmetic

DEVICE = Arithmetic(
    lambda a, b: cutlass.min(Int32(a), Int32(b)),
    lambda a, b: cutlass.max(Int32(a), Int32(b)),
    lambda condition, then, otherwise: Int32(
        cutlass.select_(condition, Int32(then), Int32(otherwise))
    ),
)
"""The interval arithmetic of ``plan.masks.masks`` on registers."""
UNSIGNED = Arithmetic(
    lambda a, b: cutlass.min(Uint32(a), Uint32(b)),
    lambda a, b: cutlass.max(Uint32(a), Uint32(b)),
    lambda condition, then, otherwise: Uint32(
        cutlass.select_(condition, Uint32(then), Uint32(otherwise))
    ),
)
"""The same of numbers without a sign, whose quotients take fewer instructions."""


def at_most(value: Int32, limit: Int32) -> Int32:
    """Return the lower of two numbers that are 0 or more; the compiler learns that it is, too.

    An index that may not be negative needs three instructions fewer for its 64-bit address.
    """
    return Int32(cutlass.min(Uint32(value), Uint32(limit)))
