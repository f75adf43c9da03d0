"""Swizzles of tensor copies as functions on byte addresses (PTX ISA, "Swizzling Modes").

States what `tma_box.c` computes, independently of it: a swizzle exchanges chunks of 16 bytes, or of
32, by XOR of address bits, and the bits are those of the absolute shared address.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

CHUNK_BYTES = 16
"""What most swizzles move as a whole."""

LINE_BYTES = 128
"""The XOR source starts at this address bit: the index of the 128-byte line."""


class TmaSwizzle(IntEnum):
    """`CUtensorMapSwizzle` of the driver API, without the modes that no driver seen encodes."""

    NONE = 0
    B32 = 1
    B64 = 2
    B128 = 3
    B128_ATOM32 = 4
    """128-byte lines whose 32-byte chunks change places (sm_100)."""

    @property
    def chunk(self) -> int:
        """Bytes that move as a whole."""
        return 32 if self == TmaSwizzle.B128_ATOM32 else CHUNK_BYTES

    @property
    def span(self) -> int:
        """Widest row of a box in bytes; 0 when there is no limit."""
        return 0 if self == TmaSwizzle.NONE else min(CHUNK_BYTES << self, LINE_BYTES)

    def apply(self, address: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Physical byte addresses of linear ones.

        Args:
            address: absolute shared addresses (any shape).
        """
        chunk, line = address // self.chunk, address // LINE_BYTES
        places = max(self.span // self.chunk, 1)
        return (chunk ^ line % places) * self.chunk + address % self.chunk
