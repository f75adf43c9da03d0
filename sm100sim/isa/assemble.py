"""One typed kernel -> the arrays that the engine loads: instructions, operands, register template.

The functions that the kernel may call follow its own instructions (linking.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract.codes import (
    LANES,
    NONE32,
    REGISTER_FILE,
    REGISTER_UNIT,
    SPECIALS,
    WARPGROUP_WARPS,
)
from ..contract.forms import FORM_BYTES
from ..contract.records import RawFunction, RawIns, RawProgram, SlotWidth, Special
from ..ptx.cfg import build_cfg
from ..ptx.errors import Unsupported
from ..ptx.program import DeviceFunction, DirectiveValue, Imm, Kernel, Module
from . import families  # noqa: F401  (registers every instruction family)
from .arguments import enter
from .cross_talk import Talk, talk_of
from .frames import FRAME, align, frame_of
from .linking import Linked, link
from .lowering import END, Emitted, Lowering
from .slots import Slots
from .variables import place_globals, place_shared

WARPGROUP_THREADS = WARPGROUP_WARPS * LANES

RAW_INS = np.dtype(RawIns)
RAW_FUNCTION = np.dtype(RawFunction)
"""`RawIns` and `RawFunction` as records of arrays."""


@dataclass(frozen=True)
class Assembled:
    """A kernel ready for the engine.

    Attributes:
        directives: those of the kernel.
        code: RAW_INS records.
        operands: register slots; an instruction's destinations, then its sources.
        register_template: the register block with constants in place, `register_bytes` long.
        specials: (slot, kind) pairs.
        static_smem: bytes of static shared variables, padded so that dynamic memory is aligned.
        local_bytes: bytes of local memory of each thread.
        entry_registers: registers per thread at entry, or 0 when the PTX does not fix them.
        param_sizes: bytes of every kernel parameter, in order; `param_offsets` likewise.
        shared: name, window offset and bytes of the shared variables; 0 bytes: what is left.
        globals: host buffers of the module's global variables, kept alive here.
        refused: why instructions stop the run when they are executed, by number.
        talk: whether clusters may talk to one another.
        functions: RAW_FUNCTION records of the module's device functions, by number.
        tables: instruction indices, the targets of indirect branches.
        frame: slot of the lanes' frames, or NONE32.
        slots: (slot, bits) of every register, where there are functions.
        taken_back: grids that several threads did not suit; launches add to it.
    """

    directives: Mapping[str, DirectiveValue]
    code: npt.NDArray[np.void]
    operands: npt.NDArray[np.uint32]
    register_template: npt.NDArray[np.uint8]
    specials: npt.NDArray[np.uint32]
    static_smem: int
    local_bytes: int
    entry_registers: int
    param_sizes: tuple[int, ...]
    param_offsets: tuple[int, ...]
    shared: tuple[tuple[str, int, int], ...]
    globals: tuple[tuple[str, npt.NDArray[np.uint8]], ...]
    refused: tuple[Unsupported, ...]
    talk: Talk
    functions: npt.NDArray[np.void]
    tables: npt.NDArray[np.uint32]
    frame: int
    slots: npt.NDArray[np.uint32]
    taken_back: set[tuple[int, ...]] = field(default_factory=set, compare=False)


def _entry_registers(kernel: Kernel) -> int:
    """Registers per thread at launch: `.maxnreg`, else the share of `.minnctapersm` CTAs, but never
    more than the largest operand of a setmaxnreg.inc.

    ptxas gives a kernel with setmaxnreg exactly these, whatever its code needs: with
    `.minnctapersm`, the register file over the threads of all its CTAs rounded up to whole
    warpgroups, in steps of 8 and at most 255 (read from the REGCOUNT of its cubins, 12.9 and 13.0).
    Without either the count is unknown: 0, and ptxas ignores setmaxnreg (C7508).
    """
    bound = _register_bound(kernel.directives)
    raised = [
        ins.operands[0].value for ins in kernel.body
        if ins.opcode == "setmaxnreg" and "inc" in ins.mods and isinstance(ins.operands[0], Imm)
    ]  # fmt: skip
    return min(bound, max(raised, default=bound))


def _register_bound(directives: Mapping[str, object]) -> int:
    """`.maxnreg`, or the share of `.minnctapersm` CTAs; 0 without either."""
    fixed = directives.get("maxnreg")
    if isinstance(fixed, int):
        return fixed
    threads = directives.get("reqntid") or directives.get("maxntid")
    if not isinstance(threads, tuple) or "minnctapersm" not in directives:
        return 0
    count = int(np.prod([int(t) for t in threads])) * max(int(str(directives["minnctapersm"])), 1)
    groups = -(-count // WARPGROUP_THREADS)
    return min(255, REGISTER_FILE // (groups * WARPGROUP_THREADS) // REGISTER_UNIT * REGISTER_UNIT)


@dataclass
class _Code:
    """The instructions of all functions of a program in a row, and the tables of their branches."""

    out: list[Emitted] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)

    def add(self, lo: Lowering) -> int:
        """Lower a function and place it after the others; answers where it starts."""
        base = len(self.out)
        start: list[int] = []
        if isinstance(lo.function, DeviceFunction):
            lo.stand_at(lo.function.line)
            enter(lo, lo.function)
        for ins in lo.function.body:
            start.append(base + len(lo.out))
            lo.lower(ins)
        start.append(base + len(lo.out))
        if lo.program.bodies:  # another function may follow
            lo.stand_at(lo.function.body[-1].line if lo.function.body else lo.function.line)
            lo.emit("OFF_END")
        reconverge = build_cfg(lo.function).reconverge
        for item in lo.out:
            if item.target == END and not item.table:
                continue
            at = reconverge.get(item.source, END)
            item.reconv = start[at] if 0 <= at < len(start) - 1 else END
            if item.table:
                item.imm = len(self.tables)
                self.tables += [start[target] for target in item.table]
            else:
                item.target = start[item.target]
        self.out += lo.out
        return base


def _functions(
    code: _Code, linked: Linked, symbols: Mapping[str, tuple[str, int]]
) -> npt.NDArray[np.void]:
    """Lower the functions that the kernel reaches; a record for every function of the module."""
    table = np.zeros(max(len(linked.functions), 1), RAW_FUNCTION)
    table["entry"] = NONE32
    for name, body in linked.bodies.items():
        frame = frame_of(body)
        row = table[linked.functions[name].number]
        row["first_slot"] = len(linked.slots.given)
        row["entry"] = code.add(Lowering(body, linked, symbols, frame))
        row["n_slots"] = len(linked.slots.given) - row["first_slot"]
        row["frame_bytes"], row["recursive"] = frame.room, linked.recursive(name)
    return table


def _pack(
    emitted: Sequence[Emitted], opcodes: Mapping[str, int]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint32]]:
    """Instructions and operands as flat arrays."""
    code = np.zeros(len(emitted), RAW_INS)
    columns = {
        "op": [opcodes[item.op] for item in emitted],
        "n_destinations": [len(item.d) for item in emitted],
        "n_sources": [len(item.s) for item in emitted],
        "guard_negated": [item.guard_neg for item in emitted],
        "target": [NONE32 if item.target == END else item.target for item in emitted],
        "reconv": [NONE32 if item.reconv == END else item.reconv for item in emitted],
    }
    for name in ("line", "guard", "cost", "unit", "imm"):
        columns[name] = [getattr(item, name) for item in emitted]
    for name, values in columns.items():
        code[name] = values
    counts = code["n_destinations"] + code["n_sources"]
    code["first_operand"] = np.cumsum(counts) - counts
    operands = [slot for item in emitted for slots in (item.d, item.s) for slot in slots]
    forms = np.frombuffer(b"".join(item.form for item in emitted), np.uint8)
    code["form"] = forms.reshape(-1, FORM_BYTES)
    return code, np.array(operands or [0], np.uint32)


def _template(slots: Slots) -> npt.NDArray[np.uint8]:
    block = np.zeros(slots.align() + 64, np.uint8)
    for constant in slots.constants.values():
        slot, value = constant.slot, constant.value
        if constant.bits == 1:
            block[slot : slot + LANES // 8] = 255 if value else 0
        elif constant.bits == 128:
            halves = [value & (2**64 - 1)] * LANES + [value >> 64] * LANES
            block[slot : slot + 16 * LANES].view(np.uint64)[:] = halves
        else:
            kind = np.dtype(np.uint64 if constant.bits == 64 else np.uint32)
            block[slot : slot + kind.itemsize * LANES].view(kind)[:] = value
    return block


def assemble(
    module: Module,
    kernel: Kernel,
    opcodes: Mapping[str, int],
    placed: Mapping[str, int] = MappingProxyType({}),
) -> Assembled:
    """Lower `kernel`, and the functions that it may call, for an engine with handlers `opcodes`.

    Global variables lie where `placed` says, and in new host memory otherwise.

    An instruction, modifier or operand that is not understood stops the run only when executed.

    Raises:
        PtxError: a global variable finds no memory; names the PTX line.
    """
    linked = link(module.functions, kernel)
    if linked.bodies:
        linked.slots.special(FRAME)  # outside of what recursion saves
    shared = [v for v in module.globals if v.space == "shared"] + list(kernel.shared)
    shared += [v for body in linked.bodies.values() for v in body.shared]
    symbols, static_smem = place_shared(shared)
    others = [v for v in module.globals if v.space != "shared" and v.name not in placed]
    more, buffers = place_globals(
        others, module.source, lambda name: placed.get(name) or linked.address(name)
    )
    symbols |= more | {name: ("global", address) for name, address in placed.items()}
    emitted = _Code()
    emitted.add(Lowering(kernel, linked, symbols, frame_of(kernel)))
    functions = _functions(emitted, linked, symbols)
    code, operands = _pack(emitted.out, opcodes)
    slots = linked.slots
    specials = [(slot, SPECIALS.index(name.lstrip("%"))) for name, slot in slots.specials.items()]
    specials += [(c.slot, SPECIALS.index("constant")) for c in slots.constants.values()]
    return Assembled(
        directives=kernel.directives,
        code=code,
        operands=operands,
        register_template=_template(slots),
        specials=np.array(specials or [(0, 0)], np.uint32)[: len(specials)],
        static_smem=static_smem,
        local_bytes=linked.local_bytes(kernel),
        entry_registers=_entry_registers(kernel),
        param_sizes=tuple(p.size for p in kernel.params),
        param_offsets=tuple(p.offset for p in kernel.params),
        shared=tuple((v.name, symbols[v.name][1], v.size_bytes) for v in shared),
        globals=tuple(buffers),
        refused=tuple(linked.refused),
        functions=functions,
        tables=np.array(emitted.tables or [0], np.uint32),
        frame=slots.specials.get(FRAME, NONE32),
        slots=np.array(slots.given if linked.bodies else [(0, 0)], np.uint32),
        talk=talk_of(ins for body in (kernel, *linked.bodies.values()) for ins in body.body),
    )


def raw_program(assembled: Assembled) -> RawProgram:
    """The structure that the engine loads; it points into the arrays of `assembled`."""

    def pointer(array: npt.NDArray[Any], kind: type) -> Any:
        return array.ctypes.data_as(ctypes.POINTER(kind))

    return RawProgram(
        code=pointer(assembled.code, RawIns),
        operands=pointer(assembled.operands, ctypes.c_uint32),
        registers=pointer(assembled.register_template, ctypes.c_uint8),
        specials=pointer(assembled.specials, Special),
        n_code=len(assembled.code),
        n_operands=len(assembled.operands),
        register_bytes=len(assembled.register_template),
        n_specials=len(assembled.specials),
        static_smem=assembled.static_smem,
        entry_registers=assembled.entry_registers,
        local_bytes=assembled.local_bytes,
        frame=assembled.frame,
        functions=pointer(assembled.functions, RawFunction),
        tables=pointer(assembled.tables, ctypes.c_uint32),
        slots=pointer(assembled.slots, SlotWidth),
        n_functions=len(assembled.functions),
        n_slots=len(assembled.slots),
        n_tables=len(assembled.tables),
    )


def parameter_buffer(assembled: Assembled, params: Sequence[bytes]) -> ctypes.Array[ctypes.c_char]:
    """The kernel's parameter space with every parameter at its offset.

    Raises:
        ValueError: the number or a size of the parameters differs from the PTX.
    """
    if len(params) != len(assembled.param_sizes):
        raise ValueError(
            f"params: {len(params)} given, the kernel declares {len(assembled.param_sizes)}"
        )
    total = max(
        [o + s for o, s in zip(assembled.param_offsets, assembled.param_sizes, strict=True)] + [1]
    )
    buffer = ctypes.create_string_buffer(align(total, 64) + 64)
    for k, (raw, offset, size) in enumerate(
        zip(params, assembled.param_offsets, assembled.param_sizes, strict=True)
    ):
        if len(raw) != size:
            raise ValueError(f"params[{k}]: {len(raw)} bytes given, the PTX declares {size}")
        ctypes.memmove(ctypes.addressof(buffer) + offset, raw, size)
    return buffer
