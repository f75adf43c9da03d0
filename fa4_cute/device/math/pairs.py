"""``PairMath``: arithmetic of two floats at once, packed where the device has it.

Results are the same either way: every operation rounds to nearest once, and flushes subnormals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cutlass import Float32

from . import arith
from .arith import F32x2

Operation = Callable[..., F32x2]


@dataclass(frozen=True)
class PairMath:
    """Sums, products and fused sums of products of pairs of floats."""

    add: Operation
    mul: Operation
    fma: Operation

    @classmethod
    def of(cls, *, packed: bool) -> PairMath:
        """Return the operations of a device with packed floats, or without."""
        return PACKED if packed else SINGLE


def both(value: Float32 | float) -> F32x2:
    """Return a pair with ``value`` in both halves."""
    return Float32(value), Float32(value)


def halves(operation: Callable[..., Any], *pairs: F32x2) -> F32x2:
    """Return ``operation`` of the first halves of ``pairs``, and of the second ones."""
    low, high = (operation(*values) for values in zip(*pairs, strict=True))
    return low, high


PACKED = PairMath(arith.add2, arith.mul2, arith.fma2)
"""Two floats in a pair of registers, one instruction."""
SINGLE = PairMath(
    partial(halves, arith.add), partial(halves, arith.mul), partial(halves, arith.fma)
)
"""An instruction for each half."""
