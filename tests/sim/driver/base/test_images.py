"""PTX out of what a program loads."""

from __future__ import annotations

import struct

import pytest

from sm100sim.driver.base import images
from sm100sim.driver.base.codes import CudaError, Status
from sm100sim.driver.base.compression import lz4_block, zstandard

TEXT = b".version 8.7\n.target sm_100a\n.address_size 64\n"
PTX, CUBIN, LZ4, ZSTANDARD = 1, 2, 0x2000, 0x8000


def entry(payload: bytes, kind: int = PTX, sm: int = 100, flags: int = 0, size: int = 0) -> bytes:
    padded = payload.ljust(-(-len(payload) // 8) * 8, b"\0")
    compressed = len(payload) if flags else 0
    head = (kind, 0x101, 80, len(padded), compressed, 64, 0, sm, 0, 0, flags, 0, size)
    return struct.pack("<HHIQIIIIIIQQQ16x", *head) + padded


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", images.FATBIN_MAGIC, 1, 16, len(body)) + body


def frame(data: bytes) -> bytes:
    """A Zstandard frame of one block that is stored as it is (RFC 8878, 3.1.1)."""
    block = struct.pack("<I", len(data) << 3 | 1)[:3]
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + block + data


def test_text_and_fat_binaries() -> None:
    assert images.ptx_of(TEXT) == TEXT.decode()
    assert images.ptx_of(fatbin(entry(TEXT + b"\0"))) == TEXT.decode()
    assert images.ptx_of(images.LINKED_MAGIC + TEXT) == TEXT.decode()


def test_the_newest_architecture_of_this_family_is_chosen() -> None:
    parts = [entry(b"90", sm=90), entry(b"100"), entry(b"120", sm=120), entry(b"x", CUBIN)]
    assert images.ptx_of(fatbin(*parts)) == "100"
    assert images.ptx_of(fatbin(*parts[::2])) == "90"


def test_the_wrapper_of_nvcc() -> None:
    data = fatbin(entry(TEXT))
    memory = bytes(8) + struct.pack("<IIQQ", images.WRAPPER_MAGIC, 1, 64, 0).ljust(56, b"\0") + data
    assert images.ptx_at(8, lambda at, n: memory[at : at + n], lambda at: "") == TEXT.decode()


@pytest.mark.parametrize("image", [b"\x7fELF" + bytes(60), fatbin(entry(b"", CUBIN))])
def test_machine_code_is_refused(image: bytes) -> None:
    with pytest.raises(CudaError, match="machine code cannot be run here") as caught:
        images.ptx_of(image)
    assert caught.value.code == Status.NO_BINARY


def test_compressed_entries() -> None:
    # "abcd", then 12 bytes from 4 back, then the literals "xyz"
    block = bytes([0x48]) + b"abcd" + b"\x04\x00" + bytes([0x30]) + b"xyz"
    data = b"abcd" * 4 + b"xyz"
    assert lz4_block(block, len(data)) == data
    assert images.ptx_of(fatbin(entry(block, flags=LZ4, size=len(data)))) == data.decode()
    assert images.ptx_of(fatbin(entry(frame(TEXT), flags=ZSTANDARD, size=len(TEXT)))) == (
        TEXT.decode()
    )


def test_long_lengths_of_lz4() -> None:
    literals = bytes(range(256)) + b"0123456789"
    # 15 + 251 literals, and a match of 4 + 15 + 255 + 3 bytes
    block = bytes([0xFF, 251]) + literals + b"\x0a\x00" + bytes([255, 3])
    assert lz4_block(block, 266 + 277) == literals + (b"0123456789" * 28)[:277]


@pytest.mark.parametrize("block", [b"\x48abcd", b"\x10a\x05\x00", b"\xf0", b"\x10a"])
def test_damaged_blocks(block: bytes) -> None:
    with pytest.raises(CudaError, match="LZ4"):
        lz4_block(block, 100)
    with pytest.raises(CudaError, match="Zstandard"):
        zstandard(block, 100)
