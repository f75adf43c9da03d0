"""Copies from and to CUDA arrays, without those by descriptors (CUDA Runtime API, "Memory
Management"; CUDA Driver API, the same).

The rows of an array lie without gaps (`CudaArray`), so a range of its bytes is one copy.
"""

from __future__ import annotations

from ..api.copies import Plane, array_plane, copying, copying_rows
from ..base.session import COPY_NODE, Session
from ..base.table import entry


def _bytes(s: Session, target: int, source: int, size: int, stream: int) -> None:
    s.submit(stream, copying(s, target, source, size), COPY_NODE)


@entry("cudaMemcpyToArray")
def to_array(s: Session, array: int, x: int, y: int, source: int, size: int) -> None:
    """Copy bytes to an array, row after row."""
    _bytes(s, array_plane(s, array, x, y).start, source, size, 0)


@entry("cudaMemcpyToArrayAsync")
def to_array_async(s: Session, *words: int) -> None:
    """Copy bytes to an array in a stream."""
    array, x, y, source, size, _kind, stream = words[:7]
    _bytes(s, array_plane(s, array, x, y).start, source, size, stream)


@entry("cudaMemcpyFromArray")
def from_array(s: Session, target: int, array: int, x: int, y: int, size: int) -> None:
    """Copy bytes from an array, row after row."""
    _bytes(s, target, array_plane(s, array, x, y).start, size, 0)


@entry("cudaMemcpyFromArrayAsync")
def from_array_async(s: Session, *words: int) -> None:
    """Copy bytes from an array in a stream."""
    target, array, x, y, size, _kind, stream = words[:7]
    _bytes(s, target, array_plane(s, array, x, y).start, size, stream)


@entry("cudaMemcpyArrayToArray")
def between_arrays(s: Session, *words: int) -> None:
    """Copy bytes between arrays."""
    target, to_x, to_y, source, x, y, size = words[:7]
    starts = array_plane(s, target, to_x, to_y).start, array_plane(s, source, x, y).start
    _bytes(s, *starts, size, 0)


def _rows(s: Session, sides: tuple[Plane, Plane], width: int, height: int, stream: int) -> None:
    s.submit(stream, copying_rows(s, *sides, (width, height, 1)), COPY_NODE)


@entry("cudaMemcpy2DToArray")
def rows_to_array(s: Session, *words: int) -> None:
    """Copy rows to an array."""
    array, x, y, source, pitch, width, height = words[:7]
    _rows(s, (array_plane(s, array, x, y), Plane(source, pitch)), width, height, 0)


@entry("cudaMemcpy2DToArrayAsync")
def rows_to_array_async(s: Session, *words: int) -> None:
    """Copy rows to an array in a stream."""
    array, x, y, source, pitch, width, height, _kind, stream = words[:9]
    _rows(s, (array_plane(s, array, x, y), Plane(source, pitch)), width, height, stream)


@entry("cudaMemcpy2DFromArray")
def rows_from_array(s: Session, *words: int) -> None:
    """Copy rows from an array."""
    target, pitch, array, x, y, width, height = words[:7]
    _rows(s, (Plane(target, pitch), array_plane(s, array, x, y)), width, height, 0)


@entry("cudaMemcpy2DFromArrayAsync")
def rows_from_array_async(s: Session, *words: int) -> None:
    """Copy rows from an array in a stream."""
    target, pitch, array, x, y, width, height, _kind, stream = words[:9]
    _rows(s, (Plane(target, pitch), array_plane(s, array, x, y)), width, height, stream)


@entry("cudaMemcpy2DArrayToArray")
def rows_between_arrays(s: Session, *words: int) -> None:
    """Copy rows between arrays."""
    target, to_x, to_y, source, x, y, width, height = words[:8]
    sides = array_plane(s, target, to_x, to_y), array_plane(s, source, x, y)
    _rows(s, sides, width, height, 0)


@entry("cuMemcpyHtoA_v2", "cuMemcpyDtoA_v2")
def driver_to_array(s: Session, array: int, offset: int, source: int, size: int) -> None:
    """Copy bytes to an array of one dimension."""
    _bytes(s, array_plane(s, array, offset, 0).start, source, size, 0)


@entry("cuMemcpyAtoH_v2", "cuMemcpyAtoD_v2")
def driver_from_array(s: Session, target: int, array: int, offset: int, size: int) -> None:
    """Copy bytes from an array of one dimension."""
    _bytes(s, target, array_plane(s, array, offset, 0).start, size, 0)
