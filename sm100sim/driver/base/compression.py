"""Decompression of fat binaries' entries: LZ4 blocks here, Zstandard by a library."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import sys

from .codes import CudaError, Status

MINIMUM_MATCH = 4
LONG = 15
"""A length of four bits that goes on in further bytes (LZ4 block format description)."""


def lz4_block(data: bytes, size: int) -> bytes:
    """The `size` bytes of an LZ4 block.

    Raises:
        CudaError: the block is damaged.
    """
    out = bytearray()
    at = 0
    try:
        while at < len(data) and len(out) < size:
            token = data[at]
            literals, at = _length(data, at + 1, token >> 4)
            out += data[at : at + literals]
            at += literals
            if at >= len(data) or len(out) >= size:
                break
            distance = data[at] | data[at + 1] << 8
            count, at = _length(data, at + 2, token & 15)
            count += MINIMUM_MATCH
            if not 0 < distance <= len(out):
                raise IndexError
            start = len(out) - distance
            for k in range(count):
                out.append(out[start + k])
    except IndexError:
        raise CudaError(Status.INVALID_IMAGE, "an LZ4 block of the image is damaged") from None
    if len(out) != size:
        raise CudaError(Status.INVALID_IMAGE, f"an LZ4 block gave {len(out)} of {size} bytes")
    return bytes(out)


def _length(data: bytes, at: int, start: int) -> tuple[int, int]:
    """A length that begins with `start`, and where the data goes on."""
    total = start
    if start == LONG:
        while True:
            total += data[at]
            at += 1
            if data[at - 1] != 255:
                break
    return total, at


def zstandard(data: bytes, size: int) -> bytes:
    """The `size` bytes of a Zstandard frame.

    Raises:
        CudaError: the frame is damaged, or nothing here can read it.
    """
    if sys.version_info >= (3, 14):
        return bytes(importlib.import_module("compression.zstd").decompress(data))
    name = ctypes.util.find_library("zstd") or "libzstd.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        what = (
            "the image's PTX is compressed with Zstandard, and neither Python 3.14 nor libzstd is "
            "here; install libzstd, or give nvcc --compress-mode=speed or --no-compress"
        )
        raise CudaError(Status.INVALID_IMAGE, what) from None
    buffer = ctypes.create_string_buffer(max(size, 1))
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    got = library.ZSTD_decompress(buffer, size, data, len(data))
    if got != size:
        raise CudaError(Status.INVALID_IMAGE, "a Zstandard frame of the image is damaged")
    return buffer.raw[:size]

