"""One typed kernel -> the arrays that the engine loads: instructions, operands, register template.

Also places the kernel's variables: static shared variables after the 1 KiB that the system keeps
at the bottom of the window, the dynamic ones after them, global variables in host memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract.codes import (
    LANES,
    NONE32,
    REGISTER_FILE,
    REGISTER_UNIT,
    SMEM_RESERVED,
    SPECIALS,
    WARPGROUP_WARPS,
)
from ..contract.forms import FORM_BYTES
from ..contract.records import RawIns, RawProgram, Special
from ..ptx.cfg import build_cfg
from ..ptx.errors import PtxError, Unsupported
from ..ptx.program import GlobalVar, Kernel, Module
from . import families  # noqa: F401  (registers every instruction family)
from .lowering import END, Emitted, Lowering

WARPGROUP_THREADS = WARPGROUP_WARPS * LANES

RAW_INS = np.dtype(RawIns)
"""`RawIns` as a record of arrays."""


@dataclass(frozen=True)
class Assembled:
    """A kernel ready for the engine.

    Attributes:
        code: RAW_INS records.
        operands: register slots; an instruction's destinations, then its sources.
        register_template: the register block with constants in place, `register_bytes` long.
        specials: (slot, kind) pairs.
        static_smem: bytes of static shared variables, padded so that dynamic memory is aligned.
        local_bytes: bytes of local memory of each thread.
        entry_registers: registers per thread at entry, or 0 when the PTX does not fix them.
        param_sizes: bytes of every kernel parameter, in order; `param_offsets` beside it.
        sources: PTX instruction index of every engine instruction.
        globals: host buffers of the module's global variables, kept alive here.
        refused: why instructions stop the run when they are executed, by number.
    """

    kernel: Kernel
    code: npt.NDArray[np.void]
    operands: npt.NDArray[np.uint32]
    register_template: npt.NDArray[np.uint8]
    specials: npt.NDArray[np.uint32]
    static_smem: int
    local_bytes: int
    entry_registers: int
    param_sizes: tuple[int, ...]
    param_offsets: tuple[int, ...]
    sources: npt.NDArray[np.int32]
    globals: tuple[tuple[str, npt.NDArray[np.uint8]], ...]
    refused: tuple[Unsupported, ...]


def _align(value: int, to: int) -> int:
    return (value + to - 1) // to * to


def _place_shared(variables: Sequence[GlobalVar]) -> tuple[dict[str, tuple[str, int]], int]:
    """Window offsets of the shared variables, and the bytes the static ones take."""
    symbols: dict[str, tuple[str, int]] = {}
    offset = SMEM_RESERVED
    for var in variables:
        if not var.extern:
            offset = _align(offset, max(var.align, 1))
            symbols[var.name] = ("shared", offset)
            offset += var.size_bytes
    if offset > SMEM_RESERVED:
        offset = _align(offset, max([var.align for var in variables if var.extern] + [16]))
    for var in variables:
        if var.extern:
            symbols[var.name] = ("shared", offset)
    return symbols, offset - SMEM_RESERVED


def _place_local(variables: Sequence[GlobalVar]) -> tuple[dict[str, tuple[str, int]], int]:
    """Offsets of a thread's local variables in its local memory, and the bytes they take."""
    symbols: dict[str, tuple[str, int]] = {}
    offset = 0
    for var in variables:
        offset = _align(offset, max(var.align, 1))
        symbols[var.name] = ("local", offset)
        offset += var.size_bytes
    return symbols, _align(offset, 16)


def _place_globals(
    variables: Sequence[GlobalVar], lines: Sequence[str]
) -> tuple[dict[str, tuple[str, int]], list[tuple[str, npt.NDArray[np.uint8]]]]:
    symbols: dict[str, tuple[str, int]] = {}
    buffers = []
    for var in variables:
        try:
            raw = np.zeros(var.size_bytes + 256, np.uint8)
        except (MemoryError, ValueError) as error:
            what = f"{var.name}: {var.size_bytes} bytes of global memory, which this machine lacks"
            raise PtxError(var.line, lines[var.line - 1], what) from error
        start = -raw.ctypes.data % 256
        buffer = raw[start : start + var.size_bytes]
        if var.init:
            buffer[: len(var.init)] = np.frombuffer(var.init, np.uint8)
        symbols[var.name] = ("global", buffer.ctypes.data)
        buffers.append((var.name, buffer))
    return symbols, buffers


def _entry_registers(directives: Mapping[str, object]) -> int:
    """Registers per thread at launch: `.maxnreg`, else the share of `.minnctapersm` CTAs.

    ptxas gives a kernel with setmaxnreg exactly these, whatever its code needs: with
    `.minnctapersm`, the register file over the threads of all its CTAs rounded up to whole
    warpgroups, in steps of 8 and at most 255 (read from the REGCOUNT of its cubins, 12.9 and 13.0).
    Without either the count is unknown: 0, and ptxas ignores setmaxnreg (C7508).
    """
    fixed = directives.get("maxnreg")
    if isinstance(fixed, int):
        return fixed
    threads = directives.get("reqntid") or directives.get("maxntid")
    if not isinstance(threads, tuple) or "minnctapersm" not in directives:
        return 0
    count = int(np.prod([int(t) for t in threads])) * max(int(str(directives["minnctapersm"])), 1)
    groups = -(-count // WARPGROUP_THREADS)
    return min(255, REGISTER_FILE // (groups * WARPGROUP_THREADS) // REGISTER_UNIT * REGISTER_UNIT)


def _pack(
    emitted: Sequence[Emitted],
    start: Sequence[int],
    reconverge: Mapping[int, int],
    opcodes: Mapping[str, int],
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint32]]:
    """The two flat arrays of a program; `start` maps PTX indices to engine indices."""
    code = np.zeros(len(emitted), RAW_INS)
    operands: list[int] = []
    for row, item in zip(code, emitted, strict=True):
        target = reconv = NONE32
        if item.target != END:
            target = start[item.target]
            at = reconverge.get(item.source, END)
            reconv = start[at] if 0 <= at < len(start) - 1 else NONE32
        row["op"], row["line"] = opcodes[item.op], item.line
        row["guard"], row["guard_negated"] = item.guard, item.guard_neg
        row["n_destinations"], row["n_sources"] = len(item.d), len(item.s)
        row["first_operand"] = len(operands)
        row["cost"], row["unit"], row["imm"] = item.cost, item.unit, item.imm
        row["target"], row["reconv"] = target, reconv
        operands.extend(item.d)
        operands.extend(item.s)
    forms = np.frombuffer(b"".join(item.form for item in emitted), np.uint8)
    code["form"] = forms.reshape(-1, FORM_BYTES)
    return code, np.array(operands or [0], np.uint32)


def _template(lo: Lowering) -> npt.NDArray[np.uint8]:
    block = np.zeros(lo.register_bytes + 64, np.uint8)
    for slot, bits, value in lo.constants():
        if bits == 1:
            block[slot : slot + LANES // 8] = 255 if value else 0
        elif bits == 128:
            halves = [value & (2**64 - 1)] * LANES + [value >> 64] * LANES
            block[slot : slot + 16 * LANES].view(np.uint64)[:] = halves
        else:
            kind = np.dtype(np.uint64 if bits == 64 else np.uint32)
            block[slot : slot + kind.itemsize * LANES].view(kind)[:] = value
    return block


def assemble(
    module: Module,
    kernel: Kernel,
    opcodes: Mapping[str, int],
    placed: Mapping[str, int] = MappingProxyType({}),
) -> Assembled:
    """Lower `kernel` for an engine whose handler numbers are `opcodes`.

    Global variables lie where `placed` says, and in new host memory otherwise.

    An instruction, modifier or operand that is not understood stops the run only when executed.

    Raises:
        PtxError: a global variable finds no memory; names the PTX line.
    """
    shared = [v for v in module.globals if v.space == "shared"] + list(kernel.shared)
    symbols, static_smem = _place_shared(shared)
    others = [v for v in module.globals if v.space != "shared" and v.name not in placed]
    more, buffers = _place_globals(others, module.source)
    more |= {name: ("global", address) for name, address in placed.items()}
    local, local_bytes = _place_local(kernel.local)
    lo = Lowering(kernel, symbols | more | local)
    start: list[int] = []
    for ins in kernel.body:
        start.append(len(lo.out))
        lo.lower(ins)
    start.append(len(lo.out))
    reconverge = build_cfg(kernel).reconverge
    code, operands = _pack(lo.out, start, reconverge, opcodes)
    specials = [(slot, SPECIALS.index(name.lstrip("%"))) for name, slot in lo.specials().items()]
    specials += [(slot, SPECIALS.index("constant")) for slot, _, _ in lo.constants()]
    return Assembled(
        kernel=kernel,
        code=code,
        operands=operands,
        register_template=_template(lo),
        specials=np.array(specials or [(0, 0)], np.uint32)[: len(specials)],
        static_smem=static_smem,
        local_bytes=local_bytes,
        entry_registers=_entry_registers(kernel.directives),
        param_sizes=tuple(p.size for p in kernel.params),
        param_offsets=tuple(p.offset for p in kernel.params),
        sources=np.array([item.source for item in lo.out], np.int32),
        globals=tuple(buffers),
        refused=tuple(lo.refused),
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
    buffer = ctypes.create_string_buffer(_align(total, 64) + 64)
    for k, (raw, offset, size) in enumerate(
        zip(params, assembled.param_offsets, assembled.param_sizes, strict=True)
    ):
        if len(raw) != size:
            raise ValueError(f"params[{k}]: {len(raw)} bytes given, the PTX declares {size}")
        ctypes.memmove(ctypes.addressof(buffer) + offset, raw, size)
    return buffer
