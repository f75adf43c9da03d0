"""The 128-byte tensor map of the tiled mode, and where a box's elements lie.

Bit layout: decoded from descriptors that a real driver wrote (580.159 on H200), one field at a
time;
argument rules: CUDA driver API, `cuTensorMapEncodeTiled`.  Bytes 64-127 belong to the driver.

     0-7   global address          28-29 four nibbles: bits 36-39 of the strides
     8-11  flags                   32-51 five u32: size of each dimension - 1
    12-27  four u32: stride >> 4   52-53 five 3-bit fields: element stride - 1
                                   55-59 five bytes: box size - 1
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

from .swizzle import TmaSwizzle

ELEMENT_TYPES: dict[str, tuple[int, int]] = {
    "UINT8": (0, 8), "UINT16": (1, 16), "UINT32": (2, 32), "INT32": (3, 32), "UINT64": (4, 64),
    "INT64": (5, 64), "FLOAT16": (6, 16), "FLOAT32": (7, 32), "FLOAT64": (9, 64),
    "BFLOAT16": (10, 16), "FLOAT32_FTZ": (8, 32), "TFLOAT32": (7, 32), "TFLOAT32_FTZ": (8, 32),
    "16U4_ALIGN8B": (11, 4), "16U4_ALIGN16B": (12, 4), "16U6_ALIGN16B": (13, 6),
}  # fmt: skip
"""Type name of the driver API -> (code in the descriptor, bits).

The code of 16U4_ALIGN8B is the one that CuTe DSL 4.8.1 writes for packed FP4 tensors; those of the
two after it, with gaps in shared memory, are taken to follow as in `tensormap.replace`."""
PADDED_ELEMENTS = 128
"""Elements of a box of a type with gaps, and what divides a tensor's."""

TF32_TYPES = ("TFLOAT32", "TFLOAT32_FTZ")
FLAG_DSL = 1 << 1
"""Set by the inline encoder of CuTe DSL 4.8.1 for sm_100a; meaning unknown, ignored here."""
FLAG_LARGE = 1 << 21
"""Set by the same encoder when the tensor spans 128 KiB or more; clear in a driver's
descriptors."""
FLAG_NAN_FILL, FLAG_TF32 = 1 << 15, 1 << 16
FLAG_ATOM32 = 1 << 19
"""128-byte swizzle with 32-byte atoms: set by the same encoder for MN_SW128_32B layouts."""
MAX_RANK, MAX_BOX, MAX_ELEMENT_STRIDE, MAX_SIZE, MAX_STRIDE = 5, 256, 8, 2**32, 2**40
MAX_BOX_BYTES = 232448
"""Shared memory of a CTA; the driver counts box // element stride elements per dimension."""


class TensorMapRefused(ValueError):
    """Arguments that `cuTensorMapEncodeTiled` refuses; the message names the rule."""


@dataclass(frozen=True)
class TensorMap:
    """One tensor map; dimension 0 is innermost.

    Attributes:
        element: type name of the driver API, e.g. "BFLOAT16".
        address: global address.
        sizes: elements of each dimension.
        strides: bytes from one element of dimension 1, 2, ... to the next.
        box, element_strides: of each dimension; the element stride of dimension 0 is not used.
        l2: L2 promotion, 0 to 3, without effect on values.
    """

    element: str
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: TmaSwizzle = TmaSwizzle.NONE
    l2: int = 0
    nan_fill: bool = False

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element; 0 for the packed 4-bit type."""
        return ELEMENT_TYPES[self.element][1] // 8

    def _row_bytes(self, elements: int) -> int:
        return elements * ELEMENT_TYPES[self.element][1] // 8

    @property
    def steps(self) -> tuple[int, ...]:
        """Element stride of each dimension, 1 where none was given."""
        return self.element_strides or (1,) * self.rank

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of the box that are copied along each dimension."""
        outer = zip(self.box[1:], self.steps[1:], strict=True)
        return (self.box[0], *(-(-box // step) for box, step in outer))

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy moves, and that a load completes at its mbarrier."""
        return self._row_bytes(prod(self.counts))

    def check(self) -> None:
        """Apply the rules of `cuTensorMapEncodeTiled`.

        Raises:
            TensorMapRefused: a rule is broken.
        """
        if self.element not in ELEMENT_TYPES:
            raise TensorMapRefused(f"element type {self.element} is unknown")
        shapes = ((*self.strides, 0), self.box, self.steps)
        if not 1 <= self.rank <= MAX_RANK or any(len(x) != self.rank for x in shapes):
            raise TensorMapRefused(f"rank {self.rank}, or a field of another rank")
        self._check_tensor()
        self._check_box()
        if self.element.endswith("ALIGN16B"):
            self._check_padded()

    def _check_tensor(self) -> None:
        if self.address % 16:
            raise TensorMapRefused(f"address {self.address:#x} is not a multiple of 16")
        for size in self.sizes:
            if not 1 <= size <= MAX_SIZE:
                raise TensorMapRefused(f"size {size} is outside of 1 ... 2**32")
        for stride in self.strides:
            if stride % 16 or not 0 <= stride < MAX_STRIDE:
                raise TensorMapRefused(f"stride {stride} is not a multiple of 16 below 2**40")
        if self.nan_fill and "FLOAT" not in self.element:
            raise TensorMapRefused(f"NaN fill needs a float type, not {self.element}")

    def _check_padded(self) -> None:
        """`cuTensorMapEncodeTiled`, of CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B and _16U6_ALIGN16B."""
        if self.sizes[0] % PADDED_ELEMENTS or self.box[0] != PADDED_ELEMENTS:
            raise TensorMapRefused(f"{self.element}: dimension 0 in boxes of {PADDED_ELEMENTS}")
        if self.address % 32 or any(stride % 32 for stride in self.strides):
            raise TensorMapRefused(f"{self.element}: address and strides are multiples of 32")
        if self.swizzle not in (TmaSwizzle.NONE, TmaSwizzle.B128):
            raise TensorMapRefused(f"{self.element}: no swizzle, or that of 128 bytes")

    def _check_box(self) -> None:
        for box, step in zip(self.box, self.steps, strict=True):
            if not 1 <= box <= MAX_BOX or not 1 <= step <= MAX_ELEMENT_STRIDE:
                raise TensorMapRefused(f"box {box} or element stride {step} is out of range")
        inner = self._row_bytes(self.box[0])
        if inner % 16:
            raise TensorMapRefused(f"inner box of {inner} bytes is not a multiple of 16")
        if self.swizzle.span and inner > self.swizzle.span:
            raise TensorMapRefused(
                f"inner box of {inner} bytes exceeds the {self.swizzle.name} span"
            )
        counted = prod(box // step for box, step in zip(self.box, self.steps, strict=True))
        if self._row_bytes(counted) > MAX_BOX_BYTES:
            raise TensorMapRefused(f"box of {self._row_bytes(counted)} bytes exceeds shared memory")

    def encode(self) -> bytes:
        """The descriptor, bytes 64-127 zero.

        Raises:
            TensorMapRefused: see `check`.
        """
        self.check()
        atom32 = self.swizzle == TmaSwizzle.B128_ATOM32
        mode = TmaSwizzle.B128 | FLAG_ATOM32 >> 13 if atom32 else self.swizzle
        flags = self.rank - 1 << 4 | ELEMENT_TYPES[self.element][0] << 7 | mode << 13
        flags |= (
            FLAG_NAN_FILL * self.nan_fill | FLAG_TF32 * (self.element in TF32_TYPES) | self.l2 << 17
        )
        strides = self.strides + (0,) * (MAX_RANK - 1 - len(self.strides))
        sizes = [size - 1 for size in self.sizes] + [0] * (MAX_RANK - self.rank)
        high = sum((stride >> 36) << 4 * k for k, stride in enumerate(strides))
        steps = sum(step - 1 << 3 * k for k, step in enumerate(self.steps))
        box = bytes(b - 1 for b in self.box).ljust(MAX_RANK, b"\0")
        low = [stride >> 4 & 0xFFFFFFFF for stride in strides]
        head = struct.pack("<QI4IH2x5IHx5s", self.address, flags, *low, high, *sizes, steps, box)
        return head.ljust(128, b"\0")

    @classmethod
    def decode(cls, raw: bytes) -> TensorMap:
        """The tensor map of a 128-byte descriptor.

        Raises:
            ValueError: a field has a code of unknown meaning.
        """
        address, flags, *rest = struct.unpack_from("<QI4IH2x5IHx5s", raw)
        low, high, sizes, steps, box = rest[:4], rest[4], rest[5:10], rest[10], rest[11]
        rank = (flags >> 4 & 7) + 1
        known = FLAG_DSL | FLAG_LARGE | 7 << 4 | 15 << 7 | 3 << 13 | FLAG_NAN_FILL | FLAG_TF32
        known |= 3 << 17
        swizzle = TmaSwizzle(flags >> 13 & 3)
        if swizzle == TmaSwizzle.B128 and flags & FLAG_ATOM32:
            flags, swizzle = flags & ~FLAG_ATOM32, TmaSwizzle.B128_ATOM32
        names = [
            name for name, (code, _) in ELEMENT_TYPES.items()
            if code == flags >> 7 & 15 and (name in TF32_TYPES) == bool(flags & FLAG_TF32)
        ]  # fmt: skip
        if flags & ~known or rank > MAX_RANK or not names:
            raise ValueError(f"flag word {flags:#x} has a code of unknown meaning")
        strides = [(value | (high >> 4 * k & 15) << 32) << 4 for k, value in enumerate(low)]
        return cls(
            element=names[0],
            address=address,
            sizes=tuple(size + 1 for size in sizes[:rank]),
            strides=tuple(strides[: rank - 1]),
            box=tuple(b + 1 for b in box[:rank]),
            element_strides=tuple((steps >> 3 * k & 7) + 1 for k in range(rank)),
            swizzle=swizzle,
            l2=flags >> 17 & 3,
            nan_fill=bool(flags & FLAG_NAN_FILL),
        )
