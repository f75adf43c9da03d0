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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..contract.codes import NONE32, SPECIALS, Unit
from ..contract.forms import FORM_BYTES, Form, Move
from ..ptx.errors import Unsupported
from ..ptx.program import (
    Address,
    Function,
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
from .frames import FRAME, Frame
from .linking import Linked
from .modifiers import Mods

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
    table: tuple[int, ...] = ()


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


@dataclass
class Lowering:
    """Slots and emitted instructions of one kernel or device function.

    Attributes:
        function: the typed PTX.
        program: what the functions of the program share: slots, refusals, the functions reached.
        symbols: address of every shared or global variable: ("shared", window offset without the
            CTA rank) or ("global", host address).
        frame: what the function keeps in local memory.
    """

    function: Function
    program: Linked
    symbols: Mapping[str, tuple[str, int]]
    frame: Frame
    out: list[Emitted] = field(default_factory=list)
    _slots: dict[int, int] = field(default_factory=dict)
    _current: Instr | None = None
    _guard: tuple[int, bool] = (NONE32, False)
    _carry: int = NONE32

    @property
    def kernel(self) -> Kernel | None:
        """The function, where it is an entry."""
        return self.function if isinstance(self.function, Kernel) else None

    # ---- slots -------------------------------------------------------------------------------
    def temp(self, bits: int) -> int:
        """A fresh slot for an intermediate value."""
        return self.program.slots.new(bits)

    def carry(self) -> int:
        """The slot of the function's condition code register CC.CF, 32 bits: 0 or 1."""
        if self._carry == NONE32:
            self._carry = self.temp(32)
        return self._carry

    def constant(self, value: int, bits: int) -> int:
        """Slot that holds the same `bits`-wide value in every lane (bits == 1: a predicate)."""
        return self.program.slots.constant(value, bits)

    def special(self, name: str) -> int:
        """32-bit slot that the engine fills at warp start with the named special register."""
        return self.program.slots.special(name)

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
            slot = self._slots[reg.id] = self.temp(reg.type.bits)
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
            if operand.name in self.symbols:
                return self.constant(self.symbols[operand.name][1], bits)
            if operand.name.lstrip("%") not in SPECIALS:
                raise self.fail(f"{operand.name} holds what a driver puts there, and none did")
            return self.special(operand.name)
        if isinstance(operand, Symbol):
            return self.symbol_address(operand, bits)
        raise self.fail(f"operand {operand!r} is not a value")

    def dst(self, operand: Operand, bits: int) -> int:
        """Slot of a destination register; `_` gives a scratch slot."""
        if isinstance(operand, Sink):
            return self.program.slots.scratch(bits)
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

    def param_offset(self, name: str) -> int | None:
        """Offset of a kernel parameter in the parameter buffer, or None."""
        params = self.kernel.params if self.kernel else ()
        return next((p.offset for p in params if p.name == name), None)

    def symbol_address(self, operand: Symbol, bits: int) -> int:
        """Slot with a variable's address (shared: rank included), or a param or local offset."""
        name = operand.name
        offset = self.param_offset(name)
        if offset is not None:
            return self.constant(offset, bits)
        if name in self.frame.offsets:
            if self.kernel:
                return self.constant(self.frame.offsets[name], bits)
            return self._based("SYMBOL_LOCAL", FRAME, self.frame.offsets[name], bits)
        if name in self.symbols:
            space, address = self.symbols[name]
            if space == "shared":
                return self._based("SYMBOL_SHARED", "smem_base", address, bits)
            return self.constant(address, bits)
        code = self.program.address(name)
        if code is not None:
            return self.constant(code, bits)
        raise self.fail(f"symbol {name} is not declared")

    def _based(self, op: str, base: str, offset: int, bits: int) -> int:
        """Slot with `offset` added to what the special register `base` holds."""
        slot = self.temp(bits)
        form = Move(bits=bits)
        self.emit(op, d=(slot,), s=(self.special(base),), imm=offset, form=form, unguarded=True)
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
            self.emit("UNSUPPORTED", imm=len(self.program.refused))
            self.program.refused.append(error)

    def stand_at(self, line: int) -> None:
        """What is emitted next belongs to no instruction but to a line of the PTX."""
        self._current = Instr(-1, line, "", "", (), None, ())
        self._guard = (NONE32, False)

    def _through_family(self, ins: Instr) -> None:
        family = _FAMILIES.get(ins.opcode)
        if family is None:
            raise Unsupported(ins, f"opcode {ins.opcode!r} is not in the instruction set here")
        try:
            family(self, ins)
        except IndexError as error:
            count = len(ins.operands)
            raise Unsupported(ins, f"{ins.opcode} with {count} operands has too few") from error
