"""Encoding of tiled TMA descriptors, as ``cuTensorMapEncodeTiled`` of the driver does it.

Argument rules: CUDA driver API, ``cuTensorMapEncodeTiled``.  Bit layout: decoded from descriptors
that a real driver wrote (580.159 on H200); bytes 64-127 are the driver's own and stay zero here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

DESCRIPTOR_BYTES = 128
TF32_FLAG = 1 << 16
NAN_FILL_FLAG = 1 << 15

ELEMENT_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("UINT8", 8, 0),
    1: ("UINT16", 16, 1),
    2: ("UINT32", 32, 2),
    3: ("INT32", 32, 3),
    4: ("UINT64", 64, 4),
    5: ("INT64", 64, 5),
    6: ("FLOAT16", 16, 6),
    7: ("FLOAT32", 32, 7),
    8: ("FLOAT64", 64, 9),
    9: ("BFLOAT16", 16, 10),
    10: ("FLOAT32_FTZ", 32, 8),
    11: ("TFLOAT32", 32, 7),
    12: ("TFLOAT32_FTZ", 32, 8),
    13: ("16U4_ALIGN8B", 4, 11),
}
"""API number -> (name, bits per element, code in the descriptor); TF32 types also set a flag.

The code of 16U4_ALIGN8B is the one that CuTe DSL 4.8.1 writes for packed FP4 tensors.
"""

FLOAT_TYPES = frozenset((6, 7, 8, 9, 10, 11, 12))
TF32_TYPES = frozenset((11, 12))
SWIZZLE_SPAN = {1: 32, 2: 64, 3: 128}


class TensorMapError(ValueError):
    """Arguments that the driver refuses."""


@dataclass(frozen=True)
class TensorMapArguments:
    """What ``cuTensorMapEncodeTiled`` is given; strides in bytes from dimension 1 on."""

    data_type: int
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    l2_promotion: int = 0
    nan_fill: int = 0


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise TensorMapError(f"cuTensorMapEncodeTiled: {what}")


def _check(a: TensorMapArguments) -> None:
    rank = len(a.sizes)
    _require(a.data_type in ELEMENT_TYPES, f"data type {a.data_type}: expected 0 to 13")
    name, element_bits, _ = ELEMENT_TYPES[a.data_type]
    _require(1 <= rank <= 5, f"rank {rank}: expected 1 to 5")
    _require(a.interleave == 0, f"interleave {a.interleave}: only 0 (none) is modelled")
    _require(a.swizzle in {0, 1, 2, 3}, f"swizzle {a.swizzle}: only 0 to 3 have a known code")
    _require(a.address % 16 == 0, f"address {a.address:#x}: expected a multiple of 16")
    for k, size in enumerate(a.sizes):
        _require(1 <= size <= 2**32, f"size {size} of dimension {k}: expected 1 to 2**32")
    for k, stride in enumerate(a.strides, 1):
        legal = stride % 16 == 0 and 0 <= stride < 2**40
        _require(legal, f"stride {stride} of dimension {k}: expected a multiple of 16 below 2**40")
    for k, (box, step) in enumerate(zip(a.box, a.element_strides, strict=True)):
        _require(1 <= box <= 256, f"box {box} of dimension {k}: expected 1 to 256")
        _require(1 <= step <= 8, f"element stride {step} of dimension {k}: expected 1 to 8")
    inner = a.box[0] * element_bits // 8
    _require(inner % 16 == 0, f"inner box of {inner} bytes: expected a multiple of 16")
    span = SWIZZLE_SPAN.get(a.swizzle, inner)
    _require(inner <= span, f"inner box of {inner} bytes exceeds the swizzle's span of {span}")
    legal_fill = a.nan_fill == 0 or (a.nan_fill == 1 and a.data_type in FLOAT_TYPES)
    _require(legal_fill, f"out-of-bounds fill {a.nan_fill} with type {name}")
    _require(0 <= a.l2_promotion <= 3, f"L2 promotion {a.l2_promotion}: expected 0 to 3")


def encode_tiled(a: TensorMapArguments) -> bytes:
    """The 128-byte descriptor.

    Raises:
        TensorMapError: arguments that the driver refuses, or whose encoding is not known.
    """
    _check(a)
    rank = len(a.sizes)
    flags = (rank - 1) << 4 | ELEMENT_TYPES[a.data_type][2] << 7 | a.swizzle << 13
    flags |= (NAN_FILL_FLAG if a.nan_fill else 0) | a.l2_promotion << 17
    flags |= TF32_FLAG if a.data_type in TF32_TYPES else 0
    out = bytearray(DESCRIPTOR_BYTES)
    struct.pack_into("<QI", out, 0, a.address, flags)
    high_nibbles = 0
    for k, stride in enumerate(a.strides):
        struct.pack_into("<I", out, 12 + 4 * k, stride >> 4 & 0xFFFFFFFF)
        high_nibbles |= stride >> 36 << 4 * k
    struct.pack_into("<H", out, 28, high_nibbles)
    for k, size in enumerate(a.sizes):
        struct.pack_into("<I", out, 32 + 4 * k, size - 1)
    steps = sum(step - 1 << 3 * k for k, step in enumerate(a.element_strides))
    struct.pack_into("<H", out, 52, steps)
    out[55 : 55 + rank] = bytes(box - 1 for box in a.box)
    return bytes(out)
