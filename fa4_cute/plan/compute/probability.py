"""How P is stored: element type, lift and rescale threshold of the unnormalised probabilities.

A row keeps its old maximum until the new one exceeds it by more than ``2**-threshold``, so P is at
most ``2**(lift - threshold)``. The lift is added to the exponent of every probability and so to the
row sum: it cancels in O and is subtracted from the log-sum-exp.

=======  =========  ====  =========  =========================================================
type     threshold  lift  largest P  reason
=======  =========  ====  =========  =========================================================
16 bits  -8         0     256        the exponent range leaves room on both sides
e4m3     -2         6     256        448 is the largest number, and unlifted tails below 2**-10
                                     of the maximum would vanish
=======  =========  ====  =========  =========================================================

Source: ``docs/sources.md`` section 7.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..facts.dtypes import DType
from ..facts.hardware import TMEM_COLUMN_BYTES


@dataclass(frozen=True)
class ProbabilityPlan:
    """Format of P in front of P V.

    Args:
        dtype: element type, that of V.
        threshold: log2 of (old maximum / new maximum) below which O is rescaled; negative.
        lift: power of two that every probability is multiplied by.
        largest_product: scaled maximum from which on its rounding, up to 2**-24 of it, would
            carry P out of its type.
    """

    dtype: DType
    threshold: float
    lift: float
    largest_product: float

    @classmethod
    def of(cls, dtype: DType) -> ProbabilityPlan:
        """Return the format that goes with operands of ``dtype``."""
        if dtype is DType.FP8_E4M3:
            return cls(dtype, threshold=-2.0, lift=6.0, largest_product=2.0**25)
        return cls(dtype, threshold=-8.0, lift=0.0, largest_product=2.0**28)

    def column(self, key: int) -> int:
        """Return the 32-bit column of P, within its tile, that ``key`` lies in."""
        return key * self.dtype.size // TMEM_COLUMN_BYTES
