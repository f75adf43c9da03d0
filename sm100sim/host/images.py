"""Which PTX a loaded image came from.

The DSL hands its runtime a fat binary that wraps one cubin; the simulator executes PTX.  Every
compilation leaves both cubin and PTX (see dsl_hooks.py), so the catalogue maps the hash of the
cubin's bytes to the PTX it was assembled from.  An image that was not catalogued is refused: no
other PTX is ever run in its place.

The fat binary's layout was read from images that nvidia-cutlass-dsl 4.8.1 emits: a 16-byte header
(magic, version, header size, size of what follows), then entries, each with its own header (kind,
version, header size, payload size, at +40 flags) before its payload.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Iterator

ELF_MAGIC = b"\x7fELF"
ELF_HEADER_BYTES = 64
SECTION_WITHOUT_DATA = 8  # SHT_NOBITS: takes no room in the file

FATBIN_MAGIC = 0xBA55ED50
FATBIN_HEADER = struct.Struct("<IHHQ")
FATBIN_ENTRY = struct.Struct("<HHIQ24xQ")
FATBIN_CUBIN = 2
FATBIN_COMPRESSED = 0x2000 | 0x8000


class UnknownImageError(RuntimeError):
    """The program loaded a GPU image whose PTX the simulator has not seen."""


def cubins_at(address: int) -> list[bytes]:
    """The cubins of the image at a host address: an ELF file, or a fat binary of some.

    Raises:
        UnknownImageError: neither, or a fat binary with compressed entries.
    """
    if not address:
        raise UnknownImageError("the program loaded an image at address 0")
    head = ctypes.string_at(address, 16)
    if head[:4] == ELF_MAGIC:
        return [ctypes.string_at(address, _elf_length(address))]
    magic, _version, header_bytes, size = FATBIN_HEADER.unpack(head)
    if magic == FATBIN_MAGIC:
        return list(_fatbin_cubins(ctypes.string_at(address + header_bytes, size)))
    raise UnknownImageError(
        f"the image at {address:#x} starts with {head[:4].hex()}: neither a cubin nor a fat binary"
    )


def _fatbin_cubins(entries: bytes) -> Iterator[bytes]:
    at = 0
    while at + FATBIN_ENTRY.size <= len(entries):
        kind, _version, header_bytes, size, flags = FATBIN_ENTRY.unpack_from(entries, at)
        if kind == FATBIN_CUBIN:
            if flags & FATBIN_COMPRESSED:
                raise UnknownImageError(
                    "the fat binary holds a compressed cubin, which sm100sim cannot identify"
                )
            yield entries[at + header_bytes : at + header_bytes + size]
        at += header_bytes + size


def _elf_length(address: int) -> int:
    """Length of a 64-bit ELF file in memory, from its own tables."""
    head = ctypes.string_at(address, ELF_HEADER_BYTES)
    program_at, section_at = struct.unpack_from("<QQ", head, 0x20)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", head, 0x36)
    sections = ctypes.string_at(address + section_at, section_size * section_count)
    ends: list[int] = [
        ELF_HEADER_BYTES,
        program_at + program_size * program_count,
        section_at + section_size * section_count,
    ]
    for at in range(0, section_size * section_count, section_size):
        (kind,) = struct.unpack_from("<I", sections, at + 4)
        offset, size = struct.unpack_from("<QQ", sections, at + 0x18)
        if kind != SECTION_WITHOUT_DATA:
            ends.append(offset + size)
    return max(ends)


class PtxCatalogue:
    """PTX texts by the bytes of the cubins assembled from them."""

    def __init__(self) -> None:
        self._texts: dict[bytes, str] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, cubin: bytes, ptx: str) -> None:
        """Remember that ``cubin`` was assembled from ``ptx``."""
        self._texts[hashlib.sha256(cubin).digest()] = ptx

    def lookup(self, address: int) -> str:
        """The PTX of the image at a host address.

        Raises:
            UnknownImageError: not an image with exactly one cubin that was compiled here.
        """
        cubins = cubins_at(address)
        known = [self._texts.get(hashlib.sha256(cubin).digest()) for cubin in cubins]
        if len(known) != 1:
            raise UnknownImageError(f"the image holds {len(known)} cubins; sm100sim expects one")
        if known[0] is None:
            raise UnknownImageError(
                f"the program loaded a cubin of {len(cubins[0])} bytes which was not compiled "
                "after sm100sim.activate() (a file cache, or an object exported earlier?); "
                "sm100sim runs PTX and has none for it"
            )
        return known[0]
