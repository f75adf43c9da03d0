"""Stall counts along paths of SM100 machine code, from ``nvdisasm -hex``.

An instruction is 128 bits; bits 105-108 hold the cycles before its warp may issue the next one. The
sum along a path is a lower bound of the time a warp needs for it: waits for loads, busy pipes and
other warps come on top (``performance.md`` section 4.1).
"""

from __future__ import annotations

import heapq
import re
import subprocess
import tempfile
from dataclasses import dataclass

_STALL_SHIFT = 105 - 64
_STALL_MASK = 0xF
_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*/\* 0x([0-9a-f]{16}) \*/")
_UPPER = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"^(\.L_\S+):")
_TARGET = re.compile(r"`\((\.L_\S+)\)")


@dataclass(frozen=True)
class Instruction:
    """One instruction: text, stall cycles, and the indices of those that may follow it."""

    text: str
    stall: int
    successors: tuple[int, ...]


def disassemble(cubin: bytes, nvdisasm: str) -> list[Instruction]:
    """Return the instructions of the only kernel in ``cubin``.

    Raises:
        subprocess.CalledProcessError: when ``nvdisasm`` refuses the file.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [nvdisasm, "-hex", "-c", file.name]
        text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return parse(text)


def parse(text: str) -> list[Instruction]:
    """Return the instructions of a listing of ``nvdisasm -hex -c``."""
    texts: list[str] = []
    stalls: list[int] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(texts)
        elif found := _LINE.search(line):
            texts.append(found[2].strip())
        elif (upper := _UPPER.match(line)) and len(stalls) < len(texts):
            stalls.append(int(upper[1], 16) >> _STALL_SHIFT & _STALL_MASK)
    return [
        Instruction(body, stall, _successors(i, body, labels, len(texts)))
        for i, (body, stall) in enumerate(zip(texts, stalls, strict=True))
    ]


def _successors(index: int, text: str, labels: dict[str, int], count: int) -> tuple[int, ...]:
    after = (index + 1,) if index + 1 < count else ()
    if re.match(r"(EXIT|RET)\b", text):
        return ()
    target = _TARGET.search(text)
    if target is None or "BRA" not in text or target[1] not in labels:
        return after
    goal = labels[target[1]]
    unconditional = text.startswith(("BRA `", "BRA.UNI `"))
    return (goal,) if unconditional else (*after, goal)


def fewest_stalls(code: list[Instruction], start: int) -> dict[int, int]:
    """Return, for every instruction reachable from ``start``, the fewest stalls on the way."""
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        cost, index = heapq.heappop(queue)
        if cost > best[index]:
            continue
        for following in code[index].successors:
            reached = cost + code[index].stall
            if reached < best.get(following, reached + 1):
                best[following] = reached
                heapq.heappush(queue, (reached, following))
    return best


def spills(code: list[Instruction]) -> int:
    """Return the number of local-memory loads and stores."""
    return sum(bool(re.search(r"\b(LDL|STL)\b", instruction.text)) for instruction in code)
