"""Declarations: variables, kernel parameters, kernel directives.

PTX ISA, "Variables", "Kernel and Function Directives", "Performance-Tuning Directives" and "Cluster
Dimension Directives".
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal, cast

from .lexer import Source
from .operands import OperandError, literal
from .program import DirectiveValue, GlobalVar, Param, Reg, Signature
from .types import TYPES, PtxType

_VARIABLE = re.compile(
    r"((?:\.(?:visible|extern|weak|common)\s*)*)\.(shared|global|const|local)\s*"
    r"(?:\.attribute\s*\(\s*\.managed\s*\)\s*)?"  # where it lies is the loader's affair
    r"(?:\.align\s+(\d+)\s*)?\.(\w+)\s+([$_a-zA-Z][\w$]*)\s*((?:\[\s*\d*\s*\]\s*)*)"
    r"(?:=\s*(.*?)\s*)?;\Z", re.S | re.ASCII,
)  # fmt: skip
_LINK = re.compile(
    r"\s*(?:generic\(\s*([$_a-zA-Z][\w$]*)\s*\)|([$_a-zA-Z][\w$]*))\s*([+-]\s*\d{1,18})?\s*\Z",
    re.ASCII,
)
_DIMENSION = re.compile(r"\[\s*(\d*)\s*\]", re.ASCII)
_PARAM = re.compile(
    r"\s*\.(param|reg)\s*(?:\.align\s+(\d+)\s*)?\.(\w+)\s+"
    r"(?:\.ptr\s+(?:\.(?:global|shared|const|local|param)\s+)?(?:\.align\s+\d+\s+)?)?"
    r"([$_a-zA-Z][\w$]*)\s*(?:\[\s*(\d+)\s*\]\s*)?\Z", re.ASCII,
)  # fmt: skip
_DIRECTIVE = re.compile(r'\.(\w+)\s*("[^"\n]*"\s*;|(?:\d+(?:\s*,\s*\d+)*)?)\s*', re.ASCII)
_EXTENTS = ("reqntid", "maxntid", "reqnctapercluster")
_NUMBERS = ("minnctapersm", "maxnctapersm", "maxnreg", "maxclusterrank")
_FLAGS = ("explicitcluster", "blocksareclusters", "noreturn")
_MAX_NUMBER_DIGITS = 18
_MAX_VALUE = 65_536
"""Of directives that count threads, registers or CTAs: the registers of an SM."""


def _number(source: Source, position: int, digits: str) -> int:
    if len(digits) > _MAX_NUMBER_DIGITS:
        raise source.error(position, f"{digits} is too large", digits)
    return int(digits)


def _alignment(source: Source, position: int, written: str | None, kind: PtxType) -> int:
    if written is None:
        return kind.size
    align = _number(source, position, written)
    if align < 1 or align & (align - 1):
        raise source.error(position, f"alignment {align} is not a power of two", written)
    return align


def _type(source: Source, position: int, name: str) -> PtxType:
    kind = TYPES.get(name)
    if kind is None or kind.size == 0:
        raise source.error(position, f"type .{name} has no place in memory", f".{name}")
    return kind


def variable(source: Source, position: int, statement: str) -> GlobalVar:
    """`[.extern] .shared [.align n] .type name[size] [= {values}];`

    Raises:
        PtxError: not a variable declaration, or one without a definite size outside of extern
            shared memory.
    """
    found = _VARIABLE.match(statement)
    if not found:
        raise source.error(position, "declaration is not understood")
    linkage, space, align, type_name, name, dims, init = found.groups()
    kind = _type(source, position, type_name)
    external = ".extern" in linkage
    if external and space != "shared":
        raise source.unsupported(position, f"{name} is defined in another module", name)
    sizes = [_number(source, position, n) if n else 0 for n in _DIMENSION.findall(dims)]
    count = 1
    for size in sizes:
        count *= size
    if count == 0 and len(sizes) != 1:
        raise source.error(position, f"{name} has an empty dimension", name)
    data: bytes | None = None
    links: tuple[tuple[int, str, int], ...] = ()
    if init is not None:
        if space in ("shared", "local"):
            raise source.error(position, f"{name}: .{space} memory has no initial value", name)
        data, links = _initial_values(source, position, init, kind)
        count = count or len(data) // kind.size
        if len(data) > count * kind.size:
            raise source.error(position, f"{name} has {count} elements, more are given", name)
        data = data.ljust(count * kind.size, b"\0")
    if count == 0 and not external:
        raise source.error(position, f"{name} has no size", name)
    return GlobalVar(
        name,
        cast(Literal["shared", "global", "const", "local"], space),
        _alignment(source, position, align, kind),
        count * kind.size,
        external,
        data,
        source.line(position),
        links,
    )


def _initial_values(
    source: Source, position: int, init: str, kind: PtxType
) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    """The bytes, and which of them are addresses of variables or functions."""
    inner = init[1:-1] if init[:1] == "{" and init[-1:] == "}" else init
    data = bytearray()
    links = []
    for value in inner.split(","):
        found = _LINK.match(value) if kind.bits == 64 else None
        if found:
            generic, plain, added = found.groups()
            links.append((len(data), generic or plain, int((added or "0").replace(" ", ""))))
            data += bytes(kind.size)
        else:
            data += _initial_value(source, position, value.strip(), kind)
    return bytes(data), tuple(links)


def _initial_value(source: Source, position: int, value: str, kind: PtxType) -> bytes:
    try:
        number = literal(value)
    except OperandError as error:
        raise source.error(position, str(error), error.token) from None
    fits = number is not None and (
        number.kind == kind.name
        if kind.is_float
        else number.kind == "int" and -(1 << kind.bits >> 1) <= number.value < 1 << kind.bits
    )
    if number is None or not fits:
        raise source.error(position, f"initial value {value!r} is not a .{kind.name}", value)
    return (number.value & ((1 << kind.bits) - 1)).to_bytes(kind.size, "little")


def params(source: Source, start: int, inner: str) -> list[Param]:
    """The parameter list of a kernel between its parentheses, laid out like a C struct.

    Raises:
        PtxError: a parameter is not understood or named twice.
    """
    out, spaces = _params(source, start, inner, 0)
    for one, space in zip(out, spaces, strict=True):
        if space == "reg":
            raise source.error(start, f"parameter {one.name} is not understood", one.name)
        if sum(p.name == one.name for p in out) > 1:
            raise source.error(start, f"parameter {one.name} is empty or declared twice", one.name)
    return out


def _params(source: Source, start: int, inner: str, offset: int) -> tuple[list[Param], list[str]]:
    """Parameters from byte `offset` on, and the space of each."""
    out: list[Param] = []
    spaces = []
    position = start
    for declaration in inner.split(",") if inner.strip() else []:
        at = source.skip_space(position)
        found = _PARAM.match(declaration)
        if not found:
            raise source.error(at, f"parameter {declaration.strip()!r} is not understood")
        space, written, type_name, name, count = found.groups()
        kind = _type(source, at, type_name)
        align = _alignment(source, at, written, kind)
        size = kind.size * (_number(source, at, count) if count else 1)
        if size == 0:
            raise source.error(at, f"parameter {name} is empty or declared twice", name)
        offset = (offset + align - 1) // align * align
        out.append(Param(name, kind, size, align, offset))
        spaces.append(space)
        offset += size
        position += len(declaration) + 1
    return out, spaces


IN_REGISTER = Reg(-1, "", PtxType("b32", 32))
"""Stands for the register of a `.reg` parameter until the function's body is read."""


def signature(
    source: Source, results: tuple[int, str | None], given: tuple[int, str | None]
) -> Signature:
    """Results and parameters of a function, each as (position, text between the parentheses).

    Raises:
        PtxError: a parameter is not understood.
    """
    out: list[tuple[Param, ...]] = []
    offset = 0
    for start, inner in (results, given):
        found, spaces = _params(source, start, inner or "", offset)
        out.append(
            tuple(
                replace(one, reg=IN_REGISTER) if space == "reg" else one
                for one, space in zip(found, spaces, strict=True)
            )
        )
        offset = max((p.offset + p.size for p in found), default=offset)
    return Signature(*out)


def _in_range(source: Source, position: int, key: str, values: list[int], least: int) -> None:
    for value in values:
        if not least <= value <= _MAX_VALUE:
            what = f"kernel directive .{key}: {value} is not in {least} ... {_MAX_VALUE}"
            raise source.error(position, what, str(value))


def directives(source: Source, start: int, end: int) -> dict[str, DirectiveValue]:
    """The directives between an entry's parameter list and its body.

    Raises:
        PtxError: one is not understood, has the wrong number of values, or is repeated.
    """
    out: dict[str, DirectiveValue] = {}
    position = source.skip_space(start)
    while position < end:
        found = _DIRECTIVE.match(source.text, position, end)
        if not found:
            raise source.error(position, "kernel directive is not understood")
        key, written = found.groups()
        if key == "pragma" and written:
            position = found.end()
            continue
        values = [_number(source, position, v) for v in re.findall(r"\d+", written)]
        x, y, z = (*values, 1, 1, 1)[:3]
        if '"' in written or key in out:
            raise source.error(position, f"kernel directive .{key} is not understood")
        if key in _EXTENTS and 1 <= len(values) <= 3:
            _in_range(source, position, key, values, 1)
            out[key] = (x, y, z)
        elif key in _NUMBERS and len(values) == 1:
            _in_range(source, position, key, values, 0)
            out[key] = x
        elif key in _FLAGS and not values:
            out[key] = True
        else:
            raise source.error(position, f"kernel directive .{key} is not understood")
        position = found.end()
    return out
