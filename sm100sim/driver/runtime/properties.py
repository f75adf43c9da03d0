"""`cudaDeviceProp`, as CUDA 12 and 13 have it (`driver_types.h` of the toolkits)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..api.device import MEMORY_BYTES, NAME, UUID, attribute
from ..base.session import Session

TCC_DRIVER: Final = 35
"""Attribute of drivers for Windows."""


@dataclass(frozen=True)
class Layout:
    """Where the structure has which attribute.

    Attributes:
        size: bytes of the structure.
        narrow, wide: attribute by the offset of a field of 32, and of 64 bits.
    """

    size: int
    narrow: Mapping[int, int]
    wide: Mapping[int, int]


CUDA_13: Final = Layout(
    1008,
    {
        304: 12, 308: 10, 320: 1, 324: 2, 328: 3, 332: 4, 336: 5, 340: 6, 344: 7, 360: 75,
        364: 76, 384: 16, 388: 18, 392: 19, 560: 31, 564: 32, 568: 33, 572: 34, 576: 50, 580: 35,
        584: 40, 588: 41, 592: 37, 596: 38, 600: 108, 604: 39, 608: 78, 612: 79, 616: 80,
        632: 82, 636: 83, 640: 84, 644: 85, 648: 86, 652: 88, 656: 89, 660: 90, 664: 91, 668: 95,
        680: 100, 684: 101, 688: 106, 692: 109, 704: 99, 708: 112, 712: 113, 716: 114, 720: 115,
        724: 116, 728: 117, 732: 118, 736: 119, 740: 121, 744: 125, 748: 120, 752: 129, 756: 130,
        760: 131, 764: 133, 768: 134, 772: 139, 776: 140, 780: 143,
    },
    {296: 8, 312: 11, 352: 9, 368: 14, 376: 51, 552: 30, 624: 81, 672: 97, 696: 111},
)  # fmt: skip
CUDA_12: Final = Layout(
    1032,
    {
        304: 12, 308: 10, 320: 1, 324: 2, 328: 3, 332: 4, 336: 5, 340: 6, 344: 7, 348: 13,
        360: 75, 364: 76, 384: 15, 388: 16, 392: 17, 396: 18, 400: 19, 404: 20, 576: 31, 580: 32,
        584: 33, 588: 34, 592: 50, 596: 35, 600: 40, 604: 41, 608: 36, 612: 37, 616: 38,
        620: 108, 624: 39, 628: 78, 632: 79, 636: 80, 648: 82, 652: 83, 656: 84, 660: 85,
        664: 86, 668: 87, 672: 88, 676: 89, 680: 90, 684: 91, 688: 95, 692: 96, 704: 100,
        708: 101, 712: 106, 716: 109, 728: 99, 732: 112, 736: 113, 740: 114, 744: 115, 748: 116,
        752: 117, 756: 118, 760: 119, 764: 121, 768: 125, 772: 120, 776: 129,
    },
    {296: 8, 312: 11, 352: 9, 368: 14, 376: 51, 568: 30, 640: 81, 696: 97, 720: 111},
)  # fmt: skip


def properties(s: Session, layout: Layout) -> bytes:
    """The structure; sizes of textures, which `cudaDeviceGetAttribute` knows, are 0 in it."""
    raw = bytearray(layout.size)
    struct.pack_into("<256s16s", raw, 0, NAME.encode(), UUID.bytes)
    struct.pack_into("<Q", raw, 288, MEMORY_BYTES)
    for offset, number in layout.narrow.items():
        struct.pack_into("<i", raw, offset, 0 if number == TCC_DRIVER else attribute(s, number))
    for offset, number in layout.wide.items():
        struct.pack_into("<Q", raw, offset, attribute(s, number))
    return bytes(raw)
