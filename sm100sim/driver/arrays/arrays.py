"""CUDA arrays (CUDA Driver API, "Memory Management"; CUDA Runtime API, the same)."""

from __future__ import annotations

import math
from typing import Final

from ...contract.textures import TexelType
from ..base.codes import CudaError, Status
from ..base.objects import CudaArray, Texels
from ..base.session import Session
from ..base.table import ON_STACK, U32, entry

LAYERED, SURFACE, CUBE = 0x01, 0x02, 0x04
_GATHER: Final = 0x08
_KNOWN: Final = LAYERED | SURFACE | CUBE | _GATHER
"""Flags of arrays; others are for graphics, sparse memory and video."""
_FORMATS: Final = {
    0x01: (1, TexelType.UNSIGNED), 0x02: (2, TexelType.UNSIGNED), 0x03: (4, TexelType.UNSIGNED),
    0x08: (1, TexelType.SIGNED), 0x09: (2, TexelType.SIGNED), 0x0A: (4, TexelType.SIGNED),
    0x10: (2, TexelType.FLOAT), 0x20: (4, TexelType.FLOAT),
}  # fmt: skip
"""`CUarray_format`: bytes and type of a channel."""
_KINDS: Final = (TexelType.SIGNED, TexelType.UNSIGNED, TexelType.FLOAT)
"""`cudaChannelFormatKind`."""
CHANNELS: Final = "5i"
"""`cudaChannelFormatDesc`."""
_CUBE_FACES: Final = 6


def driver_texels(code: int, channels: int) -> Texels:
    """Elements by `CUarray_format` and number of channels.

    Raises:
        CudaError: the format is not known here.
    """
    if code not in _FORMATS or channels not in (1, 2, 4):
        why = f"{channels} channels of array format {code:#x}; 1, 2 or 4 of integers and floats are"
        raise CudaError(Status.NOT_SUPPORTED, f"{why} modelled")
    return Texels(channels, *_FORMATS[code])


def runtime_texels(words: tuple[int, ...]) -> Texels:
    """Elements by the bits of x, y, z, w and the kind of a `cudaChannelFormatDesc`.

    Raises:
        CudaError: the format is not known here.
    """
    bits, kind = [b for b in words[:4] if b], words[4]
    if len(bits) not in (1, 2, 4) or set(bits) not in ({8}, {16}, {32}) or not 0 <= kind < 3:
        raise CudaError(Status.NOT_SUPPORTED, f"channels of {words[:4]} bits, kind {kind}")
    return Texels(len(bits), bits[0] // 8, _KINDS[kind])


def create(s: Session, out: int, texels: Texels, size: tuple[int, int, int], flags: int) -> None:
    """Make an array and write its handle.

    Raises:
        CudaError: a flag or a shape is not modelled.
    """
    s.check()
    if flags & ~_KNOWN:
        raise CudaError(Status.NOT_SUPPORTED, f"flags {flags:#x} of a CUDA array")
    width, height, depth = size
    faces = flags & CUBE and (depth % _CUBE_FACES or width != height)
    if not width or faces or (flags & LAYERED and not depth):
        raise CudaError(Status.INVALID_VALUE, f"a CUDA array of {size}, flags {flags:#x}")
    room = math.prod(max(extent, 1) for extent in size) * texels.bytes
    address = s.arena.allocate(room, name=s.numbered())
    s.program.put(out, "Q", s.new(CudaArray(address, texels, size, flags)))


@entry("cuArrayCreate_v2")
def create_array(s: Session, out: int, descriptor: int) -> None:
    """Make an array of one or two dimensions."""
    width, height, code, channels = s.program.read_words(descriptor, "QQII")
    create(s, out, driver_texels(code, channels), (width, height, 0), 0)


@entry("cuArray3DCreate_v2")
def create_array_3d(s: Session, out: int, descriptor: int) -> None:
    """Make an array of up to three dimensions, or of layers."""
    *size, code, channels, flags = s.program.read_words(descriptor, "QQQIII")
    create(s, out, driver_texels(code, channels), (size[0], size[1], size[2]), flags)


@entry("cudaMallocArray")
def allocate_array(
    s: Session, out: int, format_at: int, width: int, height: int, flags: U32
) -> None:
    """Make an array of one or two dimensions."""
    texels = runtime_texels(s.program.read_words(format_at, CHANNELS))
    create(s, out, texels, (width, height, 0), flags)


@entry("cudaMalloc3DArray")
def allocate_array_3d(s: Session, *words: int) -> None:
    """Make an array of up to three dimensions, or of layers."""
    out, format_at, flags = words[0], words[1], words[2] & 0xFFFFFFFF
    width, height, depth = words[ON_STACK : ON_STACK + 3]
    texels = runtime_texels(s.program.read_words(format_at, CHANNELS))
    create(s, out, texels, (width, height, depth), flags)


@entry("cuArrayDestroy", "cudaFreeArray")
def destroy_array(s: Session, handle: int) -> None:
    """Free an array; null is accepted."""
    s.check()
    if handle:
        s.arena.free(s.drop(handle, CudaArray).address)


def _driver_format(texels: Texels) -> int:
    wanted = texels.channel_bytes, texels.type
    return next(code for code, found in _FORMATS.items() if found == wanted)


@entry("cuArrayGetDescriptor_v2")
def array_descriptor(s: Session, out: int, handle: int) -> None:
    """Give the `CUDA_ARRAY_DESCRIPTOR`."""
    array = s.get(handle, CudaArray)
    texels = array.texels
    s.program.put(out, "QQII", *array.size[:2], _driver_format(texels), texels.channels)


@entry("cuArray3DGetDescriptor_v2")
def array_descriptor_3d(s: Session, out: int, handle: int) -> None:
    """Give the `CUDA_ARRAY3D_DESCRIPTOR`."""
    array = s.get(handle, CudaArray)
    texels = array.texels
    words = *array.size, _driver_format(texels), texels.channels, array.flags
    s.program.put(out, "QQQIII", *words)


def _channels(texels: Texels) -> tuple[int, ...]:
    bits = [8 * texels.channel_bytes] * texels.channels
    return *bits, *[0] * (4 - len(bits)), _KINDS.index(texels.type)


@entry("cudaGetChannelDesc")
def channels_of(s: Session, out: int, handle: int) -> None:
    """Give the `cudaChannelFormatDesc`."""
    s.program.put(out, CHANNELS, *_channels(s.get(handle, CudaArray).texels))


@entry("cudaArrayGetInfo")
def array_info(s: Session, channels: int, extent: int, flags: int, handle: int) -> None:
    """Give elements, size and flags."""
    array = s.get(handle, CudaArray)
    s.program.put(channels, CHANNELS, *_channels(array.texels))
    s.program.put(extent, "QQQ", *array.size)
    s.program.put(flags, "I", array.flags)
