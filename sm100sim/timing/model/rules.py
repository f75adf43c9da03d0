"""What each instruction takes on a chip: its unit, cycles, latency, and what it does."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from ..chips import Draw
from ..records import Pipe
from .operands import PRODUCTS, Form

SHAPE: Final = re.compile(r"(\d+)x(\d+)x(\d+)")
SHARED_OPCODES: Final = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
UNIFORM_LOADS: Final = ("LDC", "ULDC", "LDCU", "S2R", "S2UR", "CS2R", "I2F", "F2I")


@dataclass(frozen=True)
class Cost:
    """What an instruction takes.

    Attributes:
        unit, also: servers of the sub-partition. service: cycles that they are taken.
        latency: cycles from there to the result. passes: of 128 bytes of shared memory.
        read_latency: cycles until operands have been read.
        action, reason: what else it does, and what a wait for its result counts as.
        group_end, keep: of wgmmas: a group ends; groups that a wait may leave.
        writes: registers of a thread that a wgmma writes; of others, thirds of a cycle at the
            registers' write ports.
        banks: registers that are read from the even bank and from the odd one.
    """

    unit: str = "none"
    also: str = "none"
    service: float = 0
    latency: float = 0
    passes: float = 0
    read_latency: float = 0
    action: str = "none"
    reason: str = "other result"
    group_end: bool = False
    keep: int = 0
    writes: int = 0
    banks: tuple[int, int] = (0, 0)


def cost_of(i: Form, draw: Draw) -> Cost:
    """Return what instructions of a form take."""
    named = _by_name(i, draw)
    if named is not None:
        return named
    cost = _by_pipe(i, draw)
    return replace(cost, writes=_port_thirds(cost, draw) if i.written else 0)


def _port_thirds(cost: Cost, draw: Draw) -> int:
    """Thirds of a cycle at the write ports: an ALU's half warps pass them as they are computed.

    Beside products of an H200 an instruction of its ALU takes 4.0 cycles and not 2, an exponential
    10.7 and not 8; additions and multiplications take no longer.
    """
    cycles = {"alu": cost.service, "mufu": draw.values.get("mufu_port_cycles", 0)}
    return round(3 * cycles.get(cost.unit, 0))


def _by_name(i: Form, draw: Draw) -> Cost | None:
    """Instructions that are not told by their unit."""
    if i.opcode in PRODUCTS:
        return _wgmma(i, draw)
    if i.opcode == "WARPGROUP":
        if "DEPBAR" not in i.modifiers:
            return Cost()
        return Cost(action="wgmma wait", keep=int(i.operands[-1], 0))
    if i.opcode == "FENCE":
        if "T" in i.modifiers:
            return Cost(action="tmem fence")
        return Cost(action="block", latency=draw["fence_cycles"])
    if i.opcode == "LDGDEPBAR":  # `cp.async.wait_all` has one of its own, in front of its wait
        return Cost(action="bulk commit")
    if i.opcode == "MEMBAR":
        return _memory_barrier(i, draw)
    if i.opcode == "ERRBAR":  # behind the barrier of a fence or a release, not of a proxy fence
        return Cost(action="block", latency=draw["errbar_cycles"])
    return None


def _memory_barrier(i: Form, draw: Draw) -> Cost:
    """A barrier of the CTA's scope orders; those of wider ones wait for what is under way.

    Behind a store an H200's takes as much longer as a store does, 217 to 301 cycles; one of the
    system's scope takes as long behind it as alone (sharing/h200_orders.json).
    """
    if "CTA" in i.modifiers:
        return Cost(action="block", latency=draw["membar_cycles"])
    if "SYS" in i.modifiers:
        return Cost(action="block", latency=draw["membar_sys_cycles"])
    return Cost(action="memory fence", latency=draw["membar_gpu_cycles"])


def wgmma_cycles(columns: int, passes: float, draw: Draw, *, registers: bool) -> float:
    """Return cycles between two wgmmas of a chain: arithmetic or operands, and a gap."""
    floor = draw["wgmma_register_floor"] if registers else 0
    return max(columns / 2, passes, floor) + draw["wgmma_gap"]


def wgmma_passes(columns: int, *, registers: bool) -> float:
    """Return 128-byte passes of operands: 16 for A in shared memory, 2 for 8 columns of B."""
    return (0 if registers else 16) + columns / 4


def _wgmma(i: Form, draw: Draw) -> Cost:
    shape = SHAPE.search(i.mnemonic)
    if shape is None:
        raise NotImplementedError(f"no shape in {i.mnemonic}")
    columns = int(shape[2])
    registers = len(i.operands) > 1 and not i.operands[1].startswith("gdesc")
    passes = wgmma_passes(columns, registers=registers)
    service = wgmma_cycles(columns, passes, draw, registers=registers)
    fixed = draw["wgmma_register_latency"] if registers else draw["wgmma_latency"]
    return Cost(
        service=service,
        passes=passes,
        latency=fixed + columns / 2 - service,
        action="wgmma",
        reason="tensor",
        group_end="gsb0" in i.operands,
        writes=columns // (4 if "F32" not in i.modifiers and i.opcode == "HGMMA" else 2),
    )


def _by_pipe(i: Form, draw: Draw) -> Cost:
    read = draw["read_latency"]
    other = Cost(latency=draw["decoupled_latency"], read_latency=read)
    if i.pipe in (Pipe.ALU, Pipe.FMA_LITE, Pipe.FMA_HEAVY, Pipe.FMA_PACKED, Pipe.FP64):
        return _arithmetic(i, draw)
    if i.pipe is Pipe.MUFU:
        cycles = draw["mufu_ex2_cycles" if "EX2" in i.modifiers else "mufu_cycles"]
        latency = draw["mufu_latency"]
        return Cost("mufu", "none", cycles, latency, read_latency=read, reason="mufu")
    if i.pipe is Pipe.UNIFORM:
        latency = draw["constant_latency" if i.opcode in UNIFORM_LOADS else "decoupled_latency"]
        return Cost("uniform", "none", draw["uniform_cycles"], latency, read_latency=read)
    if i.pipe is Pipe.LSU:
        return _access(i, draw)
    if i.pipe is Pipe.BARRIER:
        service = draw["operand_cycles"] * i.registers
        # One whose guard is false takes its way through the pipe, but for what it writes.
        # Source: cicuvc/nvidia-sass-document, notes/sm90/arch/h100_fixed_pipeline.
        latency = draw["wait_latency"] if "PHASECHK" in i.modifiers else 0
        action = "none"
        if "EXCH" in i.modifiers and "init_latency" in draw.values:
            action, read = "mbarrier init", draw["init_read_latency"]
        return Cost(
            "collector", "none", service, latency, read_latency=read, reason="mbarrier",
            action=action,
        )  # fmt: skip
    if i.pipe is Pipe.TMEM:
        return Cost(reason="tmem", read_latency=read)
    if i.pipe is Pipe.TENSOR:
        return Cost(reason="tensor", read_latency=read)
    if i.pipe is Pipe.TMA:
        return replace(other, read_latency=draw.values.get("tma_read_latency", read))
    return other


def _arithmetic(i: Form, draw: Draw) -> Cost:
    integer = "alu" if draw["shared_integer"] else "fma heavy"
    unit, also, service = {
        Pipe.ALU: ("alu", "none", draw["alu_cycles"]),
        Pipe.FMA_LITE: ("fma lite", "none", draw["fma_lite_cycles"]),
        Pipe.FMA_HEAVY: (integer, "none", draw["fma_heavy_cycles"]),
        Pipe.FMA_PACKED: (integer, "fma lite", draw["fma_packed_cycles"]),
        Pipe.FP64: ("fp64", "none", draw["fp64_cycles"]),
    }[i.pipe]
    if draw["shared_integer"] and i.pipe is Pipe.FMA_PACKED:
        also = "none"
    if i.pipe is Pipe.FMA_HEAVY and {"WIDE", "HI"} & set(i.modifiers):
        service = draw["wide_multiply_cycles"]
    banks = i.banks if draw["register_banks"] else (0, 0)
    latency, read = draw["decoupled_latency"], draw["read_latency"]
    return Cost(unit, also, service, latency, read_latency=read, banks=banks)


def _access(i: Form, draw: Draw) -> Cost:
    service = i.gathered * draw["operand_cycles"]
    read = draw["read_latency"]
    if i.opcode == "SHFL":
        latency = draw["shuffle_latency"]
        return Cost("collector", "none", service, latency, 1, read, "shared", "shared")
    if i.opcode in UNIFORM_LOADS:
        return Cost("collector", "none", service, draw["constant_latency"], 0, read)
    reason = "shared" if i.opcode in SHARED_OPCODES else "global"
    latency = draw["shared_latency" if reason == "shared" else "decoupled_latency"]
    return Cost("collector", "none", service, latency, 0, read, "none", reason)
