"""Copies and fills (CUDA Driver API, "Memory Management").

Functions of the runtime that take the same words are answered here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..base.codes import CudaError, Status
from ..base.objects import CudaArray, Work
from ..base.session import COPY_NODE, SET_NODE, Session
from ..base.table import entry

ARRAY: Final = 3
HOST: Final = 1
"""`CUmemorytype`."""


@dataclass(frozen=True)
class Plane:
    """Rows in memory: the address of the first, and bytes to the next row and the next plane."""

    start: int
    pitch: int
    slice: int = 0

    def row(self, y: int, z: int) -> int:
        """Address of a row."""
        return self.start + y * self.pitch + z * self.slice

    def end(self, width: int, height: int, depth: int) -> int:
        """The address after the last row."""
        return self.row(height - 1, depth - 1) + width


def copying(s: Session, target: int, source: int, size: int) -> Work:
    """Work that copies bytes.

    Raises:
        CudaError: one side is not all inside one allocation.
    """
    for address in (target, source):
        s.arena.check(address, size)
        if size and not address:
            raise CudaError(Status.INVALID_VALUE, "a copy from or to the null pointer")

    def work() -> None:
        s.program.move(target, source, size)

    return work


def copying_rows(s: Session, target: Plane, source: Plane, shape: tuple[int, int, int]) -> Work:
    """Work that copies width bytes of height rows of depth planes.

    Raises:
        CudaError: one side is not all inside one allocation.
    """
    width, height, depth = shape
    if all(shape):
        for side in (target, source):
            s.arena.check(side.start, side.end(*shape) - side.start)

    def work() -> None:
        for z in range(depth):
            for y in range(height):
                s.program.move(target.row(y, z), source.row(y, z), width)

    return work


def filling(s: Session, target: Plane, value: int, width: int, extent: tuple[int, int]) -> Work:
    """Work that sets `extent` elements of `width` bytes: in a row, and rows.

    Raises:
        CudaError: they are not all inside one allocation.
    """
    columns, rows = extent
    if columns and rows:
        s.arena.check(target.start, target.end(columns * width, rows, 1) - target.start)
        if s.arena.region_of(target.start) is None:
            raise CudaError(Status.INVALID_VALUE, f"{target.start:#x} is no device memory")

    def work() -> None:
        for y in range(rows):
            s.program.fill(target.row(y, 0), value, width, columns)

    return work


@entry("cuMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2", "cudaMemcpy")
def copy(s: Session, target: int, source: int, size: int) -> None:
    """Copy."""
    copy_async(s, target, source, size, 0)


@entry("cuMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2")
def copy_async(s: Session, target: int, source: int, size: int, stream: int) -> None:
    """Copy in a stream."""
    s.submit(stream, copying(s, target, source, size), COPY_NODE)


@entry("cuMemcpyPeer", "cudaMemcpyPeer")
def copy_peer(s: Session, target: int, _to: int, source: int, _from: int, size: int) -> None:
    """Copy between contexts."""
    copy(s, target, source, size)


@entry("cuMemcpyPeerAsync", "cudaMemcpyPeerAsync")
def copy_peer_async(s: Session, *words: int) -> None:
    """Copy between contexts in a stream."""
    target, _, source, _, size, stream = words[:6]
    copy_async(s, target, source, size, stream)


@entry("cuMemcpyBatchAsync_v2", "cudaMemcpyBatchAsync")
def copy_batch(s: Session, *words: int) -> None:
    """Copy several ranges in a stream; hints about them have no effect."""
    count = words[3]
    columns = [s.program.read_words(at, f"{count}Q") for at in words[:3]]
    for target, source, size in zip(*columns, strict=True):
        s.submit(words[7], copying(s, target, source, size), COPY_NODE)


_SIDE_2D: Final = "QQI4xQQQQ"
_SIDE_3D: Final = "QQQQI4xQQQQQQ"


def array_plane(s: Session, handle: int, x: int, y: int, z: int = 0) -> Plane:
    """A place in a CUDA array, `x` in bytes.

    Raises:
        CudaError: the handle is none of an array.
    """
    array = s.get(handle, CudaArray)
    start = array.address + x + y * array.pitch + z * array.slice
    return Plane(start, array.pitch, array.slice)


def _plane(
    s: Session, at: Sequence[int], kind: int, memory: Sequence[int], steps: tuple[int, int]
) -> Plane:
    """A side of a copy: `memory` holds its host, device and array address; `steps`: pitch and
    rows of a plane."""
    x, y, z = at
    if kind == ARRAY:
        return array_plane(s, memory[2], x, y, z)
    # A unified address may stand in the device's field.
    address = memory[0] if kind == HOST else memory[1]
    return plane_in_rows(address, at, *steps)


def plane_in_rows(address: int, at: Sequence[int], pitch: int, rows: int) -> Plane:
    """A place in memory whose planes have `rows` rows of `pitch` bytes, the first in bytes."""
    x, y, z = at
    return Plane(address + x + y * pitch + z * pitch * rows, pitch, pitch * rows)


def copying_2d(s: Session, descriptor: int) -> Work:
    """Work of a `CUDA_MEMCPY2D`."""
    words = s.program.read_words(descriptor, _SIDE_2D * 2 + "QQ")
    sides = [
        _plane(s, (x, y, 0), kind, (host, device, array), (pitch, 0))
        for x, y, kind, host, device, array, pitch in (words[0:7], words[7:14])
    ]
    return copying_rows(s, sides[1], sides[0], (words[14], words[15], 1))


def copying_3d(s: Session, descriptor: int) -> Work:
    """Work of a `CUDA_MEMCPY3D`."""
    words = s.program.read_words(descriptor, _SIDE_3D * 2 + "QQQ")
    sides = []
    for x, y, z, _lod, kind, *rest in (words[0:11], words[11:22]):
        host, device, array, _reserved, pitch, height = rest
        sides.append(_plane(s, (x, y, z), kind, (host, device, array), (pitch, height)))
    return copying_rows(s, sides[1], sides[0], (words[22], words[23], words[24]))


@entry("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2")
def copy_2d(s: Session, descriptor: int) -> None:
    """Copy rows."""
    s.submit(0, copying_2d(s, descriptor), COPY_NODE)


@entry("cuMemcpy2DAsync_v2")
def copy_2d_async(s: Session, descriptor: int, stream: int) -> None:
    """Copy rows in a stream."""
    s.submit(stream, copying_2d(s, descriptor), COPY_NODE)


@entry("cuMemcpy3D_v2")
def copy_3d(s: Session, descriptor: int) -> None:
    """Copy planes."""
    s.submit(0, copying_3d(s, descriptor), COPY_NODE)


@entry("cuMemcpy3DAsync_v2")
def copy_3d_async(s: Session, descriptor: int, stream: int) -> None:
    """Copy planes in a stream."""
    s.submit(stream, copying_3d(s, descriptor), COPY_NODE)


def _set(s: Session, words: Sequence[int], width: int, stream: int) -> None:
    """Set elements of `width` bytes: `words` are the target, the value and how many."""
    _set_rows(s, (words[0], 0, words[1], words[2], 1), width, stream)


def _set_rows(s: Session, words: Sequence[int], width: int, stream: int) -> None:
    """Set elements of rows: `words` are the target, the pitch, the value, columns and rows."""
    target, pitch, value, columns, rows = words[:5]
    work = filling(s, Plane(target, pitch), value & (1 << 8 * width) - 1, width, (columns, rows))
    s.submit(stream, work, SET_NODE)


_FILLS: Final = (
    ("cuMemsetD{}_v2", "cudaMemset", _set, None),
    ("cuMemsetD{}Async", "cudaMemsetAsync", _set, 3),
    ("cuMemsetD2D{}_v2", "cudaMemset2D", _set_rows, None),
    ("cuMemsetD2D{}Async", "cudaMemset2DAsync", _set_rows, 5),
)
"""The driver's functions, for elements of 8, 16 and 32 bits; the runtime's, for bytes; what they
do; which word is the stream."""


def _answer_fill(
    names: Sequence[str],
    fill: Callable[[Session, Sequence[int], int, int], None],
    width: int,
    stream: int | None,
) -> None:
    """Answer fills with elements of `width` bytes; word `stream` of them is the stream."""

    @entry(*names)
    def handler(s: Session, *words: int) -> None:
        fill(s, words, width, 0 if stream is None else words[stream])


for _driver, _runtime, _fill, _stream in _FILLS:
    _answer_fill((_driver.format(8), _runtime), _fill, 1, _stream)
    _answer_fill((_driver.format(16),), _fill, 2, _stream)
    _answer_fill((_driver.format(32),), _fill, 4, _stream)
