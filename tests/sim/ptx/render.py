"""The typed program back to text, and an independent way to cut PTX into statements.

Both are for comparison only: white space is dropped, address offsets are decimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sm100sim.ptx import (
    Address,
    Imm,
    Instr,
    NotPred,
    Operand,
    PredPair,
    Sink,
    TensorAddress,
    Vector,
)


def render_operand(value: Operand) -> str:
    if isinstance(value, Imm):
        return value.text
    if isinstance(value, Sink):
        return "_"
    if isinstance(value, NotPred):
        return f"!{value.reg.name}"
    if isinstance(value, PredPair):
        return f"{render_operand(value.a)}|{render_operand(value.b)}"
    if isinstance(value, Vector):
        return "{" + ",".join(map(render_operand, value.items)) + "}"
    if isinstance(value, TensorAddress):
        return f"{render_operand(value.base)[:-1]},{render_operand(value.coords)}]"
    if isinstance(value, Address):
        return f"[{render_operand(value.base)}{value.offset:+d}]"
    return value.name


def render(ins: Instr) -> str:
    """`ins` without white space; a branch ends with the index of its target."""
    guard = f"@{'!' * ins.guard.negated}{ins.guard.reg.name}" if ins.guard else ""
    operands = ",".join(map(render_operand, ins.operands))
    return guard + ".".join((ins.opcode, *ins.mods)) + (operands or str(ins.target or ""))


def _address(found: re.Match[str]) -> str:
    base, sign, offset = found.groups()
    value = int(offset, 0) if offset else 0
    return f"[{base}{-value if sign == '-' else value:+d}"


def _canonical(statement: str) -> str:
    tight = re.sub(r"\s", "", statement)
    return re.sub(r"\[([^][{},+-]+)(?:([+-])(-?\w+))?(?=[],])", _address, tight)


def _pieces(body: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Labels with their colon and statements, each with the braces around it (their numbers)."""
    body = re.sub(r"//.*|/\*[^*]*\*/", "", body)
    body = re.sub(r"^\s*\.(loc|file)\s.*|\.(reg|pragma|shared|local)\s[^;]*;", "", body, flags=re.M)
    # A brace that opens or closes a scope follows ';', ':' or another such brace.
    body = re.sub(r"(?<=[;:{}])\s*([{}])(?=\s)", r"\1;", f";{body}\n")
    body = re.sub(r"([;}\s])([$%\w]+)\s*:(?!:)", r"\1;\2:;", body)
    opened: list[int] = []
    for number, piece in enumerate(body.split(";")):
        if piece.strip() == "{":
            opened.append(number)
        elif piece.strip() == "}":
            opened.pop()
        elif piece.strip():
            yield tuple(opened), piece


def statements(body: str) -> list[str]:
    """Instructions of a body in source order, canonical; a branch ends with its target's index."""
    out: list[str] = []
    labels: dict[tuple[tuple[int, ...], str], int] = {}
    jumps: list[tuple[int, tuple[int, ...], str, str]] = []
    for scope, piece in _pieces(body):
        if piece.endswith(":"):
            labels[scope, piece[:-1]] = len(out)
            continue
        jump = re.fullmatch(r"(\s*(?:@!?[%\w]+\s+)?bra(?:\.uni)?)\s+([$%\w]+)\s*", piece)
        if jump:
            jumps.append((len(out), scope, jump.group(1), jump.group(2)))
        out.append(_canonical(piece))
    for at, scope, text, name in jumps:
        visible = [k for k in range(len(scope), -1, -1) if (scope[:k], name) in labels]
        out[at] = _canonical(text) + str(labels[scope[: visible[0]], name] or "")
    return out
