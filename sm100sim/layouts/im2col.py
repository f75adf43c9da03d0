"""Tensor maps of the im2col mode (PTX ISA, "Im2col Mode"; `cuTensorMapEncodeIm2col`).

The first 64 bytes are those of a tiled map whose box is one pixel's channels. How a driver writes
the rest is not known, and a program cannot ask: a tensor map is opaque. So bytes 64-99 are this
package's own: a mark, the pixels of a column, the lower and the upper corner along W, H, D. Maps
that a driver wrote have no mark and are refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .tensor_map import MAX_BOX, TensorMap, TensorMapRefused

MARK = b"im2col\x00\x01"
TAIL = struct.Struct("<8sI3i3i")
TAIL_AT = 64
MAX_PIXELS = 1024
CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""Rank -> bits of a corner, with its sign."""


@dataclass(frozen=True)
class Im2colMap:
    """One im2col tensor map; dimension 0 is C, then W, H, D as far as there are, and N.

    Attributes:
        tensor: type, address, sizes, strides, traversal strides, swizzle and fill; its box is
            (channels per pixel, 1, ...).
        lower: offset of the bounding box's first filter base from 0, along W, H, D.
        upper: offset of its last one from the tensor's last pixel, along the same.
        pixels: pixels per column, which one copy moves.
    """

    tensor: TensorMap
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    pixels: int

    def check(self) -> None:
        """Apply the rules of `cuTensorMapEncodeIm2col`.

        Raises:
            TensorMapRefused: a rule is broken, or a traversal stride along N, whose meaning no
                source says.
        """
        self.tensor.check()
        rank = self.tensor.rank
        if rank not in CORNER_BITS or not len(self.lower) == len(self.upper) == rank - 2:
            raise TensorMapRefused(f"rank {rank} of an im2col map, or corners of another rank")
        if not 1 <= self.pixels <= MAX_PIXELS:
            raise TensorMapRefused(f"{self.pixels} pixels per column are outside of 1 ... 1024")
        if self.tensor.steps[-1] != 1:
            raise TensorMapRefused("a traversal stride along N is not covered")
        limit = 1 << CORNER_BITS[rank] - 1
        spatial = zip(self.lower, self.upper, self.tensor.sizes[1:-1], strict=True)
        for lower, upper, size in spatial:
            if not (-limit <= lower < limit and -limit <= upper < limit):
                raise TensorMapRefused(f"corner {lower} or {upper} needs {CORNER_BITS[rank]} bits")
            if lower > size - 1 + upper:
                raise TensorMapRefused(f"corners {lower} and {upper} bound nothing of {size}")

    def encode(self) -> bytes:
        """The 128 bytes.

        Raises:
            TensorMapRefused: see `check`.
        """
        self.check()
        lower, upper = (corner + (0,) * (3 - len(corner)) for corner in (self.lower, self.upper))
        tail = TAIL.pack(MARK, self.pixels, *lower, *upper)
        return (self.tensor.encode()[:TAIL_AT] + tail).ljust(128, b"\0")


def pixel_box(channels: int, rank: int) -> tuple[int, ...]:
    """The box of one pixel.

    Raises:
        TensorMapRefused: more channels than a copy takes.
    """
    if not 1 <= channels <= MAX_BOX:
        raise TensorMapRefused(f"{channels} channels per pixel are outside of 1 ... 256")
    return (channels, *(1,) * (rank - 1))
