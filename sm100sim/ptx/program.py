"""Typed PTX: what the parser produces and the lowering reads.  Knows nothing of a machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .types import PtxType


@dataclass(frozen=True, slots=True)
class Reg:
    """A virtual register; `id` is unique in its kernel, names repeat in inline-assembly scopes."""

    id: int
    name: str
    type: PtxType


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal.  Floats keep their bits in `value`: 32 for "f32", 64 for "f64"."""

    value: int
    kind: Literal["int", "f32", "f64"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class SpecialReg:
    """A special register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A parameter, shared, global or label name."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination `_`."""


@dataclass(frozen=True, slots=True)
class NotPred:
    """A negated predicate source, `!%p`."""

    reg: Reg


@dataclass(frozen=True, slots=True)
class PredPair:
    """Two destinations, `a|b`."""

    a: Operand
    b: Operand


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`."""

    base: Reg | Symbol | Imm
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """`[map, {c0, c1, ...}]` of the tensor copies."""

    base: Address
    coords: Vector


Operand = (
    Reg | Imm | SpecialReg | Symbol | Sink | NotPred | PredPair | Vector | Address | TensorAddress
)
"""Every kind of operand."""

DirectiveValue = int | tuple[int, int, int]
"""Value of a kernel directive: three extents, a number, or True for a flag."""


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p`."""

    reg: Reg
    negated: bool


@dataclass(slots=True)
class Instr:
    """One instruction.

    Attributes:
        index: position in the kernel's body.
        line, text: 1-based PTX line and the statement as written.
        opcode, mods: first dot component, and the others in order.
        target: for branches the index of the instruction after the label.
    """

    index: int
    line: int
    text: str
    opcode: str
    mods: tuple[str, ...]
    guard: Guard | None
    operands: tuple[Operand, ...]
    target: int | None = None


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel parameter; sizes in bytes; `offset` in the parameter buffer as in a C struct."""

    name: str
    type: PtxType
    size: int
    align: int
    offset: int


@dataclass(frozen=True, slots=True)
class GlobalVar:
    """A variable; `size_bytes` is 0 for `.extern ... x[]`.  "local" ones belong to one thread."""

    name: str
    space: Literal["shared", "global", "const", "local"]
    align: int
    size_bytes: int
    extern: bool
    init: bytes | None
    line: int


@dataclass(slots=True)
class Kernel:
    """A `.entry`.

    Attributes:
        directives: name without the dot -> value; reqntid, maxntid and reqnctapercluster have three
            extents, other numbers are integers, flags are True.
        shared, local: variables declared inside the function; their names are unique in it.
        regs: the registers that instructions name, by `Reg.id`, numbered in order of first use.
        line: 1-based line of the `.entry`.
    """

    name: str
    params: list[Param]
    directives: dict[str, DirectiveValue]
    shared: list[GlobalVar]
    regs: dict[int, Reg]
    body: list[Instr]
    line: int
    local: list[GlobalVar] = field(default_factory=list)


@dataclass(slots=True)
class Module:
    """A PTX file.

    Attributes:
        version, target: as written, e.g. "8.8" and "sm_100a".
        address_size: bits of a generic address.
        globals: module-level variables, in order.
        kernels: `.entry` functions by name, in order.
        source: the text's lines, so that line `n` is `source[n - 1]`.
    """

    version: str
    target: str
    address_size: int
    globals: list[GlobalVar]
    kernels: dict[str, Kernel]
    source: list[str] = field(default_factory=list)
