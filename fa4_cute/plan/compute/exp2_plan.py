"""Which exponentials run as a polynomial on the FMA pipe instead of the MUFU.

A softmax thread turns BN scores into ``BN / 2`` f32 pairs, in batches that end where a part of P is
handed over. A share of the pairs, never in the first batch (it feeds the longest dependency chain),
computes ``2**x`` from a cubic polynomial of the fraction and an integer add on the exponent bits.

The polynomial and the selection rule are those of FlashAttention-4
(``docs/sources.md`` section 7)::

    x = max(x, -127);  r = add.rm(x, 2**23 + 2**22);  f = x - (r - (2**23 + 2**22))   in [0, 1)
    p = ((c3 f + c2) f + c1) f + 1;                   result bits = bits(p) + (bits(r) << 23)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ..config.config import FA4Config
from ..config.tuning import QUARTERS, Tuning
from .mma_plans import pv_plan

POLYNOMIAL: Final = (
    1.0,
    0.695146143436431885,
    0.227564394474029541,
    0.077119089663028717,
)
"""Coefficients of f**0 .. f**3: relative error 9e-5, less than a rounding of P."""
PRECISE_POLYNOMIAL: Final = (
    1.0,
    0.6931512951850891,
    0.24016444385051727,
    0.05579991266131401,
    0.009017030708491802,
    0.0018671300495043397,
)
"""Coefficients of f**0 .. f**5, best relative fit on [0, 1) with 1 at 0: relative error 8.3e-8."""
ROUND_MAGIC: Final = float(2**23 + 2**22)
"""Adding it with rounding toward minus infinity leaves floor(x) in the low mantissa bits."""
MIN_EXPONENT: Final = -127.0
EXPONENT_SHIFT: Final = 23
EVEN_BATCH_COLUMNS: Final = 32
"""Batch where P is handed over in halves: the halves of 64 and 192 keys divide by it, and what a
softmax thread holds of two batches at a time fits its registers."""
COPY_BATCH_COLUMNS: Final = 16
"""Batch of the few keys that a copy of the rows has: the first feeds the longest chain."""


@dataclass(frozen=True)
class Exp2Plan:
    """Pairs of one thread's row: batches, and the pairs computed by the polynomial.

    Args:
        bn: keys per tile.
        num_batches: batches of P stores; P is handed over at the start of one of them.
        num_emulated: emulated pairs; None takes 25 %.

    Raises:
        ValueError: when the batches do not divide the pairs or the count exceeds the window.
    """

    bn: int
    num_batches: int = 4
    num_emulated: int | None = None

    def __post_init__(self) -> None:
        """Refuse a split that does not come out even, and a share that does not fit."""
        if self.bn % 2 or self.num_pairs % self.num_batches:
            raise ValueError(
                f"bn={self.bn} does not divide into {self.num_batches} batches of pairs"
            )
        if not 0 <= self.count <= self.window:
            raise ValueError(
                f"num_emulated={self.num_emulated}: choose 0 to {self.window}, the pairs after "
                f"the first batch"
            )

    @classmethod
    def of(cls, config: FA4Config) -> Exp2Plan:
        """Return the plan of a configuration: quarters where P is handed over so, else 32 columns
        each. A thread has those keys of a tile that its copy of the rows has."""
        keys = config.keys_of_copy
        if config.row_copies > 1:
            return cls.of_copies(keys)
        quarters = pv_plan(config).is_in_quarters
        batches = QUARTERS if quarters else keys // EVEN_BATCH_COLUMNS
        return cls(keys, batches, config.tuning.num_emulated(keys // 2))

    @classmethod
    def of_copies(cls, keys: int) -> Exp2Plan:
        """Return the plan of a thread whose copy of a row has ``keys`` keys of a tile."""
        return cls(keys, keys // COPY_BATCH_COLUMNS)

    @property
    def num_pairs(self) -> int:
        """f32 pairs of one row."""
        return self.bn // 2

    @property
    def batch_pairs(self) -> int:
        """Pairs per batch."""
        return self.num_pairs // self.num_batches

    @property
    def window(self) -> int:
        """Pairs that may be emulated: all but the first batch."""
        return self.num_pairs - self.batch_pairs

    @property
    def count(self) -> int:
        """Emulated pairs."""
        if self.num_emulated is not None:
            return self.num_emulated
        return Tuning().num_emulated(self.num_pairs)

    @cached_property
    def emulated_pairs(self) -> frozenset[int]:
        """Indices of the emulated pairs: stride floor(window / count), then one more.

        The longer strides come last, as many as make the count exact.
        """
        if self.count == 0:
            return frozenset()
        stride, longer = divmod(self.window, self.count)
        pairs = []
        pair = self.batch_pairs
        for i in range(self.count):
            pairs.append(pair)
            pair += stride + (1 if i >= self.count - longer else 0)
        return frozenset(pairs)

    def is_emulated(self, pair: int) -> bool:
        """Whether ``pair`` (0-based within the row) runs as a polynomial."""
        return pair in self.emulated_pairs


def is_cap_emulated(group: int) -> bool:
    """Return whether half of the powers in a group of softcapped scores run as a polynomial.

    Those of every second group. A softcap has an exponential and a quarter of a reciprocal for each
    score, and no polynomial besides; so the special-function unit ends where the rest does.
    """
    return group % 2 == 1
