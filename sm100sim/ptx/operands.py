"""Operands of one statement: text -> typed values (PTX ISA, "Instruction Operands")."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

from .program import (
    Address,
    Imm,
    NotPred,
    Operand,
    PredPair,
    Reg,
    Sink,
    SpecialReg,
    Symbol,
    TensorAddress,
    Vector,
)

Lookup = Callable[[str], Reg | Symbol | Vector | None]
"""What a name means where the statement stands."""

_INTEGER = re.compile(
    r"([+-]?)(?:(0[xX][0-9a-fA-F]+)|(0[bB][01]+)|(0[0-7]*)|([1-9][0-9]*))U?\Z"
)  # fmt: skip
_BASES = (16, 2, 8, 10)
_FLOAT_BITS = re.compile(r"([+-]?)0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))\Z")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]{1,4})?\Z")
_NAME = re.compile(r"(?:[a-zA-Z][\w$]*|[_$%][\w$]+)(?:\.[xyzwrgba])?\Z", re.ASCII)
_ADDRESS = re.compile(r"\s*([%$_\w.]+)\s*(?:([+-])\s*([+-]?\s*\w+)\s*)?\Z", re.ASCII)
_BRACKETS = re.compile(r"[\[\](){},]")
_MAX_LITERAL_DIGITS = 80

_VECTORS = (
    "tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid",
)  # fmt: skip
SPECIAL_REGISTERS = frozenset(
    [f"%{base}.{axis}" for base in _VECTORS for axis in "xyz"]
    + [
        "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%is_explicit_cluster",
        "%cluster_ctarank", "%cluster_nctarank", "%lanemask_eq", "%lanemask_le", "%lanemask_lt",
        "%lanemask_ge", "%lanemask_gt", "%clock", "%clock_hi", "%clock64", "%globaltimer",
        "%globaltimer_lo", "%globaltimer_hi", "%dynamic_smem_size", "%total_smem_size",
        "%aggr_smem_size", "%reserved_smem_offset_begin", "%reserved_smem_offset_end",
        "%reserved_smem_offset_cap", "%reserved_smem_offset_0", "%reserved_smem_offset_1",
        "%current_graph_exec",
    ]
    + [f"%pm{number}{half}" for number in range(8) for half in ("", "_64")]
    + [f"%envreg{number}" for number in range(32)]
)  # fmt: skip
"""Special registers that are read as such (PTX ISA, "Special Registers")."""


class OperandError(ValueError):
    """An operand that cannot be read; `token` is the offending text, the caller adds the line."""

    def __init__(self, what: str, token: str) -> None:
        """`token` must occur in the statement as written."""
        super().__init__(what)
        self.token = token


def split_top(text: str) -> list[str]:
    """Split at the commas outside of brackets, braces and parentheses.

    Raises:
        OperandError: brackets do not match.
    """
    if "[" not in text and "{" not in text and "(" not in text:
        return [part.strip() for part in text.split(",")]
    parts: list[str] = []
    opened: list[str] = []
    start = 0
    for found in _BRACKETS.finditer(text):
        char = found.group()
        if char == ",":
            if not opened:
                parts.append(text[start : found.start()].strip())
                start = found.end()
        elif char in "[{(":
            opened.append({"[": "]", "{": "}", "(": ")"}[char])
        elif not opened or opened.pop() != char:
            raise OperandError(f"{char!r} does not match an opening bracket", char)
    if opened:
        raise OperandError(f"{opened[-1]!r} is missing", text[start:].strip())
    parts.append(text[start:].strip())
    return parts


def _integer(text: str) -> Imm | None:
    found = _INTEGER.match(text)
    if not found:
        return None
    group = found.lastindex or 0
    value = int(found.group(group), _BASES[group - 2])
    if found.group(1) == "-":
        value = -value
    if not -(1 << 63) <= value < 1 << 64:
        raise OperandError(f"{text} does not fit in 64 bits", text)
    return Imm(value, "int", text)


def literal(text: str) -> Imm | None:
    """An integer or float literal, or None (PTX ISA, "Constants").

    Raises:
        OperandError: a number beyond 64 bits.
    """
    if len(text) > _MAX_LITERAL_DIGITS:
        return None
    number = _integer(text)
    if number is not None:
        return number
    found = _FLOAT_BITS.match(text)
    if found:
        sign, single, double = found.groups()
        if single:
            return Imm(int(single, 16) ^ ((sign == "-") << 31), "f32", text)
        return Imm(int(double, 16) ^ ((sign == "-") << 63), "f64", text)
    if not _DECIMAL.match(text):
        return None
    value = float(text)
    if not math.isfinite(value):
        raise OperandError(f"{text} does not fit in a double", text)
    return Imm(struct.unpack("<Q", struct.pack("<d", value))[0], "f64", text)


def _named(text: str, lookup: Lookup) -> Operand:
    meaning = lookup(text)
    if meaning is not None:
        return meaning
    if text in SPECIAL_REGISTERS:
        return SpecialReg(text)
    if text == "WARP_SZ":
        return Imm(32, "int", text)
    if text[0] == "%":
        raise OperandError(f"{text} is neither declared nor a known special register", text)
    raise OperandError(f"{text} is not declared", text)


def _address(text: str, lookup: Lookup) -> Address:
    found = _ADDRESS.match(text)
    if not found:
        raise OperandError(f"address [{text}] is not understood", text)
    name, sign, offset = found.groups()
    amount = 0
    if offset is not None:
        number = literal(re.sub(r"\s", "", offset))
        if number is None or number.kind != "int":
            raise OperandError(f"address offset {offset!r} is not an integer", offset)
        amount = -number.value if sign == "-" else number.value
    constant = None if name[0] == "%" else literal(name)
    if constant is not None and constant.kind == "int":
        return Address(constant, amount)
    base = _named(name, lookup) if _NAME.match(name) else None
    if not isinstance(base, Reg | Symbol):
        raise OperandError(f"address base {name} is neither a register nor a variable", name)
    return Address(base, amount)


def _bracketed(text: str, lookup: Lookup) -> Operand:
    parts = split_top(text)
    base = _address(parts[0], lookup)
    if len(parts) == 1:
        return base
    coords = operand(parts[1], lookup) if len(parts) == 2 else None
    if not isinstance(coords, Vector):
        raise OperandError(f"[{text}] is neither an address nor a tensor coordinate", text)
    return TensorAddress(base, coords)


def _vector(text: str, lookup: Lookup) -> Vector:
    items = tuple(operand(part, lookup) for part in split_top(text))
    for item in items:
        if isinstance(item, Vector | Address | TensorAddress | PredPair):
            raise OperandError(f"{{{text}}} holds something else than values", text)
    return Vector(items)


def _pair(text: str, lookup: Lookup) -> PredPair:
    a, b = (operand(part.strip(), lookup) for part in text.split("|", 1))
    if not isinstance(a, Reg | Sink) or not isinstance(b, Reg | Sink):
        raise OperandError(f"{text} is not a pair of destinations", text)
    return PredPair(a, b)


def operand(text: str, lookup: Lookup) -> Operand:
    """One operand.

    Raises:
        OperandError: it is not understood.
    """
    if text == "_":
        return Sink()
    if _NAME.match(text):
        return _named(text, lookup)
    number = literal(text)
    if number is not None:
        return number
    if text[:1] == "[" and text[-1:] == "]":
        return _bracketed(text[1:-1], lookup)
    if text[:1] == "{" and text[-1:] == "}":
        return _vector(text[1:-1], lookup)
    if "|" in text:
        return _pair(text, lookup)
    if text[:1] == "!":
        inner = operand(text[1:].strip(), lookup)
        if isinstance(inner, Reg) and inner.type.bits == 1:
            return NotPred(inner)
    if not text:
        raise OperandError("an operand is missing", "")
    raise OperandError(f"operand {text!r} is not understood", text)
