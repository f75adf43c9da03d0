"""Machine code that knows its PTX: a `.loc` before each line of instructions, and ptxas -lineinfo.

The line numbers are those of the PTX text itself, so what the simulator says of a PTX line and what
nvdisasm says of an instruction meet. ptxas makes the same code with them as without: checked.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Final

from ...ptx.lexer import Source
from ..records import SassKernel
from . import cubin as elf
from .disassemble import FILE, disassembled
from .tools import assembled, version

_DEBUG = re.compile(r"^\s*\.(?:loc|file)\b.*$", re.M)
_DEBUG_SECTION = re.compile(r"^\s*\.section\s+\.debug\w*\s*\{.*?^\s*\}", re.M | re.S)
_TARGET = re.compile(r"^(\s*\.target\s+\S+?),\s*debug\b", re.M)
_LABEL = re.compile(r"\s*[$\w%.]+\s*:(?!:)")
_ENDS = (";", "{", "}", ":")
TRIES: Final = 8
"""How often a text is assembled until both codes are equal: now and then ptxas 12.9 makes one of
two codes of the same text, whose orders of instructions differ."""


def numbered(ptx: str) -> str:
    """Return a PTX module with a `.loc` that names each line that begins an instruction.

    Lines of the front end are left out; so are lines in the middle of a statement.
    """
    blank = _TARGET.sub(r"\1", _DEBUG_SECTION.sub(lambda m: "\n" * m[0].count("\n"), ptx))
    plain = _DEBUG.sub("", blank)
    clean = Source(plain).text.split("\n")
    out: list[str] = []
    depth, ended = 0, True
    for number, (row, text) in enumerate(zip(plain.split("\n"), clean, strict=True), 1):
        words = text.strip()
        if depth and ended and _is_instruction(words):
            out.append(f".loc 1 {number} 0")
        out.append(row)
        depth += text.count("{") - text.count("}")
        if words:
            ended = words.endswith(_ENDS)
    return "\n".join([*out, f'.file 1 "{FILE}"', ""])


def _is_instruction(words: str) -> bool:
    """Whether a line of a function's body begins an instruction, behind labels and braces."""
    rest = words.lstrip("{} \t")
    while label := _LABEL.match(rest):
        rest = rest[label.end() :].lstrip("{} \t")
    return bool(rest) and not rest.startswith((".", ")", "("))


def compiled(ptx: str, arch: str, kernel: str = "", *, ptxas: str | None = None) -> SassKernel:
    """Return the machine code of a kernel, each instruction with the PTX line it comes from.

    Args:
        ptx: text of the module.
        arch: target, e.g. "sm_90a".
        kernel: its name; the only one's when not given.
        ptxas: path of the assembler; that of the package when not given.

    Raises:
        FileNotFoundError: ptxas or nvdisasm is not installed; names the package.
        ValueError: ptxas refuses the text, there is no such kernel, or the line numbers changed the
            code.
    """
    with ThreadPoolExecutor(2) as pool:
        plain = pool.submit(assembled, ptx, arch, ptxas=ptxas)
        told = disassembled(assembled(numbered(ptx), arch, "-lineinfo", ptxas=ptxas), arch, kernel)
        first = plain.result()
    further = (assembled(ptx, arch, ptxas=ptxas) for _ in range(TRIES - 1))
    if not any(_code(cubin, told.name) == told.text for cubin in chain([first], further)):
        raise ValueError(f"{told.name}: ptxas makes other code when it keeps line numbers")
    return told if told.compiler else replace(told, compiler=version(ptxas))


def _code(cubin: bytes, kernel: str) -> bytes:
    """The machine code of a kernel."""
    return elf.sections(cubin)[f".text.{kernel}"].data


def of_cubin(
    cubin: bytes, ptx: str, arch: str, kernel: str, *, ptxas: str | None = None
) -> SassKernel:
    """Return the machine code of a cubin with the lines of the PTX that it was made of.

    Raises:
        FileNotFoundError, ValueError: as `compiled`; and when this ptxas makes other code than the
            cubin's.
    """
    told = compiled(ptx, arch, kernel, ptxas=ptxas)
    if _code(cubin, kernel) != told.text:
        made = elf.compiler(elf.sections(cubin)) or "another version"
        raise ValueError(
            f"{kernel}: the cubin was made by ptxas {made}, and ptxas {told.compiler} makes other "
            "code; give ptxas= the one that made it"
        )
    return told
