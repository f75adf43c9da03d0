"""Tensor Memory loads, stores, waits and fences (PTX ISA, "Tensor Memory and Register Load/Store
Instructions", "Synchronization: tcgen05.fence")."""

from __future__ import annotations

from ...contract.codes import LD_SHAPES
from ...contract.forms import TmemAccess
from ...ptx.program import Instr, Operand, Vector
from ..lowering import Lowering, Mods, Unit
from .forms import form, sync_aligned, tmem_address

SHAPES = {
    "32x32b": (1, 128), "16x64b": (1, 128), "16x128b": (2, 64), "16x256b": (4, 32),
    "16x32bx2": (1, 128),
}  # fmt: skip
"""shape -> (registers per repetition, largest repetition)."""

WAIT_ST_CYCLES = 12
"""tcgen05.wait::st (published)."""

WAIT_LD_CYCLES = 2
"""tcgen05.wait::ld after the data has arrived (published)."""


def load_cycles(registers: int) -> int:
    """Issue cycles of a load at 128 B per cycle, the structural bound."""
    return max(4, registers)


def store_cycles(registers: int) -> int:
    """Issue cycles of a store, about 0.85 per register (published)."""
    return max(3, (registers * 85 + 99) // 100)


def _shape(lo: Lowering, mods: Mods) -> tuple[str, int]:
    """Consume shape and repetition; answers (shape, number of registers)."""
    shape = mods.one_of(*SHAPES)
    count = int(mods.one_of("x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128")[1:])
    per, largest = SHAPES[shape]
    if count > largest:
        raise lo.fail(f".{shape} has no repetition x{count}")
    return shape, per * count


def _registers(lo: Lowering, operand: Operand, count: int) -> tuple[Operand, ...]:
    items = tuple(operand.items) if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise lo.fail(f"the shape needs {count} registers, {len(items)} are given")
    return items


def _half_offset(lo: Lowering, shape: str, operands: list[Operand]) -> int:
    """Remove and return immHalfSplitoff, the last of `operands`, which only .16x32bx2 has."""
    if shape != "16x32bx2":
        return 0
    if not operands:
        raise lo.fail(".16x32bx2 needs the column offset of the upper half")
    offset = lo.imm_value(operands.pop())
    if not 0 <= offset < 512:
        raise lo.fail(f"column offset {offset} of the upper half is not in 0..511")
    return offset


@form("ld")
def load(lo: Lowering, ins: Instr) -> None:
    """tcgen05.ld.sync.aligned.shape.num{.pack::16b}.b32 r, [taddr]{, immHalfSplitoff}.

    All shapes of sm_100a; `.red` is refused.
    """
    mods = Mods(ins)
    mods.take("ld")
    sync_aligned(mods)
    shape, count = _shape(lo, mods)
    packed = mods.take("pack::16b")
    mods.one_of("b32")
    mods.done()
    rest = list(ins.operands[2:])
    half = _half_offset(lo, shape, rest)
    if rest or len(ins.operands) < 2:
        raise lo.fail("unexpected operands")
    registers = tuple(lo.dst(r, 32) for r in _registers(lo, ins.operands[0], count))
    slot, offset = tmem_address(lo, ins.operands[1])
    lo.emit(
        "TMEM_LD", d=registers, s=(slot,), imm=offset,
        form=TmemAccess(shape=LD_SHAPES.index(shape), packed=packed, half=half),
        cost=load_cycles(count), unit=Unit.TMEM,
    )  # fmt: skip


@form("st")
def store(lo: Lowering, ins: Instr) -> None:
    """tcgen05.st.sync.aligned.shape.num{.unpack::16b}.b32 [taddr]{, immHalfSplitoff}, r."""
    mods = Mods(ins)
    mods.take("st")
    sync_aligned(mods)
    shape, count = _shape(lo, mods)
    packed = mods.take("unpack::16b")
    mods.one_of("b32")
    mods.done()
    if len(ins.operands) < 2:
        raise lo.fail("st takes [taddr] and registers")
    rest = list(ins.operands[1:-1])
    half = _half_offset(lo, shape, rest)
    if rest:
        raise lo.fail("unexpected operands")
    slot, offset = tmem_address(lo, ins.operands[0])
    registers = tuple(lo.src(r, 32) for r in _registers(lo, ins.operands[-1], count))
    lo.emit(
        "TMEM_ST", s=(slot, *registers), imm=offset,
        form=TmemAccess(shape=LD_SHAPES.index(shape), packed=packed, half=half),
        cost=store_cycles(count), unit=Unit.TMEM,
    )  # fmt: skip


@form("wait::ld", "wait::st")
def wait(lo: Lowering, ins: Instr) -> None:
    """tcgen05.wait::ld.sync.aligned, tcgen05.wait::st.sync.aligned: the warp's own accesses."""
    mods = Mods(ins)
    stores = mods.one_of("wait::ld", "wait::st") == "wait::st"
    sync_aligned(mods)
    mods.done()
    cycles = WAIT_ST_CYCLES if stores else WAIT_LD_CYCLES
    lo.emit("TMEM_WAIT", form=TmemAccess(stores=stores), cost=cycles, unit=Unit.TMEM)


@form("fence::before_thread_sync", "fence::after_thread_sync")
def fence(lo: Lowering, ins: Instr) -> None:
    """tcgen05.fence::before_thread_sync, tcgen05.fence::after_thread_sync: order only."""
    mods = Mods(ins)
    side = mods.one_of("fence::before_thread_sync", "fence::after_thread_sync")
    mods.done()
    after = side == "fence::after_thread_sync"
    lo.emit("TMEM_FENCE", form=TmemAccess(after=after), unit=Unit.SYNC)
