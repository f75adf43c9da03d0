"""Operands of one statement: text -> typed values."""

from __future__ import annotations

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

Lookup = Callable[[str], Reg | None]

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT = re.compile(r"([+-]?)(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)$")
_NAME = re.compile(r"[%$_a-zA-Z][\w$%.]*$")
_ADDRESS = re.compile(r"\s*([%$_\w.]+)\s*(?:([+-])\s*([+-]?\s*\w+)\s*)?$")

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
SPECIAL_REGISTERS = frozenset(
    [f"%{base}.{axis}" for base in _VECTORS for axis in "xyz"]
    + [
        "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%is_explicit_cluster", "%cluster_ctarank",
        "%cluster_nctarank", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
        "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
        "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%reserved_smem_offset_begin",
        "%reserved_smem_offset_end", "%reserved_smem_offset_cap", "%current_graph_exec",
    ]
)  # fmt: skip


class OperandError(ValueError):
    """An operand that cannot be read; the caller adds the line."""


def split_top(text: str) -> list[str]:
    """Split at commas outside of brackets, braces and parentheses."""
    if "[" not in text and "{" not in text and "(" not in text:
        return [part.strip() for part in text.split(",")]
    parts, depth, start = [], 0, 0
    for k, char in enumerate(text):
        if char in "[{(":
            depth += 1
        elif char in "]})":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    parts.append(text[start:].strip())
    return parts


def literal(text: str) -> Imm | None:
    """An integer or float literal, or None (PTX ISA, "Constants")."""
    found = _INTEGER.match(text)
    if found:
        sign, digits = found.groups()
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        value = int(digits, 8 if octal else 0)
        return Imm(-value if sign == "-" else value, "int", text)
    found = _FLOAT.match(text)
    if not found:
        return None
    sign, digits = found.groups()
    head = digits[:2].lower()
    if head == "0f":
        bits = int(digits[2:], 16)
        return Imm(bits ^ (1 << 31) if sign == "-" else bits, "f32", text)
    if head == "0d":
        bits = int(digits[2:], 16)
        return Imm(bits ^ (1 << 63) if sign == "-" else bits, "f64", text)
    value64 = struct.unpack("<Q", struct.pack("<d", float(sign + digits)))[0]
    return Imm(value64, "f64", text)


def _named(text: str, lookup: Lookup) -> Operand:
    reg = lookup(text)
    if reg is not None:
        return reg
    if text in SPECIAL_REGISTERS:
        return SpecialReg(text)
    if text == "WARP_SZ":
        return Imm(32, "int", text)
    if text.startswith("%"):
        raise OperandError(f"register {text} is not declared")
    return Symbol(text)


def _address(text: str, lookup: Lookup) -> Address:
    found = _ADDRESS.match(text)
    if not found:
        raise OperandError(f"address [{text}] is not understood")
    name, sign, offset = found.groups()
    amount = 0
    if offset is not None:
        number = literal(offset.replace(" ", ""))
        if number is None or number.kind != "int":
            raise OperandError(f"address offset {offset!r} is not an integer")
        amount = -number.value if sign == "-" else number.value
    constant = literal(name)
    if constant is not None:
        return Address(constant, amount)
    base = _named(name, lookup)
    if not isinstance(base, Reg | Symbol):
        raise OperandError(f"address base {name} is neither a register nor a symbol")
    return Address(base, amount)


def _bracketed(text: str, lookup: Lookup) -> Operand:
    parts = split_top(text)
    base = _address(parts[0], lookup)
    if len(parts) == 1:
        return base
    coords = operand(parts[1], lookup) if len(parts) == 2 else None
    if not isinstance(coords, Vector):
        raise OperandError(f"[{text}] is neither an address nor a tensor coordinate")
    return TensorAddress(base, coords)


def operand(text: str, lookup: Lookup) -> Operand:
    """One operand.

    Raises:
        OperandError: it is not understood.
    """
    if _NAME.match(text):
        return Sink() if text == "_" else _named(text, lookup)
    number = literal(text)
    if number is not None:
        return number
    if text[:1] == "[" and text[-1:] == "]":
        return _bracketed(text[1:-1], lookup)
    if text[:1] == "{" and text[-1:] == "}":
        return Vector(tuple(operand(part, lookup) for part in split_top(text[1:-1])))
    if "|" in text:
        a, _, b = text.partition("|")
        return PredPair(operand(a.strip(), lookup), operand(b.strip(), lookup))
    if text[:1] == "!":
        inner = operand(text[1:].strip(), lookup)
        if isinstance(inner, Reg):
            return NotPred(inner)
    raise OperandError(f"operand {text!r} is not understood")
