"""CTA barriers, warp barriers, cluster barriers, register reallocation.

PTX ISA 9.7.13.1 "bar, barrier", 9.7.13.2 "bar.warp.sync", 9.7.13.3 "barrier.cluster", 9.7.20.5
"setmaxnreg".
"""

from __future__ import annotations

from ...contract.codes import REGISTER_UNIT, BarrierKind
from ...contract.forms import Barrier, ClusterBarrier, RegisterBudget
from ...ptx.program import Instr
from ..lowering import Lowering, Mods, Unit, instruction

REDUCTIONS = {
    "popc": (BarrierKind.RED_POPC, "u32"),
    "and": (BarrierKind.RED_AND, "pred"),
    "or": (BarrierKind.RED_OR, "pred"),
}
MIN_REGISTERS, MAX_REGISTERS = 24, 256
"""Range of setmaxnreg's immediate."""


@instruction("bar", "barrier")
def barrier(lo: Lowering, ins: Instr) -> None:
    """bar{.cta}.{sync,arrive,red}, barrier{.cta}.{sync,arrive,red}{.aligned}, bar.warp.sync,
    barrier.cluster.*.

    sync a{, b}; arrive a, b; red.popc.u32 d, a{, b}, {!}p; red.{and,or}.pred q, a{, b}, {!}p.
    A warp arrives as a whole: its lanes meet at the instruction first. Without `.aligned` they may
    come to a `.sync` by calls of their own, and go on apart; the warp arrives with the last ones.
    """
    mods = Mods(ins)
    if ins.opcode == "bar" and mods.take("warp"):
        mods.one_of("sync")
        mods.done()
        lo.emit("WARP_BARRIER", (), (lo.src(ins.operands[0], 32),), unit=Unit.SYNC)
        return
    if ins.opcode == "barrier" and mods.take("cluster"):
        _cluster(lo, ins, mods)
        return
    mods.take("cta")
    form = mods.one_of("sync", "arrive", "red")
    aligned = mods.take("aligned") or ins.opcode == "bar"
    if form == "red":
        _reduction(lo, ins, mods)
        return
    mods.done()
    least = 1 if form == "sync" else 2
    if not least <= len(ins.operands) <= 2:
        raise lo.fail(f"barrier.{form} takes {least} to 2 operands, {len(ins.operands)} given")
    slots = [lo.src(x, 32) for x in ins.operands]
    kind = BarrierKind.SYNC if form == "sync" else BarrierKind.ARRIVE
    words = Barrier(kind=kind, counted=len(slots) == 2, aligned=aligned)
    lo.emit("NAMED_BARRIER", (), slots, words, unit=Unit.SYNC)


def _reduction(lo: Lowering, ins: Instr, mods: Mods) -> None:
    kind, result = REDUCTIONS[mods.one_of(*REDUCTIONS)]
    mods.one_of(result)
    mods.done()
    if not 3 <= len(ins.operands) <= 4:
        raise lo.fail(
            "barrier.red takes a result, a barrier number, optionally a thread count, and a "
            "predicate"
        )
    d, *numbers, vote = ins.operands
    predicate, negated = lo.pred_src(vote)
    dst = lo.dst(d, 32) if result == "u32" else lo.pred_dst(d)
    slots = [*(lo.src(x, 32) for x in numbers), predicate]
    words = Barrier(kind=kind, counted=len(numbers) == 2, negated=negated)
    lo.emit("NAMED_BARRIER", (dst,), slots, words, unit=Unit.SYNC)


def _cluster(lo: Lowering, ins: Instr, mods: Mods) -> None:
    """barrier.cluster.arrive{.release .relaxed}{.aligned},
    barrier.cluster.wait{.acquire}{.aligned}."""
    arrive = mods.one_of("arrive", "wait") == "arrive"
    order = mods.maybe("release", "relaxed") if arrive else mods.maybe("acquire")
    aligned = mods.take("aligned")
    mods.done()
    if ins.operands:
        raise lo.fail("barrier.cluster takes no operands")
    lo.emit(
        "CLUSTER_ARRIVE" if arrive else "CLUSTER_WAIT",
        form=ClusterBarrier(relaxed=order == "relaxed", aligned=aligned),
        unit=Unit.SYNC,
    )


@instruction("setmaxnreg")
def set_max_registers(lo: Lowering, ins: Instr) -> None:
    """setmaxnreg.{inc,dec}.sync.aligned.u32 n: move registers between the warps of a CTA and its
    pool."""
    mods = Mods(ins)
    grow = mods.one_of("inc", "dec") == "inc"
    for name in ("sync", "aligned", "u32"):
        mods.one_of(name)
    mods.done()
    count = lo.imm_value(ins.operands[0])
    if not MIN_REGISTERS <= count <= MAX_REGISTERS or count % REGISTER_UNIT:
        raise lo.fail(f"{count} registers: expected a multiple of 8 from 24 to 256")
    lo.emit("SETMAXNREG", form=RegisterBudget(grow=grow), imm=count, unit=Unit.SYNC)
