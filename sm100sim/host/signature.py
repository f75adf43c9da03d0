"""The parameter list of a PTX entry: how many bytes each kernel argument has.

PTX ISA, "Kernel and Function Directives: .entry": ``.entry name ( .param [.align n] type
name[size], … )``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<before>\d+)\s+)?\.(?P<kind>[a-z])(?P<bits>\d+)"
    r"(?:\s+\.ptr(?:\s+\.\w+)*(?:\s+\.align\s+\d+)?)?"
    r"\s+(?P<name>[\w$]+)\s*(?:\[(?P<count>\d*)\])?\s*$"
)


@dataclass(frozen=True)
class KernelParam:
    """One ``.param`` of an entry: its name, its size and its alignment in bytes."""

    name: str
    size: int
    align: int


def entry_signatures(ptx: str) -> dict[str, tuple[KernelParam, ...]]:
    """The parameters of every ``.entry`` in a PTX module, by entry name.

    Raises:
        ValueError: a parameter declaration that is not understood.
    """
    text = _COMMENT.sub(" ", ptx)
    return {
        match[1]: tuple(_param(part, match[1]) for part in _split(match[2] or ""))
        for match in _ENTRY.finditer(text)
    }


def _split(parameters: str) -> list[str]:
    return [part.strip() for part in parameters.split(",") if part.strip()]


def _param(declaration: str, entry: str) -> KernelParam:
    match = _PARAM.match(declaration)
    if match is None:
        raise ValueError(f"entry {entry}: parameter declaration not understood: {declaration!r}")
    unit = int(match["bits"]) // 8
    count = match["count"]
    if count == "":
        raise ValueError(f"entry {entry}: parameter of unknown size: {declaration!r}")
    return KernelParam(match["name"], unit * int(count or 1), int(match["before"] or unit))
