"""The device, errors, entry points (CUDA Runtime API, "Device Management", "Error Handling")."""

from __future__ import annotations

import struct
from typing import Final

from ..api.device import MEMORY_BYTES, NAME, UUID, attribute, known_device
from ..api.entry_points import give_entry_point
from ..base.codes import description, runtime_name
from ..base.session import Session
from ..base.table import I32, U32, entry

PROPERTY_BYTES: Final = 1008
"""Of `cudaDeviceProp`, 13.0."""
_PROPERTIES: Final = {
    320: 1, 384: 16, 388: 18, 392: 19, 560: 31, 564: 32, 568: 33, 572: 34, 576: 50, 580: 35,
    584: 40, 588: 41, 592: 37, 596: 38, 600: 108, 604: 39, 608: 78, 612: 79, 616: 80, 632: 82,
    636: 83, 640: 84, 644: 85, 648: 86, 652: 88, 656: 89, 660: 90, 664: 91, 668: 95, 680: 100,
    684: 101, 688: 106, 692: 109, 704: 99, 708: 112, 712: 113, 716: 114, 720: 115, 724: 116,
    728: 117, 732: 118, 736: 119, 740: 121, 744: 125, 748: 120, 752: 129, 756: 130, 760: 131,
    764: 133, 768: 134, 772: 139, 776: 140, 780: 143, 304: 12, 308: 10, 360: 75, 364: 76,
    324: 2, 328: 3, 332: 4, 336: 5, 340: 6, 344: 7,
}  # fmt: skip
"""Attribute by the offset of a 32-bit field."""
_WIDE: Final = {296: 8, 312: 11, 352: 9, 368: 14, 376: 51, 552: 30, 624: 81, 672: 97, 696: 111}
"""The same for fields of 64 bits."""


def properties(s: Session) -> bytes:
    """A `cudaDeviceProp`; of textures, which are not modelled, it says 0."""
    raw = bytearray(PROPERTY_BYTES)
    struct.pack_into("<256s16s", raw, 0, NAME.encode(), UUID.bytes)
    struct.pack_into("<Q", raw, 288, MEMORY_BYTES)
    for offset, number in _PROPERTIES.items():
        struct.pack_into("<i", raw, offset, 0 if number == 35 else attribute(s, number))
    for offset, number in _WIDE.items():
        struct.pack_into("<Q", raw, offset, attribute(s, number))
    return bytes(raw)


@entry("cudaGetDeviceProperties")
def device_properties(s: Session, out: int, device: I32) -> None:
    """Give all properties."""
    known_device(device)
    s.program.write(out, properties(s))


@entry("cudaGetDevice")
def get_device(s: Session, out: int) -> None:
    """Give device 0."""
    s.program.put(out, "i", 0)


@entry("cudaStreamGetDevice", "cuStreamGetDevice")
def stream_device(s: Session, stream: int, out: int) -> None:
    """Give device 0."""
    s.stream(stream)
    s.program.put(out, "i", 0)


@entry("cudaSetDevice", "cudaInitDevice")
def set_device(_s: Session, device: I32) -> None:
    """Take device 0."""
    known_device(device)


@entry("cudaChooseDevice")
def choose_device(s: Session, out: int) -> None:
    """Give device 0."""
    s.program.put(out, "i", 0)


@entry("cudaGetDeviceFlags")
def device_flags(s: Session, out: int) -> None:
    """Give the flags of the primary context."""
    s.program.put(out, "I", s.primary.flags)


@entry("cudaDeviceReset")
def reset(s: Session) -> None:
    """Forget the error of a stopped launch."""
    s.fault = None
    s.last_error = 0


@entry("cudaGetLastError")
def last_error(s: Session) -> int:
    """Give the last error and forget it; that of a stopped launch stays."""
    code = s.last_error or int(s.fault or 0)
    s.last_error = int(s.fault or 0)
    return code


@entry("cudaPeekAtLastError")
def peek_error(s: Session) -> int:
    """Give the last error."""
    return s.last_error or int(s.fault or 0)


@entry("cudaGetErrorName")
def error_name(s: Session, code: U32) -> int:
    """Give the name of an error."""
    return s.text(runtime_name(code) or "unrecognized error code")


@entry("cudaGetErrorString")
def error_text(s: Session, code: U32) -> int:
    """Give an error in words."""
    return s.text(description(code) or "unrecognized error code")


@entry("cudaGetDriverEntryPointByVersion")
def entry_point(s: Session, *words: int) -> int:
    """Give a function of the driver by its name."""
    name, out, version, flags, status = words[:5]
    return give_entry_point(s, name, out, version & 0xFFFFFFFF, flags, status)


@entry("cudaGetDriverEntryPoint")
def entry_point_unversioned(s: Session, name: int, out: int, flags: int, status: int) -> int:
    """Give a function of the driver by its name."""
    return give_entry_point(s, name, out, 13000, flags, status)
