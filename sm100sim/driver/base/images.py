"""The PTX of what a program loads: text, or a fat binary with PTX in it.

A fat binary is a header (magic, version, header bytes, size of what follows) and entries. An entry
has a header of its own: kind, version, header bytes, payload bytes; at +16 the compressed bytes, at
+28 the architecture, at +40 flags, at +56 the bytes before compression. Source: images that nvcc
12.9 and 13.0 write, and `fatbinary_section.h` of the CUDA toolkit for the wrapper around them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ...ptx.errors import PtxError
from ...ptx.join import JoinError, joined
from .codes import CudaError, Status
from .compression import lz4_block, zstandard

WRAPPER_MAGIC: Final = 0x466243B1
LINKED_VERSION: Final = 2
"""`FATBINC_LINK_VERSION`: a list of the images that were linked follows, up to a null pointer."""
FATBIN_MAGIC: Final = 0xBA55ED50
LINKED_MAGIC: Final = b"sm100sim linked PTX\0"
"""Begins what `cuLinkComplete` gives here in place of a cubin; PTX text follows."""
ELF_MAGIC: Final = b"\x7fELF"
_WRAPPER: Final = struct.Struct("<IIQQ")
_HEADER: Final = struct.Struct("<IHHQ")
_ENTRY: Final = struct.Struct("<HHIQIIIIIIQQQ")
_PTX, _CUBIN = 1, 2
_LZ4, _ZSTANDARD = 0x2000, 0x8000
NEWEST: Final = 109
"""Architectures 100 to 109 are of this family; PTX of an older one runs, too."""

Read = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Entry:
    """A part of a fat binary: `architecture` as in sm_100."""

    kind: int
    architecture: int
    flags: int
    payload: bytes
    size: int

    def text(self) -> str:
        """The PTX of an entry that holds PTX.

        Raises:
            CudaError: it cannot be decompressed.
        """
        raw = self.payload
        if self.flags & _LZ4:
            raw = lz4_block(raw, self.size)
        elif self.flags & _ZSTANDARD:
            raw = zstandard(raw, self.size)
        return raw.rstrip(b"\0").decode()


def ptx_at(address: int, read: Read, string: Callable[[int], str]) -> str:
    """The PTX of the image at an address of the program.

    Args:
        address: of PTX text, of a fat binary, or of the wrapper that nvcc puts around one.
        read: gives bytes of the program's memory.
        string: gives text of the program's memory.

    Raises:
        CudaError: no such image, or one with machine code only.
    """
    if not address:
        raise CudaError(Status.INVALID_VALUE, "the address of the image is null")
    head = read(address, _HEADER.size)
    magic, _version, header_bytes, size = _HEADER.unpack(head)
    if magic == WRAPPER_MAGIC:
        _, version, data, parts = _WRAPPER.unpack(read(address, _WRAPPER.size))
        if version == LINKED_VERSION and parts:
            return _linked(parts, read, string)
        return ptx_at(data, read, string)
    if magic == FATBIN_MAGIC:
        return _chosen(list(entries(read(address + header_bytes, size))))
    if head.startswith(ELF_MAGIC):
        raise CudaError(Status.NO_BINARY, machine_code(["a cubin"]))
    if head == LINKED_MAGIC[: _HEADER.size]:
        return string(address + len(LINKED_MAGIC))
    return string(address)


def _linked(parts: int, read: Read, string: Callable[[int], str]) -> str:
    """The PTX of what `nvcc -rdc=true` linked: that of the images, for the result is a cubin.

    Raises:
        CudaError: one has no PTX, or they do not go together.
    """
    texts: list[str] = []
    while image := struct.unpack("<Q", read(parts + 8 * len(texts), 8))[0]:
        texts.append(ptx_at(image, read, string))
    try:
        return joined(texts)
    except (JoinError, PtxError) as error:
        raise CudaError(Status.INVALID_PTX, str(error)) from None


def ptx_of(image: bytes) -> str:
    """The PTX of an image in a file; see `ptx_at`."""
    padded = image + bytes(_HEADER.size)

    def text(at: int) -> str:
        return padded[at - 1 : padded.index(b"\0", at - 1)].decode()

    return ptx_at(1, lambda at, count: padded[at - 1 : at - 1 + count], text)


def entries(data: bytes) -> Iterator[Entry]:
    """The entries of a fat binary, given what follows its header."""
    at = 0
    while at + _ENTRY.size <= len(data):
        fields = _ENTRY.unpack_from(data, at)
        kind, _version, header_bytes, payload, compressed = fields[:5]
        architecture, flags, size = fields[7], fields[10], fields[12]
        raw = data[at + header_bytes : at + header_bytes + payload]
        if compressed and flags & (_LZ4 | _ZSTANDARD):
            raw = raw[:compressed]
        yield Entry(kind, architecture, flags, raw, size)
        at += header_bytes + payload


def _chosen(found: list[Entry]) -> str:
    """The PTX of the newest architecture that this device runs."""
    texts = [entry for entry in found if entry.kind == _PTX and entry.architecture <= NEWEST]
    if texts:
        return max(texts, key=lambda entry: entry.architecture).text()
    names = [f"{_NAMES.get(e.kind, 'something')} for sm_{e.architecture}" for e in found]
    raise CudaError(Status.NO_BINARY, machine_code(names))


_NAMES = {_PTX: "PTX", _CUBIN: "a cubin"}


def machine_code(names: list[str]) -> str:
    """Why an image cannot be run."""
    held = ", ".join(names) or "nothing"
    return (
        f"the program loads an image that holds {held}; machine code cannot be run here, only PTX "
        "up to sm_100: build with nvcc -gencode arch=compute_100a,code=compute_100a"
    )
