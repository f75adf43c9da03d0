"""Typed PTX: what the parser produces and the lowering reads.  Knows nothing of a machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

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


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter or result; sizes in bytes.

    Attributes:
        offset: in the parameter buffer of a kernel or the frame of a function, as in a C struct.
        reg: the register of a `.reg` parameter of a function.
    """

    name: str
    type: PtxType
    size: int
    align: int
    offset: int
    reg: Reg | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """Results and parameters of a device function, placed one after the other."""

    results: tuple[Param, ...] = ()
    params: tuple[Param, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that they take at the start of the callee's frame."""
        every = (*self.results, *self.params)
        return max((p.offset + p.size for p in every), default=0)


@dataclass(frozen=True, slots=True)
class CallSite:
    """What a `call` names.

    Attributes:
        callee: a function, or the register with its address.
        signature: of an indirect call with `.callprototype`.
        targets: functions that an indirect call may reach, where `.calltargets` lists them.
    """

    callee: Symbol | Reg
    results: tuple[Operand, ...] = ()
    arguments: tuple[Operand, ...] = ()
    signature: Signature | None = None
    targets: tuple[str, ...] | None = None


@dataclass(slots=True)
class Instr:
    """One instruction.

    Attributes:
        index: position in the function's body.
        line, text: 1-based PTX line and the statement as written.
        opcode, mods: first dot component, and the others in order.
        target: for branches the index of the instruction after the label.
        table: the same of every entry of an indirect branch.
        call: for calls who is called with what.
    """

    index: int
    line: int
    text: str
    opcode: str
    mods: tuple[str, ...]
    guard: Guard | None
    operands: tuple[Operand, ...]
    target: int | None = None
    table: tuple[int, ...] = ()
    call: CallSite | None = None


@dataclass(frozen=True, slots=True)
class GlobalVar:
    """A variable; `size_bytes` is 0 for `.extern ... x[]`.  "local" ones belong to one thread.

    `links`: places of the initial value that hold addresses: (byte offset, name, added offset).
    """

    name: str
    space: Literal["shared", "global", "const", "local"]
    align: int
    size_bytes: int
    extern: bool
    init: bytes | None
    line: int
    links: tuple[tuple[int, str, int], ...] = ()


@dataclass(slots=True)
class Function:
    """What an `.entry` and a `.func` have in common.

    Attributes:
        shared, local: variables declared inside the function; their names are unique in it.
        regs: the registers that instructions name, by `Reg.id`, numbered in order of first use.
        line: 1-based line of the declaration.
        call_params: `.param` variables of its call sequences: symbol -> (offset, bytes) after the
            local variables; those of different sequences share their bytes.
    """

    name: str
    shared: list[GlobalVar]
    regs: dict[int, Reg]
    body: list[Instr]
    line: int
    local: list[GlobalVar] = field(default_factory=list)
    call_params: dict[str, tuple[int, int]] = field(default_factory=dict)


_BODY = ("shared", "regs", "body", "local", "call_params")


@dataclass(slots=True)
class Kernel(Function):
    """A `.entry`.

    Attributes:
        params: its parameters, placed in the parameter buffer.
        directives: name without the dot -> value; reqntid, maxntid and reqnctapercluster have three
            extents, other numbers are integers, flags are True.
    """

    params: list[Param] = field(default_factory=list)
    directives: dict[str, DirectiveValue] = field(default_factory=dict)
    _read: Callable[[], Kernel] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def unread(cls, head: Kernel, read: Callable[[], Kernel]) -> Kernel:
        """A kernel whose body is read when somebody asks for it.

        Args:
            head: all but the body.
            read: reads the body; may raise PtxError.
        """
        kernel = cls.__new__(cls)
        kernel.name, kernel.line, kernel._read = head.name, head.line, read
        kernel.params, kernel.directives = head.params, head.directives
        return kernel

    def whole(self) -> Kernel:
        """The kernel with its body; when that has not been read, it is not kept here either.

        Raises:
            PtxError: the body is not understood.
        """
        return self if self._read is None else self._read()

    def __getattr__(self, name: str) -> Any:
        """A part of the body that has not been read yet: its slot is empty."""
        if name not in _BODY or self._read is None:
            raise AttributeError(name)
        whole = self._read()
        for part in _BODY:
            setattr(self, part, getattr(whole, part))
        self._read = None
        return getattr(whole, name)


@dataclass(slots=True)
class DeviceFunction(Function):
    """A `.func` with a body."""

    signature: Signature = Signature()


@dataclass(slots=True)
class FunctionHead:
    """A `.func` that is declared; signature and body are read when something calls it.

    Attributes:
        number: in the order of first declaration.
        signature: reads results and parameters.
        body: reads the whole function; None when it is defined elsewhere.
    """

    name: str
    number: int
    signature: Callable[[], Signature]
    body: Callable[[], DeviceFunction] | None = None


@dataclass(slots=True)
class Module:
    """A PTX file.

    Attributes:
        version, target: as written, e.g. "8.8" and "sm_100a".
        address_size: bits of a generic address.
        globals: module-level variables, in order.
        kernels: `.entry` functions by name, in order.
        functions: `.func` functions by name, in order; they are read when they are called.
        source: the text's lines, so that line `n` is `source[n - 1]`.
    """

    version: str
    target: str
    address_size: int
    globals: list[GlobalVar]
    kernels: dict[str, Kernel]
    source: list[str] = field(default_factory=list)
    functions: dict[str, FunctionHead] = field(default_factory=dict)
