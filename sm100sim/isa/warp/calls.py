"""call and ret (PTX ISA, "call", "ret", "Function Declarations and Definitions").

Arguments and results are bytes in the callee's frame (frames.py): the caller copies its `.param`
variables there, and the results back.  Lanes that call together go on together after the call.
A few functions that CUDA's device runtime provides are executed by the engine (system_calls.py).
"""

from __future__ import annotations

from ...contract.forms import Call, FrameCopy
from ...ptx.program import CallSite, DeviceFunction, Instr, Operand, Param, Reg, Signature, Symbol
from ..arguments import load_local, store_local
from ..frames import FRAME
from ..lowering import Lowering, Mods, Unit, instruction
from .system_calls import SYSTEM_CALLS

CALL_CYCLES = 8
"""Modelled issue cycles of a call and of a return."""


@instruction("call")
def call(lo: Lowering, ins: Instr) -> None:
    """call{.uni} (results), function or register, (arguments){, targets or prototype}; printf and
    assert of CUDA C++; other functions that the module does not hold stop the run."""
    mods = Mods(ins)
    mods.take("uni")
    mods.done()
    site = ins.call
    if site is None:
        raise lo.fail("call names no target")
    if isinstance(site.callee, Reg):
        _indirect(lo, site, site.callee)
        return
    name = site.callee.name
    if name not in lo.program.functions:
        raise lo.fail(f"{name} is not a function")
    system = SYSTEM_CALLS.get(name)
    if system and lo.program.functions[name].body is None:
        system(lo, site)
        return
    number = lo.program.number(ins, name)
    _call(lo, site, lo.program.signature(ins, name), None, number)


def _indirect(lo: Lowering, site: CallSite, register: Reg) -> None:
    kind = site.signature
    if kind is None and site.targets:
        kind = lo.program.signature(lo.ins(), site.targets[0])
    if kind is None:
        raise lo.fail("an indirect call needs .calltargets or .callprototype")
    _call(lo, site, kind, lo.src(register, 64), 0)


def _call(lo: Lowering, site: CallSite, kind: Signature, pointer: int | None, number: int) -> None:
    # Numba declares a result of every function in C and links some that give none: nothing is
    # written then, as no machine code would.
    results = site.results if kind.results or pointer is not None else ()
    for what, actual, formal in (
        ("arguments", site.arguments, kind.params), ("results", results, kind.results)
    ):  # fmt: skip
        if len(actual) != len(formal):
            raise lo.fail(f"{len(actual)} {what} given, the function has {len(formal)}")
    frame = lo.special(FRAME)
    for operand, param in zip(site.arguments, kind.params, strict=True):
        _pass(lo, operand, param)
    lo.emit(
        "CALL",
        (frame,),
        (frame,) if pointer is None else (frame, pointer),
        Call(room=lo.frame.room, indirect=pointer is not None),
        number,
        CALL_CYCLES,
    )
    for operand, param in zip(results, kind.results, strict=True):
        _receive(lo, operand, param)


def _variable(lo: Lowering, operand: Symbol, param: Param) -> int:
    """Offset of a `.param` variable of the call in the caller's frame."""
    have = lo.frame.sizes.get(operand.name)
    if have != param.size:
        raise lo.fail(f"{operand.name} has {have} bytes, the function's {param.name} {param.size}")
    return lo.frame.offsets[operand.name]


def _copy(lo: Lowering, to: int, source: int, size: int) -> None:
    form = FrameCopy(to=to, source=source, bytes=size)
    lo.emit("FRAME_COPY", s=(lo.special(FRAME),), form=form, unit=Unit.LSU)


def _pass(lo: Lowering, operand: Operand, param: Param) -> None:
    """An argument into the callee's frame."""
    at = lo.frame.room + param.offset
    if isinstance(operand, Symbol) and operand.name in lo.frame.offsets:
        _copy(lo, at, _variable(lo, operand, param), param.size)
    else:
        store_local(lo, lo.src(operand, param.type.bits), at, param)


def _receive(lo: Lowering, operand: Operand, param: Param) -> None:
    """A result from the callee's frame."""
    at = lo.frame.room + param.offset
    if isinstance(operand, Symbol):
        _copy(lo, _variable(lo, operand, param), at, param.size)
    else:
        load_local(lo, lo.dst(operand, param.type.bits), at, param.size)


@instruction("ret")
def leave(lo: Lowering, ins: Instr) -> None:
    """ret{.uni}: back to the caller; in a kernel the active lanes leave it."""
    mods = Mods(ins)
    mods.take("uni")
    mods.done()
    if not isinstance(lo.function, DeviceFunction):
        lo.emit("EXIT")
        return
    for param in lo.function.signature.results:
        if param.reg is not None:
            store_local(lo, lo.src(param.reg, param.type.bits), param.offset, param)
    frame = lo.special(FRAME)
    lo.emit("RET", (frame,), (frame,), cost=CALL_CYCLES)
