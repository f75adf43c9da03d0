from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

import pytest

from sm100sim.host.images import FATBIN_MAGIC, PtxCatalogue, UnknownImageError, cubins_at

Load = Callable[[bytes], int]


def elf(payload: bytes) -> bytes:
    """A minimal ELF64 file: header, one section's bytes, then a section table of two entries."""
    table = 64 + len(payload)
    head = bytearray(64)
    head[:4] = b"\x7fELF"
    struct.pack_into("<QQ", head, 0x20, 0, table)
    struct.pack_into("<4H", head, 0x36, 0, 0, 64, 2)
    data = bytearray(64)
    struct.pack_into("<I", data, 4, 1)
    struct.pack_into("<QQ", data, 0x18, 64, len(payload))
    empty = bytearray(64)
    struct.pack_into("<I", empty, 4, 8)
    struct.pack_into("<QQ", empty, 0x18, 64, 1 << 40)
    return bytes(head) + payload + bytes(data) + bytes(empty)


def fatbin(*cubins: bytes, flags: int = 0) -> bytes:
    entries = b"".join(
        struct.pack("<HHIQ24xQ16x", 2, 0x101, 64, len(cubin), flags) + cubin for cubin in cubins
    )
    return struct.pack("<IHHQ", FATBIN_MAGIC, 1, 16, len(entries)) + entries


@pytest.fixture
def load() -> Load:
    """Puts bytes at a host address, followed by bytes which do not belong to them."""
    kept = []

    def place(image: bytes) -> int:
        kept.append(ctypes.create_string_buffer(image + b"\xaa" * 256))
        return ctypes.addressof(kept[-1])

    return place


def test_the_length_of_a_bare_cubin_comes_from_its_own_tables(load: Load) -> None:
    image = elf(b"one" * 5)
    assert cubins_at(load(image)) == [image]


def test_a_fat_binary_gives_its_cubins(load: Load) -> None:
    first, second = elf(b"first"), elf(b"the second")
    assert cubins_at(load(fatbin(first, second))) == [first, second]


def test_each_image_gets_the_ptx_it_was_assembled_from(load: Load) -> None:
    catalogue = PtxCatalogue()
    catalogue.add(elf(b"a"), "ptx a")
    catalogue.add(elf(b"b"), "ptx b")
    assert len(catalogue) == 2
    assert catalogue.lookup(load(elf(b"a"))) == "ptx a"
    assert catalogue.lookup(load(fatbin(elf(b"b")))) == "ptx b"


def test_an_unknown_cubin_is_refused_even_when_only_one_ptx_is_known(load: Load) -> None:
    catalogue = PtxCatalogue()
    catalogue.add(elf(b"known"), "ptx")
    with pytest.raises(UnknownImageError, match=r"not compiled after sm100sim\.activate"):
        catalogue.lookup(load(elf(b"other")))


@pytest.mark.parametrize("flags", [0x2000, 0x8000])
def test_compressed_cubins_are_refused(load: Load, flags: int) -> None:
    with pytest.raises(UnknownImageError, match="compressed"):
        cubins_at(load(fatbin(elf(b"x"), flags=flags)))


def test_two_cubins_in_one_image_are_refused(load: Load) -> None:
    catalogue = PtxCatalogue()
    catalogue.add(elf(b"a"), "ptx a")
    with pytest.raises(UnknownImageError, match="2 cubins"):
        catalogue.lookup(load(fatbin(elf(b"a"), elf(b"b"))))


def test_other_bytes_and_a_null_address_are_refused(load: Load) -> None:
    with pytest.raises(UnknownImageError, match="neither a cubin nor a fat binary"):
        cubins_at(load(b"MZ" + bytes(64)))
    with pytest.raises(UnknownImageError, match="address 0"):
        cubins_at(0)
