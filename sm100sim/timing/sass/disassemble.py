"""A cubin as `SassKernel`: instructions with their control codes, targets and PTX lines.

An instruction is 128 bits, printed as two words. Bits 105-108 hold the stall count, 109 is 0 when
the warp yields, 110-112 and 113-115 the scoreboards of results and of operands (7: none), 116-121
those waited for, 122-125 the operands kept for reuse (docs/sources.md section 14).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..records import SassInstruction, SassKernel
from . import cubin as elf
from .pipes import pipe_of
from .tools import listing

_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*/\* 0x([0-9a-f]{16}) \*/")
_UPPER = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"^(\.L_\S+|\$\S+):")
_SECTION = re.compile(r"\s*\.section\s+([^,\s]+)")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_TARGET = re.compile(r"`\(([.$]\S+?)\)")
_TABLE = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
_GUARD = re.compile(r"@(!?U?P[0-9T]+)\s+(.*)")
_NO_SCOREBOARD = 7
FILE = "ptx"
"""File name of the lines that are lines of PTX (lines.py)."""
_STRAIGHT = ("BRA", "CALL", "JMP", "BRX")
"""Opcodes that go to the labels that they name; BSSY and others only remember one."""


@dataclass
class _Found:
    """One instruction of a listing before its labels are known."""

    address: int
    text: str
    ptx_line: int | None
    high: int = 0


@dataclass
class Listing:
    """Instructions and labels of one section of a listing.

    Attributes:
        code: what was found, in order. labels: name -> index of the instruction that follows.
    """

    code: list[_Found] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, section: str = "") -> Listing:
        """What `nvdisasm -hex -c -g` lists of a section, or of all when none is named."""
        found, inside, line = cls(), not section, None
        for row in text.splitlines():
            if head := _SECTION.match(row):
                inside, line = not section or head[1] == section, None
            if not inside:
                continue
            if label := _LABEL.match(row):
                found.labels[label[1]] = len(found.code)
            elif place := _PLACE.search(row):
                line = int(place[2]) if place[1] == FILE else None
            elif code := _LINE.search(row):
                found.code.append(_Found(int(code[1], 16), code[2], line))
            elif (upper := _UPPER.match(row)) and found.code and not found.code[-1].high:
                found.code[-1].high = int(upper[1], 16)
        return found

    def instructions(self) -> Iterator[SassInstruction]:
        """The instructions, decoded."""
        for index, found in enumerate(self.code):
            guard, body = "", found.text
            if guarded := _GUARD.match(body):
                guard, body = guarded[1], guarded[2]
            name, _, operands = body.partition(" ")
            opcode, *modifiers = name.rstrip(".").split(".")
            high = found.high
            yield SassInstruction(
                index=index,
                address=found.address,
                opcode=opcode,
                modifiers=tuple(modifiers),
                operands=" ".join(operands.split()),
                guard=guard,
                stall=high >> 41 & 0xF,
                yields=not high >> 45 & 1,
                write_barrier=_scoreboard(high >> 46),
                read_barrier=_scoreboard(high >> 49),
                wait_mask=high >> 52 & 0x3F,
                reuse=high >> 58 & 0xF,
                pipe=pipe_of(opcode),
                targets=self._targets(opcode, operands),
                ptx_line=found.ptx_line,
            )

    def _targets(self, opcode: str, operands: str) -> tuple[int, ...]:
        if opcode not in _STRAIGHT:
            return ()
        table = _TABLE.search(operands)
        names: Sequence[str] = table[1].split(",") if table else _TARGET.findall(operands)
        return tuple(self.labels[name] for name in names if name in self.labels)


def _scoreboard(bits: int) -> int | None:
    number = bits & 7
    return None if number == _NO_SCOREBOARD else number


def disassembled(cubin: bytes, arch: str, kernel: str = "") -> SassKernel:
    """Return the machine code of a kernel.

    Args:
        cubin: the file.
        arch: what it was made for, e.g. "sm_100a".
        kernel: its name; the only one's when not given.

    Raises:
        FileNotFoundError: nvdisasm is not installed; names its package.
        ValueError: no ELF file; no such kernel; an instruction whose unit is not known.
    """
    sections = elf.sections(cubin)
    names = elf.kernels(sections)
    name = kernel or (names[0] if len(names) == 1 else "")
    if name not in names:
        raise ValueError(f"kernel: {kernel!r} is not in the cubin; it has {', '.join(names)}")
    return SassKernel(
        name=name,
        arch=arch,
        registers=elf.registers(sections, name),
        compiler=elf.compiler(sections),
        instructions=tuple(Listing.of(listing(cubin), f".text.{name}").instructions()),
        text=sections[f".text.{name}"].data,
    )
