"""The 64-bit shared-memory matrix descriptor of tcgen05.mma and tcgen05.cp.

States PTX ISA "Shared memory descriptor" and "Canonical layouts" as nested shape/stride tables; the
engine states the same facts as closed formulas, and the tests compare the two.

    bits  0-13  start address >> 4        46-48  constant 0b001
         16-29  LBO >> 4                  49-51  base offset
         32-45  SBO >> 4                  52     LBO mode        61-63  swizzle
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

ADDRESS_BITS = 18
"""Shared addresses are taken modulo 2^18."""

UNIT_BITS = 128
"""All layouts are built from units of 16 bytes."""


class Swizzle(IntEnum):
    """Swizzle mode, bits 61-63: codes 3, 5 and 7 do not exist."""

    NONE = 0
    B128_ATOM32 = 1
    B128 = 2
    B64 = 4
    B32 = 6

    @property
    def parameters(self) -> tuple[int, int, int]:
        """(B, M, S): XOR the B address bits at position M with those at position M + S."""
        return _SWIZZLE[self]

    @property
    def span(self) -> int:
        """Bytes that are contiguous along the major direction before the next row begins."""
        return _SPAN[self]

    def apply(self, address: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Physical byte addresses of linear ones; the XOR source is the absolute address."""
        bits, base, shift = self.parameters
        return address ^ ((address >> (base + shift) & ((1 << bits) - 1)) << base)


_SWIZZLE = {
    Swizzle.NONE: (0, 4, 3), Swizzle.B32: (1, 4, 3), Swizzle.B64: (2, 4, 3),
    Swizzle.B128: (3, 4, 3), Swizzle.B128_ATOM32: (2, 5, 2),
}  # fmt: skip
_SPAN = {
    Swizzle.NONE: 16, Swizzle.B32: 32, Swizzle.B64: 64, Swizzle.B128: 128, Swizzle.B128_ATOM32: 128,
}  # fmt: skip

_FIELDS = {"start": (0, 14), "lbo": (16, 14), "sbo": (32, 14)}
_RESERVED = ((14, 2), (30, 2), (53, 8))


def _field(word: int, low: int, width: int) -> int:
    return word >> low & ((1 << width) - 1)


@dataclass(frozen=True)
class SmemDescriptor:
    """A matrix in shared memory.

    Attributes:
        start: byte offset of the first element in the CTA's shared window.
        lbo, sbo: leading and stride dimension byte offsets.
        swizzle: address swizzle.

    Raises:
        ValueError: an address or offset is not a multiple of 16 below 2^18.
    """

    start: int
    lbo: int = 0
    sbo: int = 0
    swizzle: Swizzle = Swizzle.NONE

    def __post_init__(self) -> None:
        """Refuse addresses that the fields cannot hold."""
        for name in _FIELDS:
            value = getattr(self, name)
            if value % 16 or not 0 <= value < 1 << ADDRESS_BITS:
                raise ValueError(f"{name} = {value} is not a multiple of 16 below 2^{ADDRESS_BITS}")

    def encode(self) -> int:
        """The 64-bit word."""
        word = 1 << 46 | self.swizzle << 61
        for name, (low, _) in _FIELDS.items():
            word |= getattr(self, name) >> 4 << low
        return word

    @staticmethod
    def decode(word: int) -> SmemDescriptor:
        """Read a descriptor.

        Raises:
            ValueError: reserved bits, constant, base offset, LBO mode or swizzle code are illegal.
        """
        if any(_field(word, *bits) for bits in _RESERVED):
            raise ValueError(f"descriptor {word:#x}: reserved bits are not 0")
        if _field(word, 46, 3) != 1:
            raise ValueError(f"descriptor {word:#x}: bits 46-48 are not 0b001")
        if _field(word, 49, 3):
            raise ValueError(f"descriptor {word:#x}: base offset is not 0")
        if _field(word, 52, 1):
            raise ValueError(f"descriptor {word:#x}: absolute LBO mode does not exist on sm_100a")
        code = _field(word, 61, 3)
        if code in (3, 5, 7):
            raise ValueError(f"descriptor {word:#x}: swizzle code {code} does not exist")
        values = {name: _field(word, *bits) << 4 for name, bits in _FIELDS.items()}
        return SmemDescriptor(**values, swizzle=Swizzle(code))

    def bit_addresses(
        self, *, mn_major: bool, element_bits: int, rows: int, k: int
    ) -> npt.NDArray[np.int64]:
        """Physical bit address of every element of an operand of one MMA.

        Args:
            mn_major: the transpose bit of the instruction descriptor.
            element_bits: width of an element's container: 4, 8, 16 or 32.
            rows: rows of A or columns of B that this CTA supplies.
            k: elements along K.

        Returns:
            int64 array [rows, k] of 8 * byte address + bit.
        """
        per_unit = UNIT_BITS // element_bits
        mn, kk = np.meshgrid(np.arange(rows), np.arange(k), indexing="ij")
        row_layout, k_layout = self._canonical(mn_major)
        major, minor = (mn, kk) if mn_major else (kk, mn)
        if mn_major:
            units = _evaluate(row_layout, major // per_unit) + _evaluate(k_layout, minor)
        else:
            units = _evaluate(row_layout, minor) + _evaluate(k_layout, major // per_unit)
        bit = major % per_unit * element_bits
        byte = self.swizzle.apply(self.start + units + bit // 8)
        return byte * 8 + bit % 8

    def _canonical(self, mn_major: bool) -> tuple[_Layout, _Layout]:
        """(layout along M or N, layout along K): shapes and byte strides, first mode fastest.

        The major direction counts 16-byte units, the other one elements.
        """
        span, units = self.swizzle.span, self.swizzle.span // 16
        if not mn_major:
            second = self.lbo if self.swizzle is Swizzle.NONE else 16
            return ((8, span), (None, self.sbo)), ((None, second),)
        if self.swizzle is Swizzle.NONE:
            return ((None, self.sbo),), ((8, 16), (None, self.lbo))
        height = 4 if self.swizzle is Swizzle.B128_ATOM32 else 8
        return ((units, 16), (None, self.lbo)), ((height, span), (None, self.sbo))


_Layout = tuple[tuple[int | None, int], ...]
"""(extent, byte stride) per mode; the last extent is open."""


def _evaluate(layout: _Layout, index: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offset = np.zeros_like(index)
    for extent, stride in layout:
        if extent is None:
            return offset + index * stride
        offset = offset + index % extent * stride
        index = index // extent
    return offset
