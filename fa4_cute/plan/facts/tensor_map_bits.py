"""The 128-byte TMA descriptor (tiled mode) as bits, for hosts that have no CUDA driver.

Layout, read from encodings of a real driver::

    0-7    global address             28-29  bits 36-39 of the strides, one nibble each
    8-11   flags                      32-51  size of dimension 0..4, minus 1 (unused: 0)
    12-27  stride of dimension 1..4   52-53  element stride of dimension 0..4, minus 1 (3 bits)
           in bytes, >> 4 (low 32)    55-59  box size of dimension 0..4, minus 1

Flags: bits 4-6 rank - 1, 7-10 element type, 13-14 swizzle, 15 NaN fill, 16 tf32, 17-18 L2
promotion. Bytes 64-127 belong to the driver and are zero here.

Source: ``docs/sources.md`` section 15; the arguments are those of ``cuTensorMapEncodeTiled``
(CUDA driver API).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from .hardware import TMA_ALIGN

TENSOR_MAP_BYTES: Final = 128
MAX_RANK: Final = 5
MAX_DIM: Final = 1 << 32
MAX_STRIDE: Final = 1 << 40
MAX_BOX: Final = 256
ALIGN: Final = TMA_ALIGN

ELEMENT_BYTES: Final = {
    "UINT8": 1, "UINT16": 2, "UINT32": 4, "INT32": 4, "UINT64": 8, "INT64": 8, "FLOAT16": 2,
    "FLOAT32": 4, "FLOAT64": 8, "BFLOAT16": 2, "FLOAT32_FTZ": 4, "TFLOAT32": 4, "TFLOAT32_FTZ": 4,
}  # fmt: skip
"""Element types of the API, in the order of its enumeration, with their sizes."""

_TYPE_CODES: Final = {
    "UINT8": 0, "UINT16": 1, "UINT32": 2, "INT32": 3, "UINT64": 4, "INT64": 5, "FLOAT16": 6,
    "FLOAT32": 7, "FLOAT32_FTZ": 8, "FLOAT64": 9, "BFLOAT16": 10, "TFLOAT32": 7, "TFLOAT32_FTZ": 8,
}  # fmt: skip
_TF32: Final = frozenset({"TFLOAT32", "TFLOAT32_FTZ"})
_SWIZZLES: Final = range(4)


@dataclass(frozen=True)
class TensorMapFields:
    """Arguments of one tiled encoding; dimension 0 is innermost.

    ``strides`` are bytes of dimension 1, 2, ...; ``swizzle`` and ``l2_promotion`` are the codes of
    the API (swizzle 0 none, 1 32B, 2 64B, 3 128B; promotion 0 none, 1 64B, 2 128B, 3 256B).
    """

    element_type: str
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    element_strides: tuple[int, ...] = (1, 1, 1, 1, 1)
    l2_promotion: int = 0
    nan_fill: bool = False

    def check(self) -> None:
        """Raise ValueError, naming the argument, for what no driver accepts."""
        rank = len(self.dims)
        if self.element_type not in _TYPE_CODES:
            raise ValueError(f"element_type={self.element_type!r}: known are {list(_TYPE_CODES)}")
        if not 1 <= rank <= MAX_RANK or len(self.strides) != rank - 1 or len(self.box) != rank:
            raise ValueError(
                f"rank {rank} with {len(self.strides)} strides and a {len(self.box)}-d box: "
                f"rank is 1..{MAX_RANK}, with rank - 1 strides and one box size per dimension"
            )
        if self.address % ALIGN:
            raise ValueError(f"address={self.address:#x}: it needs {ALIGN}-byte alignment")
        for axis, dim in enumerate(self.dims):
            if not 1 <= dim <= MAX_DIM:
                raise ValueError(f"dims[{axis}]={dim}: sizes are 1..{MAX_DIM}")
        for axis, stride in enumerate(self.strides, start=1):
            if stride % ALIGN or not 0 <= stride < MAX_STRIDE:
                raise ValueError(
                    f"stride of dimension {axis} is {stride} bytes: it must be a multiple of "
                    f"{ALIGN} below {MAX_STRIDE}"
                )
        for axis, size in enumerate(self.box):
            if not 1 <= size <= MAX_BOX:
                raise ValueError(f"box[{axis}]={size}: box sizes are 1..{MAX_BOX}")
        if self.swizzle not in _SWIZZLES:
            raise ValueError(f"swizzle={self.swizzle}: known codes are 0..{_SWIZZLES[-1]}")
        span = 16 << self.swizzle
        inner = self.box[0] * ELEMENT_BYTES[self.element_type]
        if inner % ALIGN or (self.swizzle and inner > span):
            raise ValueError(
                f"box[0]={self.box[0]} is {inner} bytes: it must be a multiple of {ALIGN} and, "
                f"with swizzle code {self.swizzle}, at most {span}"
            )


def encode_tensor_map(fields: TensorMapFields) -> bytes:
    """Return the 128 descriptor bytes of ``fields``.

    Raises:
        ValueError: where ``TensorMapFields.check`` does.
    """
    fields.check()
    rank = len(fields.dims)
    strides = [s >> 4 for s in fields.strides] + [0] * (MAX_RANK - rank)
    high = sum((s >> 32) << (4 * i) for i, s in enumerate(strides))
    dims = [d - 1 for d in fields.dims] + [0] * (MAX_RANK - rank)
    box = [b - 1 for b in fields.box] + [0] * (MAX_RANK - rank)
    element_strides = sum((s - 1) << (3 * i) for i, s in enumerate(fields.element_strides[:rank]))
    head = struct.pack(
        "<QI4IHH5IHB5B4x",
        fields.address,
        _flags(fields, rank),
        *(s & 0xFFFFFFFF for s in strides),
        high,
        0,
        *dims,
        element_strides,
        0,
        *box,
    )
    return head.ljust(TENSOR_MAP_BYTES, b"\0")


def _flags(fields: TensorMapFields, rank: int) -> int:
    flags = (rank - 1) << 4 | _TYPE_CODES[fields.element_type] << 7 | fields.swizzle << 13
    flags |= fields.nan_fill << 15 | (fields.element_type in _TF32) << 16
    return flags | fields.l2_promotion << 17
