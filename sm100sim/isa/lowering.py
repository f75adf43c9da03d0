"""From the typed PTX of one kernel to the flat instruction array that the engine executes.

`Lowering` hands out register slots (byte offsets into a warp's register block), places every
immediate, special register and symbol address in a slot of its own, so that a source operand is
always a slot, and collects engine instructions.  The family files (`integer.py`, `memory.py`, ...)
say what each PTX form becomes, through functions registered with `@instruction`.

A family function must account for every modifier and operand of its form: `Mods.done()` and the
typed accessors stop with the PTX line when something is left over or has the wrong type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..contract.codes import LANES, NONE32, SLOT_GRAIN, Unit
from ..contract.forms import FORM_BYTES, Form, Move
from ..ptx.errors import Unsupported
from ..ptx.program import (
    Address,
    Imm,
    Instr,
    Kernel,
    NotPred,
    Operand,
    Reg,
    Sink,
    SpecialReg,
    Symbol,
)
from .modifiers import Mods
from .refusals import explained, no_family

__all__ = ["Emitted", "Family", "Lowering", "Mods", "Unit", "instruction", "registered"]

END = -1
"""`Emitted.target` placeholder for "no branch target"."""


@dataclass(slots=True)
class Emitted:
    """One engine instruction before it is packed into the array handed to C."""

    op: str
    line: int
    guard: int
    guard_neg: bool
    d: tuple[int, ...]
    s: tuple[int, ...]
    form: bytes
    imm: int
    cost: int
    unit: Unit
    target: int = END
    reconv: int = END
    source: int = -1


Family = Callable[["Lowering", Instr], None]
_FAMILIES: dict[str, Family] = {}


def instruction(*opcodes: str) -> Callable[[Family], Family]:
    """Register the lowering of the given PTX opcodes (first dot component).

    Raises:
        ValueError: an opcode is registered twice.
    """

    def register(function: Family) -> Family:
        for opcode in opcodes:
            if opcode in _FAMILIES:
                raise ValueError(f"PTX opcode {opcode!r} is lowered twice")
            _FAMILIES[opcode] = function
        return function

    return register


def registered() -> dict[str, Family]:
    """All opcodes that have a lowering, for the coverage table."""
    return dict(_FAMILIES)


def _words(bits: int) -> int:
    """Bytes of a register slot: a word of lanes for a predicate, else 4, 8 or 16 bytes a lane."""
    return SLOT_GRAIN if bits == 1 else LANES * max(bits, 32) // 8


@dataclass(slots=True)
class _Constant:
    slot: int
    bits: int
    value: int


@dataclass
class Lowering:
    """Slots, constants and emitted instructions of one kernel.

    Attributes:
        kernel: the typed PTX.
        symbols: address of every shared or global variable: ("shared", window offset without the
            CTA rank) or ("global", host address).
        params: parameter name -> byte offset in the parameter buffer.
        refused: why instructions stop the run when they are executed, by number.
    """

    kernel: Kernel
    symbols: dict[str, tuple[str, int]]
    out: list[Emitted] = field(default_factory=list)
    refused: list[Unsupported] = field(default_factory=list)
    _slots: dict[int, int] = field(default_factory=dict)
    _constants: dict[tuple[int, int], _Constant] = field(default_factory=dict)
    _specials: dict[str, int] = field(default_factory=dict)
    _size: int = 0
    _scratch: dict[int, int] = field(default_factory=dict)
    _current: Instr | None = None
    _guard: tuple[int, bool] = (NONE32, False)

    # ---- slots -------------------------------------------------------------------------------
    def _allocate(self, bits: int) -> int:
        size = _words(bits)
        if size >= 128:
            self._size = (self._size + 63) & ~63
        slot = self._size
        self._size += size
        return slot

    @property
    def register_bytes(self) -> int:
        """Size of a warp's register block."""
        return (self._size + 63) & ~63

    def temp(self, bits: int) -> int:
        """A fresh slot for an intermediate value."""
        return self._allocate(bits)

    def constant(self, value: int, bits: int) -> int:
        """Slot that holds the same `bits`-wide value in every lane (bits == 1: a predicate)."""
        value &= (1 << bits) - 1
        key = (value, max(bits, 32) if bits != 1 else 1)
        found = self._constants.get(key)
        if found is None:
            found = _Constant(self._allocate(key[1]), key[1], value)
            self._constants[key] = found
        return found.slot

    def special(self, name: str) -> int:
        """32-bit slot that the engine fills at warp start with the named special register."""
        if name not in self._specials:
            self._specials[name] = self._allocate(32)
        return self._specials[name]

    def constants(self) -> Iterable[tuple[int, int, int]]:
        """(slot, bits, value) of every constant, for the register template."""
        return [(c.slot, c.bits, c.value) for c in self._constants.values()]

    def specials(self) -> dict[str, int]:
        """Special register name -> slot."""
        return dict(self._specials)

    # ---- operands ----------------------------------------------------------------------------
    def ins(self) -> Instr:
        """The PTX instruction being lowered."""
        assert self._current is not None
        return self._current

    def fail(self, what: str) -> Unsupported:
        """The exception to raise when a form is not understood: `raise lo.fail("...")`."""
        return Unsupported(self.ins(), what)

    def _reg_slot(self, reg: Reg) -> int:
        slot = self._slots.get(reg.id)
        if slot is None:
            slot = self._slots[reg.id] = self._allocate(reg.type.bits)
        return slot

    def src(self, operand: Operand, bits: int) -> int:
        """Slot of a source value that is `bits` wide (8/16-bit values live in 32-bit lanes)."""
        if isinstance(operand, Reg):
            have = operand.type.bits
            if have != bits and not (bits < 32 and 8 <= have <= 32):
                raise self.fail(f"{operand.name} has {have} bits, the form reads {bits}")
            return self._reg_slot(operand)
        if isinstance(operand, Imm):
            return self.constant(self.imm_bits(operand, bits), bits)
        if isinstance(operand, SpecialReg):
            if bits not in (16, 32):
                raise self.fail(f"special register {operand.name} read as {bits} bits")
            return self.special(operand.name)
        if isinstance(operand, Symbol):
            return self.symbol_address(operand, bits)
        raise self.fail(f"operand {operand!r} is not a value")

    def dst(self, operand: Operand, bits: int) -> int:
        """Slot of a destination register; `_` gives a scratch slot."""
        if isinstance(operand, Sink):
            if bits not in self._scratch:
                self._scratch[bits] = self._allocate(bits)
            return self._scratch[bits]
        if not isinstance(operand, Reg):
            raise self.fail(f"operand {operand!r} cannot be written")
        have = operand.type.bits
        if have != bits and not (bits < 32 and 8 <= have <= 32):
            raise self.fail(f"{operand.name} has {have} bits, the form writes {bits}")
        return self._reg_slot(operand)

    def pred_src(self, operand: Operand) -> tuple[int, bool]:
        """(slot, negated) of a predicate source; literals give a constant predicate."""
        if isinstance(operand, NotPred):
            return self.pred_src(operand.reg)[0], True
        if isinstance(operand, Imm):
            return self.constant(NONE32 if operand.value else 0, 32), False
        if isinstance(operand, Reg) and operand.type.bits == 1:
            return self._reg_slot(operand), False
        raise self.fail(f"operand {operand!r} is not a predicate")

    def pred_dst(self, operand: Operand) -> int:
        """Slot of a predicate destination; `_` gives a scratch slot."""
        return self.dst(operand, 1)

    def imm_bits(self, operand: Imm, bits: int) -> int:
        """The bit pattern of an immediate read as a `bits`-wide value."""
        if operand.kind == "f32" and bits == 64:
            as_float = struct.unpack("<f", struct.pack("<I", operand.value))[0]
            return int(struct.unpack("<Q", struct.pack("<d", as_float))[0])
        if operand.kind == "f64" and bits == 32:
            as_double = struct.unpack("<d", struct.pack("<Q", operand.value))[0]
            return int(struct.unpack("<I", struct.pack("<f", as_double))[0])
        return operand.value & ((1 << bits) - 1)

    def imm_value(self, operand: Operand) -> int:
        """The integer of an operand that must be an immediate."""
        if not isinstance(operand, Imm) or operand.kind != "int":
            raise self.fail(f"operand {operand!r} must be an integer immediate")
        return operand.value

    def symbol_address(self, operand: Symbol, bits: int) -> int:
        """Slot with a variable's address (shared: rank included), or a param or local offset."""
        for param in self.kernel.params:
            if param.name == operand.name:
                return self.constant(param.offset, bits)
        if operand.name not in self.symbols:
            raise self.fail(f"symbol {operand.name} is not declared")
        space, address = self.symbols[operand.name]
        if space != "shared":
            return self.constant(address, bits)
        slot = self.temp(bits)
        base = self.special("smem_base")
        self.emit(
            "SYMBOL_SHARED", d=(slot,), s=(base,), imm=address, form=Move(bits=bits), unguarded=True
        )
        return slot

    def address(self, operand: Operand) -> tuple[int, int, int]:
        """(slot, byte offset, bits of the slot) of `[base + offset]`."""
        if not isinstance(operand, Address):
            raise self.fail(f"operand {operand!r} is not an address")
        if not -(2**31) <= operand.offset < 2**31:
            raise self.fail(f"the offset {operand.offset} has more than 32 bits")
        base = operand.base
        if isinstance(base, Reg):
            if base.type.bits not in (32, 64):
                raise self.fail(f"address register {base.name} has {base.type.bits} bits")
            return self._reg_slot(base), operand.offset, base.type.bits
        if isinstance(base, Imm):
            return self.constant(base.value, 64), operand.offset, 64
        return self.symbol_address(base, 64), operand.offset, 64

    # ---- output ------------------------------------------------------------------------------
    def emit(
        self,
        op: str,
        d: Sequence[int] = (),
        s: Sequence[int] = (),
        form: Form | None = None,
        imm: int = 0,
        cost: int = 1,
        unit: Unit = Unit.ALU,
        *,
        unguarded: bool = False,
    ) -> Emitted:
        """Append one engine instruction, executed under the PTX instruction's guard.

        Args:
            op: handler name in the engine's tables.
            d, s: destination and source slots; the engine's register checks read these lists, so
                every register that the handler writes or reads must be in them.
            form: the modifiers, as the form that the handler's family has.
            imm: 64-bit immediate, usually an address offset.
            cost: modelled issue cycles of one warp instruction (published throughputs).
            unguarded: the instruction runs for all active lanes.
        """
        ins = self.ins()
        if not -(2**63) <= imm < 2**63:
            raise self.fail(f"{imm} has more than 64 bits")
        guard, negated = (NONE32, False) if unguarded else self._guard
        modifiers = (b"" if form is None else bytes(form)).ljust(FORM_BYTES, b"\0")
        item = Emitted(
            op, ins.line, guard, negated, tuple(d), tuple(s), modifiers, imm, cost, unit,
            source=ins.index,
        )  # fmt: skip
        self.out.append(item)
        return item

    def lower(self, ins: Instr) -> None:
        """Lower one PTX instruction through its family; one without a meaning here stops the run.

        It stops where it is executed: a program is full of paths that nobody takes.
        """
        self._current = ins
        self._guard = (NONE32, False)
        if ins.guard is not None:
            self._guard = (self._reg_slot(ins.guard.reg), ins.guard.negated)
        emitted = len(self.out)
        try:
            self._through_family(ins)
        except Unsupported as error:
            del self.out[emitted:]
            self.emit("UNSUPPORTED", imm=len(self.refused))
            self.refused.append(explained(self.kernel.body, ins, error))

    def _through_family(self, ins: Instr) -> None:
        family = _FAMILIES.get(ins.opcode)
        if family is None:
            raise no_family(ins)
        try:
            family(self, ins)
        except IndexError as error:
            count = len(ins.operands)
            raise Unsupported(ins, f"{ins.opcode} with {count} operands has too few") from error
