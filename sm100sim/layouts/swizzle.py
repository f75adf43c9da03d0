"""Swizzles of tensor copies as functions on byte addresses (PTX ISA, "Swizzling Modes").

States what `tma_box.c` computes, independently of it: a swizzle exchanges 16-byte chunks by XOR of
address bits, and the bits are those of the absolute shared address.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

CHUNK_BYTES = 16
"""What moves as a whole."""

LINE_BYTES = 128
"""The XOR source starts at this address bit: the index of the 128-byte line."""


class TmaSwizzle(IntEnum):
    """`CUtensorMapSwizzle` of the driver API, without the modes that no driver seen encodes."""

    NONE = 0
    B32 = 1
    B64 = 2
    B128 = 3

    @property
    def span(self) -> int:
        """Widest row of a box in bytes; 0 when there is no limit."""
        return 0 if self == TmaSwizzle.NONE else CHUNK_BYTES << self

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats; a buffer aligned to it starts at phase 0."""
        return CHUNK_BYTES if self == TmaSwizzle.NONE else LINE_BYTES << self

    def apply(self, address: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Physical byte addresses of linear ones.

        Args:
            address: absolute shared addresses (any shape).
        """
        chunk, line = address // CHUNK_BYTES, address // LINE_BYTES
        return (chunk ^ line % (1 << self)) * CHUNK_BYTES + address % CHUNK_BYTES
