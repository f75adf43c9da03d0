"""The device: how many, its name, its attributes (CUDA Driver API, "Device Management")."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..base.codes import CudaError, Status
from ..base.session import Session
from ..base.table import I32, U32, entry

VERSION: Final = 13000
NAME: Final = "NVIDIA B200 (sm100sim)"
MEMORY_BYTES: Final = 180 << 30
UUID: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "sm100sim")
PCI: Final = "0000:01:00.0"
LUID_BYTES: Final = 8

_FURTHER: Final[Mapping[int, int]] = {
    9: 65536,  # bytes of constant memory
    11: 2**31 - 1,  # pitch
    13: 1_965_000,  # clock, kHz
    14: 512,  # alignment of textures
    15: 1, 17: 0, 18: 0, 19: 1, 20: 0,
    30: 512, 31: 1, 32: 1,
    33: 1, 34: 0, 50: 0,  # PCI bus, device, domain
    36: 3_996_000, 37: 8192,  # clock of the memory, kHz, and bits of its bus
    40: 4, 41: 1,  # copy engines, unified addresses
    51: 32, 78: 1, 79: 1, 80: 1, 83: 1, 84: 0, 85: 0, 86: 0, 87: 2,
    88: 0, 89: 1, 90: 1, 91: 0,  # pageable memory: no; registered memory has an address of its own
    92: 1, 93: 1, 94: 1, 96: 0, 98: 0, 99: 1, 100: 0, 101: 0,
    102: 1, 103: 0, 104: 0, 105: 0, 107: 1, 108: 79 << 20, 109: 128 << 20, 110: 0,
    112: 0, 113: 1, 114: 0, 115: 1, 116: 0, 117: 0, 118: 0, 119: 0,
    121: 0, 122: 1, 123: 1, 124: 0, 125: 0, 126: 4, 127: 1, 128: 0, 129: 1, 130: 0, 131: -1,
    132: 0, 133: 0, 134: 0, 135: 0, 136: 0, 137: 0, 138: 0, 139: 0x2901, 140: 0,
    141: 0, 142: 0, 143: 0, 144: 0, 145: 0, 146: 0, 147: 0,
}  # fmt: skip
"""By number of `CUdevice_attribute`, besides those of `DeviceModel`."""
_TEXTURES: Final[Mapping[int, int]] = {
    **dict.fromkeys((*range(44, 50), 73, 74, 77), 0),  # gathers and mipmaps are not modelled
    21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768,
    29: 2048, 42: 32768, 43: 2048, 52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072,
    57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048, 63: 32768, 64: 32768,
    65: 2048, 66: 32768, 67: 32768, 68: 2046, 69: 1 << 28, 70: 131072, 71: 65000, 72: 2097120,
}  # fmt: skip
"""Largest textures and surfaces (CUDA C++ Programming Guide, "Compute Capabilities")."""


def attribute(s: Session, number: int) -> int:
    """The value of a device attribute.

    Raises:
        CudaError: no such attribute is known.
    """
    for known in (s.device.attributes, _FURTHER, _TEXTURES):
        if number in known:
            return known[number]
    raise CudaError(Status.INVALID_VALUE, f"device attribute {number} is not known to sm100sim")


def free_bytes(s: Session) -> int:
    """Device memory that can still be allocated: no more than this machine has."""
    available = MEMORY_BYTES
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) << 10
    return max(min(MEMORY_BYTES - s.arena.used(), available), 0)


def known_device(number: int) -> None:
    """Refuse a device other than 0.

    Raises:
        CudaError: it is another.
    """
    if number != 0:
        raise CudaError(Status.INVALID_DEVICE)


@entry("cuInit")
def init(s: Session) -> None:
    """Begin."""
    s.started = True


@entry("cuDriverGetVersion", "cudaDriverGetVersion", "cudaRuntimeGetVersion")
def driver_version(s: Session, out: int) -> None:
    """Say 13.0."""
    s.program.put(out, "i", VERSION)


@entry("cuDeviceGetCount", "cudaGetDeviceCount")
def device_count(s: Session, out: int) -> None:
    """Say one."""
    s.program.put(out, "i", 1)


@entry("cuDeviceGet")
def device_get(s: Session, out: int, ordinal: I32) -> None:
    """Give the device by its number."""
    known_device(ordinal)
    s.program.put(out, "i", 0)


@entry("cuDeviceGetName")
def device_name(s: Session, out: int, length: I32, device: I32) -> None:
    """Give the name."""
    known_device(device)
    s.program.write(out, NAME.encode()[: max(length - 1, 0)] + b"\0")


@entry("cuDeviceGetUuid", "cuDeviceGetUuid_v2")
def device_uuid(s: Session, out: int, device: I32) -> None:
    """Give the identifier."""
    known_device(device)
    s.program.write(out, UUID.bytes)


@entry("cuDeviceGetLuid")
def device_luid(s: Session, out: int, mask: int, device: I32) -> None:
    """Give Windows' identifier, which is 0 elsewhere."""
    known_device(device)
    s.program.write(out, bytes(LUID_BYTES))
    s.program.put(mask, "I", 0)


@entry("cuDeviceTotalMem_v2")
def total_memory(s: Session, out: int, device: I32) -> None:
    """Give the bytes of device memory."""
    known_device(device)
    s.program.put(out, "Q", MEMORY_BYTES)


@entry("cuDeviceGetAttribute", "cudaDeviceGetAttribute")
def device_attribute(s: Session, out: int, number: I32, device: I32) -> None:
    """Give an attribute."""
    known_device(device)
    s.program.put(out, "i", attribute(s, number))


@entry("cuDeviceComputeCapability")
def compute_capability(s: Session, major: int, minor: int, device: I32) -> None:
    """Give 10 and 0."""
    known_device(device)
    s.program.put(major, "i", attribute(s, 75))
    s.program.put(minor, "i", attribute(s, 76))


@entry("cuDeviceGetPCIBusId", "cudaDeviceGetPCIBusId")
def pci_name(s: Session, out: int, length: I32, device: I32) -> None:
    """Give the place on the PCI bus."""
    known_device(device)
    s.program.write(out, PCI.encode()[: max(length - 1, 0)] + b"\0")


@entry("cuDeviceGetByPCIBusId", "cudaDeviceGetByPCIBusId")
def by_pci_name(s: Session, out: int, name: int) -> None:
    """Find the device by its place on the PCI bus."""
    if s.program.string(name).removeprefix("0000").lower() != PCI.removeprefix("0000"):
        raise CudaError(Status.INVALID_DEVICE)
    s.program.put(out, "i", 0)


@entry("cuDeviceCanAccessPeer", "cudaDeviceCanAccessPeer")
def can_access_peer(s: Session, out: int) -> None:
    """Say no: there is one device."""
    s.program.put(out, "i", 0)


@entry("cuDeviceGetExecAffinitySupport")
def affinity_support(s: Session, out: int) -> None:
    """Say no."""
    s.program.put(out, "i", 0)


@entry("cuMemGetInfo_v2", "cudaMemGetInfo")
def memory_info(s: Session, free: int, total: int) -> None:
    """Give the free and all bytes of device memory."""
    s.program.put(free, "Q", free_bytes(s))
    s.program.put(total, "Q", MEMORY_BYTES)


@entry("cuCtxSetLimit", "cudaDeviceSetLimit")
def set_limit(s: Session, limit: U32, value: int) -> None:
    """Remember a limit; only that of the heap limits anything here."""
    limits = s.runtime.setdefault("limits", {})
    limits[limit] = value


@entry("cuCtxGetLimit", "cudaDeviceGetLimit")
def get_limit(s: Session, out: int, limit: U32) -> None:
    """Give a limit: what was set, or what a device begins with."""
    beginning = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 32, 6: 0}
    if limit not in beginning:
        raise CudaError(Status.INVALID_VALUE)
    s.program.put(out, "Q", s.runtime.get("limits", {}).get(limit, beginning[limit]))
