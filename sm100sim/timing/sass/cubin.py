"""Sections of a cubin, which is a 64-bit ELF file, and what they say of a kernel."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

MAGIC = b"\x7fELF"
SECTION = struct.Struct("<IIQQQQIIQQ")
TABLE_AT, COUNT_AT, NAMES_AT = 0x28, 0x3C, 0x3E
NO_DATA = 8
"""Type of a section that takes no room in the file (SHT_NOBITS)."""
REGISTER_COUNT = struct.Struct("<HHII")
REGISTER_COUNT_HEAD = (0x2F04, 8)
"""Attribute of .nv.info with a symbol and its registers (EIATTR_REGCOUNT, format SVAL), and its
size."""
SYMBOL_BITS = 24
"""Bits of a code section's information that name its symbol."""


@dataclass(frozen=True, slots=True)
class Section:
    """Bytes of a section, and its header's information word."""

    data: bytes
    info: int


def sections(cubin: bytes) -> dict[str, Section]:
    """Return the sections by name.

    Raises:
        ValueError: the bytes are no ELF file.
    """
    if cubin[:4] != MAGIC:
        raise ValueError(f"cubin: it starts with {cubin[:4].hex()}, which is no ELF file")
    (table,) = struct.unpack_from("<Q", cubin, TABLE_AT)
    (count,) = struct.unpack_from("<H", cubin, COUNT_AT)
    (names,) = struct.unpack_from("<H", cubin, NAMES_AT)
    rows = [SECTION.unpack_from(cubin, table + SECTION.size * k) for k in range(count)]
    found = {}
    for name_at, kind, _, _, offset, size, _, info, _, _ in rows:
        begin = rows[names][4] + name_at
        name = cubin[begin : cubin.index(b"\0", begin)].decode()
        found[name] = Section(b"" if kind == NO_DATA else cubin[offset : offset + size], info)
    return found


def kernels(found: dict[str, Section]) -> list[str]:
    """Return the names of the functions that have code of their own."""
    return [name.removeprefix(".text.") for name in found if name.startswith(".text.")]


def registers(found: dict[str, Section], kernel: str) -> int:
    """Return the registers that each thread of a kernel has at its start.

    Raises:
        ValueError: the file does not say.
    """
    symbol = found[f".text.{kernel}"].info & (1 << SYMBOL_BITS) - 1
    data = found[".nv.info"].data if ".nv.info" in found else b""
    for at in range(0, len(data) - REGISTER_COUNT.size + 1, 4):
        *head, of, count = REGISTER_COUNT.unpack_from(data, at)
        if tuple(head) == REGISTER_COUNT_HEAD and of == symbol:
            return int(count)
    raise ValueError(f"cubin: no register count of {kernel}")


def compiler(found: dict[str, Section]) -> str:
    """Return the version of the ptxas that made the file, e.g. "13.4.59", or "" if it is old."""
    note = found.get(".note.nv.tkinfo")
    version = re.search(rb"\bV(\d+\.\d+\.\d+)", note.data) if note else None
    return version[1].decode() if version else ""
