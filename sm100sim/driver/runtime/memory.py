"""Memory (CUDA Runtime API, "Memory Management"), where the driver's functions differ.

A structure of more than 16 bytes that is given by value lies on the stack: its words come after
the six of the registers (System V ABI, x86-64, 3.2.3).
"""

from __future__ import annotations

from typing import Final

from ..api.copies import Plane, array_plane, copying, copying_rows, filling, plane_in_rows
from ..api.memory import HOST, PITCH, allocate, allocate_in_stream
from ..base.codes import CudaError, Status
from ..base.objects import CudaArray, Work
from ..base.session import COPY_NODE, SET_NODE, Session
from ..base.table import ON_STACK, U32, entry

MANAGED_POINTER: Final = 3
_COPY_3D: Final = "Q3Q4QQ3Q4Q3QI"
_KINDS: Final = {
    "device": 2, "reserved": 2, "texture": 2, "pinned": HOST, "managed": MANAGED_POINTER,
}  # fmt: skip
"""`cudaMemoryType` by the kind of an allocation; 0 is memory that CUDA does not know."""


def _allocate(s: Session, out: int, size: int, kind: str) -> None:
    if size:
        allocate(s, out, size, kind)
    else:
        s.program.put(out, "Q", 0)


@entry("cudaMallocAsync")
def allocate_async(s: Session, out: int, size: int, stream: int) -> None:
    """Allocate device memory in a stream."""
    if size:
        allocate_in_stream(s, out, size, stream)
    else:
        s.program.put(out, "Q", 0)


@entry("cudaMalloc")
def allocate_device(s: Session, out: int, size: int) -> None:
    """Allocate device memory."""
    _allocate(s, out, size, "device")


@entry("cudaMallocManaged")
def allocate_managed(s: Session, out: int, size: int) -> None:
    """Allocate memory that host and device may touch."""
    _allocate(s, out, size, "managed")


@entry("cudaMallocHost", "cudaHostAlloc")
def allocate_pinned(s: Session, out: int, size: int) -> None:
    """Allocate host memory that the device may touch."""
    _allocate(s, out, size, "pinned")


@entry("cudaMalloc3D")
def allocate_3d(s: Session, *words: int) -> None:
    """Allocate planes of rows that begin at multiples of 512 bytes."""
    out, (width, height, depth) = words[0], words[ON_STACK : ON_STACK + 3]
    pitch = -(-width // PITCH) * PITCH
    _allocate(s, out, pitch * height * depth, "device")
    s.program.put(out + 8, "QQQ", pitch, width, height)


@entry("cudaMemcpyAsync")
def copy_async(s: Session, target: int, source: int, size: int, _kind: U32, stream: int) -> None:
    """Copy in a stream."""
    s.submit(stream, copying(s, target, source, size), COPY_NODE)


def _rows(s: Session, words: tuple[int, ...]) -> Work:
    target, target_pitch, source, source_pitch, width, height = words[:6]
    if width > min(target_pitch, source_pitch):
        raise CudaError(Status.INVALID_VALUE, f"rows of {width} bytes are longer than a pitch")
    sides = Plane(target, target_pitch), Plane(source, source_pitch)
    return copying_rows(s, *sides, (width, height, 1))


@entry("cudaMemcpy2D")
def copy_2d(s: Session, *words: int) -> None:
    """Copy rows."""
    s.submit(0, _rows(s, words), COPY_NODE)


@entry("cudaMemcpy2DAsync")
def copy_2d_async(s: Session, *words: int) -> None:
    """Copy rows in a stream."""
    s.submit(words[7], _rows(s, words), COPY_NODE)


def copying_parameters(s: Session, parameters: int) -> Work:
    """Work of `cudaMemcpy3DParms`: places in arrays, and then the width, count elements."""
    words = s.program.read_words(parameters, _COPY_3D)
    sides, scale = [], 1
    for array, x, y, z, pointer, pitch, _width, height in (words[0:8], words[8:16]):
        if array:
            scale = s.get(array, CudaArray).texels.bytes
            sides.append(array_plane(s, array, x * scale, y, z))
        else:
            sides.append(plane_in_rows(pointer, (x, y, z), pitch, height))
    return copying_rows(s, sides[1], sides[0], (words[16] * scale, words[17], words[18]))


@entry("cudaMemcpy3D")
def copy_3d(s: Session, parameters: int) -> None:
    """Copy planes."""
    s.submit(0, copying_parameters(s, parameters), COPY_NODE)


@entry("cudaMemcpy3DAsync")
def copy_3d_async(s: Session, parameters: int, stream: int) -> None:
    """Copy planes in a stream."""
    s.submit(stream, copying_parameters(s, parameters), COPY_NODE)


def _fill_3d(s: Session, words: tuple[int, ...], stream: int) -> None:
    pointer, pitch, _width, height, *extent = words[ON_STACK : ON_STACK + 7]
    for z in range(extent[2]):
        plane = Plane(pointer + z * pitch * height, pitch)
        work = filling(s, plane, words[0] & 255, 1, (extent[0], extent[1]))
        s.submit(stream, work, SET_NODE)


@entry("cudaMemset3D")
def fill_3d(s: Session, *words: int) -> None:
    """Set bytes of planes."""
    _fill_3d(s, words, 0)


@entry("cudaMemset3DAsync")
def fill_3d_async(s: Session, *words: int) -> None:
    """Set bytes of planes in a stream."""
    _fill_3d(s, words, words[1])


@entry("cudaPointerGetAttributes")
def pointer_attributes(s: Session, out: int, address: int) -> None:
    """Say what memory an address is in, and by which addresses host and device reach it."""
    block = s.arena.at(address)
    if block is None:
        s.program.put(out, "iiQQ", 0, -2, 0, address)
        return
    host = address if block.kind in ("pinned", "managed") else 0
    s.program.put(out, "iiQQ", _KINDS[block.kind], 0, address, host)
