"""Texture and surface objects (CUDA Driver API, "Texture Object Management", "Surface Object
Management"; CUDA Runtime API, the same).

A handle is the address of a `TextureRecord`, which kernels read and nothing writes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from ...contract.textures import TEXTURE_MARK, Outside, TexelType, TextureRecord
from ..base.codes import CudaError, Status
from ..base.objects import CudaArray, Texels, TextureObject
from ..base.session import Session
from ..base.table import entry
from .arrays import CUBE, LAYERED, SURFACE, driver_texels, runtime_texels

ARRAY, MIPMAPPED, LINEAR, PITCHED = range(4)
"""`CUresourcetype`, `cudaResourceType`."""
_RESOURCE_BYTES: Final = 144
_DRIVER_TEXTURE: Final = "3I4I3f4f"
_RUNTIME_TEXTURE: Final = "3IIIi4fiII3fii"
_READ_AS_INTEGER, _NORMALIZED, _SRGB = 0x01, 0x02, 0x10
_SEAMLESS: Final = 0x40
_ALIGNMENT, _PITCH_ALIGNMENT = 512, 32
"""Of rows in linear memory: the attributes of a device that say so."""


@dataclass(frozen=True)
class Sampling:
    """How a texture object is read, in either API's words."""

    outside: tuple[int, int, int]
    linear: bool
    fraction: bool
    normalized: bool
    border: tuple[float, ...]
    unmodelled: str = ""


def _resource(s: Session, at: int, *, runtime: bool) -> TextureRecord:
    """The record of a resource descriptor, without how it is read.

    Raises:
        CudaError: it is a mipmapped array, or its format is not modelled.
    """
    (kind,) = s.program.read_words(at, "I")
    read = s.program.read_words
    if kind == ARRAY:
        return _of_array(s.get(read(at + 8, "Q")[0], CudaArray))
    if kind not in (LINEAR, PITCHED):
        raise CudaError(Status.NOT_SUPPORTED, "textures of mipmapped arrays are not modelled")
    if runtime:
        address, *words = read(at + 8, "Q5i4x3Q")
        texels, sizes = runtime_texels(tuple(words[:5])), words[5:]
    else:
        address, code, channels, *sizes = read(at + 8, "QII3Q")
        texels = driver_texels(code, channels)
    if kind == LINEAR:
        size = sizes[0] // texels.bytes, 1, 1
        return _record(texels, address, size, rank=1, memory=True, pitch=0, slice=0)
    size = sizes[0], sizes[1], 1
    if address % _ALIGNMENT or sizes[2] % _PITCH_ALIGNMENT:
        why = f"rows at {address:#x}, {sizes[2]} bytes apart: multiples of {_ALIGNMENT} and"
        raise CudaError(Status.INVALID_VALUE, f"{why} {_PITCH_ALIGNMENT} are needed")
    return _record(texels, address, size, rank=2, pitch=sizes[2], slice=0)


def _of_array(array: CudaArray) -> TextureRecord:
    width, height, depth = array.size
    stacked = array.flags & (LAYERED | CUBE)
    rank = 3 if depth and not stacked else 2 if height else 1
    size = width, max(height, 1), 1 if stacked else max(depth, 1)
    return _record(
        array.texels, array.address, size, rank=rank, layers=depth if stacked else 0,
        pitch=array.pitch, slice=array.slice, cube=bool(array.flags & CUBE),
        surface=bool(array.flags & SURFACE),
    )  # fmt: skip


def _record(
    texels: Texels, address: int, size: tuple[int, int, int], **others: int
) -> TextureRecord:
    return TextureRecord(
        mark=TEXTURE_MARK, address=address, size=size, channels=texels.channels,
        channel_bytes=texels.channel_bytes, type=texels.type, **others,
    )  # fmt: skip


def _driver_sampling(words: tuple[float, ...], type: TexelType) -> Sampling:
    """Of a `CUDA_TEXTURE_DESC`: narrow integers are fractions unless it says otherwise."""
    x, y, z, linear, flags = (int(word) for word in words[:5])
    srgb, seamless, normalized = (bool(flags & bit) for bit in (_SRGB, _SEAMLESS, _NORMALIZED))
    fraction = not flags & _READ_AS_INTEGER and type != TexelType.FLOAT
    unmodelled = _unmodelled(srgb, seamless)
    return Sampling((x, y, z), bool(linear), fraction, normalized, words[10:14], unmodelled)


def _runtime_sampling(words: tuple[float, ...]) -> Sampling:
    """Of a `cudaTextureDesc`."""
    x, y, z, linear, fraction, srgb = (int(word) for word in words[:6])
    border, normalized = words[6:10], bool(words[10])
    unmodelled = _unmodelled(bool(srgb), bool(words[-1]))
    return Sampling((x, y, z), bool(linear), bool(fraction), normalized, border, unmodelled)


def _unmodelled(srgb: bool, seamless: bool) -> str:
    return "sRGB conversion" if srgb else "seamless cubes" if seamless else ""


def _apply(record: TextureRecord, how: Sampling) -> None:
    """Have a record read so.

    Raises:
        CudaError: this is refused (CUDA Driver API, "cuTexObjectCreate"), or not modelled.
    """
    if how.unmodelled:
        raise CudaError(Status.NOT_SUPPORTED, f"textures with {how.unmodelled} are not modelled")
    floats = record.type == TexelType.FLOAT
    wide = not floats and record.channel_bytes == 4
    record.fraction = how.fraction and not floats and not wide
    record.linear = how.linear and not record.memory
    record.normalized = how.normalized and not record.memory
    if record.linear and not floats and not record.fraction:
        why = "linear filtering of texels that are read as integers"
        raise CudaError(Status.INVALID_VALUE, why)
    for dim, mode in enumerate(how.outside):
        # Coordinates in texels are not repeated (CUDA Driver API, "cuTexObjectCreate").
        repeats = mode in (Outside.WRAP, Outside.MIRROR)
        record.outside[dim] = Outside.CLAMP if repeats and not record.normalized else mode
    for channel, value in enumerate(how.border):
        record.border[channel] = _bits(value)


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def _publish(s: Session, out: int, record: TextureRecord, made: TextureObject) -> None:
    """Put a record where kernels find it, and write its address as the handle."""
    raw = bytes(record)
    handle = s.arena.allocate(len(raw), "texture", name=s.numbered())
    s.program.write(handle, raw)
    s.named(handle, made)
    s.program.put(out, "Q", handle)


def _create(s: Session, out: int, resource: int, texture: int, view: int, *, runtime: bool) -> None:
    s.check()
    if view:
        raise CudaError(Status.NOT_SUPPORTED, "resource views of textures are not modelled")
    record = _resource(s, resource, runtime=runtime)
    form = _RUNTIME_TEXTURE if runtime else _DRIVER_TEXTURE
    words = s.program.read_words(texture, form)
    type = TexelType(record.type)
    _apply(record, _runtime_sampling(words) if runtime else _driver_sampling(words, type))
    kept = s.program.read(resource, _RESOURCE_BYTES), s.program.read(texture, struct.calcsize(form))
    _publish(s, out, record, TextureObject(*kept))


@entry("cuTexObjectCreate")
def create_texture(s: Session, out: int, resource: int, texture: int, view: int) -> None:
    """Make a texture object."""
    _create(s, out, resource, texture, view, runtime=False)


@entry("cudaCreateTextureObject")
def create_texture_runtime(s: Session, out: int, resource: int, texture: int, view: int) -> None:
    """Make a texture object."""
    _create(s, out, resource, texture, view, runtime=True)


@entry("cuSurfObjectCreate", "cudaCreateSurfaceObject")
def create_surface(s: Session, out: int, resource: int) -> None:
    """Make a surface object of an array that allows it."""
    s.check()
    if s.program.read_words(resource, "I") != (ARRAY,):
        raise CudaError(Status.INVALID_VALUE, "a surface is that of a CUDA array")
    record = _resource(s, resource, runtime=False)
    if not record.surface:
        why = "the array was made without the flag for surface loads and stores"
        raise CudaError(Status.INVALID_VALUE, why)
    _publish(s, out, record, TextureObject(s.program.read(resource, _RESOURCE_BYTES)))


@entry("cuTexObjectDestroy", "cudaDestroyTextureObject",
       "cuSurfObjectDestroy", "cudaDestroySurfaceObject")  # fmt: skip
def destroy(s: Session, handle: int) -> None:
    """Forget an object."""
    s.check()
    s.drop(handle, TextureObject)
    s.arena.free(handle)


@entry("cuTexObjectGetResourceDesc", "cudaGetTextureObjectResourceDesc",
       "cuSurfObjectGetResourceDesc", "cudaGetSurfaceObjectResourceDesc")  # fmt: skip
def resource_of(s: Session, out: int, handle: int) -> None:
    """Give the descriptor of the resource."""
    s.program.write(out, s.get(handle, TextureObject).resource)


@entry("cuTexObjectGetTextureDesc", "cudaGetTextureObjectTextureDesc")
def sampling_of(s: Session, out: int, handle: int) -> None:
    """Give the descriptor of how it is read."""
    s.program.write(out, s.get(handle, TextureObject).texture)
