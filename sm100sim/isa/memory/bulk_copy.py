"""Asynchronous copies (PTX ISA 9.7.9.25, "Data Movement and Conversion Instructions: Asynchronous
copy").

The opcode `cp`: cp.async and its groups, cp.async.bulk without and with a tensor (tensor_copy.py),
cp.reduce.async.bulk, bulk async-groups.
"""

from __future__ import annotations

from ...ptx.program import Address, Instr, NotPred, Operand, Reg
from ..addressing import Space, place, take_policy, take_space
from ..lowering import Lowering, Mods, Unit, instruction
from .atomics import Element, RedOp, element_of, take_operation
from .tensor_copy import TMA_ISSUE_CYCLES, lower_tensor

FROM_GLOBAL, MULTICAST, REDUCE, BYTE_MASK = 1, 2, 4, 8
"""Flags of bulk_copy.c."""

NO_SOURCE, SOURCE_SIZE, IGNORE_SOURCE = range(3)
"""Third operand of cp.async in cp_async.c."""


@instruction("cp")
def copy(lo: Lowering, ins: Instr) -> None:
    """cp.async{.ca,.cg}, cp.async.{commit_group,wait_group,wait_all,mbarrier.arrive},
    cp.async.bulk*, cp.reduce.async.bulk*."""
    mods = Mods(ins)
    reduce = mods.take("reduce")
    mods.one_of("async")
    if not mods.take("bulk"):
        if reduce:
            raise lo.fail("cp.reduce exists for bulk copies only")
        _copy_async(lo, ins, mods)
    elif mods.take("tensor"):
        lower_tensor(lo, ins, mods, reduce=reduce)
    elif mods.take("commit_group"):
        mods.done()
        lo.emit("BULK_COMMIT", unit=Unit.TMA)
    elif mods.take("wait_group"):
        read = mods.take("read")
        mods.done()
        lo.emit("BULK_WAIT", sub=(read,), imm=lo.imm_value(ins.operands[0]), unit=Unit.SYNC)
    elif mods.take("prefetch"):
        _prefetch(lo, ins, mods)
    elif mods.take("bulk_group"):
        _to_global(lo, ins, mods, reduce=reduce)
    else:
        _to_shared(lo, ins, mods, reduce=reduce)


# ---- cp.async -----------------------------------------------------------------------------------
def _copy_async(lo: Lowering, ins: Instr, mods: Mods) -> None:
    if mods.take("commit_group"):
        mods.done()
        lo.emit("CP_COMMIT", unit=Unit.LSU)
    elif mods.take("wait_all"):
        mods.done()
        lo.emit("CP_WAIT", sub=(1,), unit=Unit.SYNC)
    elif mods.take("wait_group"):
        mods.done()
        lo.emit("CP_WAIT", imm=lo.imm_value(ins.operands[0]), unit=Unit.SYNC)
    elif mods.take("mbarrier"):
        mods.one_of("arrive")
        noinc = mods.take("noinc")
        space = take_space(mods, "shared", "shared::cta")
        mods.one_of("b64")
        mods.done()
        slot, offset, bits = place(lo, ins.operands[0], space)
        lo.emit("CP_ARRIVE", (), (slot,), (space, bits, noinc), offset, 2, Unit.SYNC)
    else:
        _copy_small(lo, ins, mods)


def _third(lo: Lowering, operand: Operand | None) -> tuple[int, tuple[int, ...]]:
    """(kind, slots) of the operand behind cp-size: a source size or an ignore-src predicate."""
    if operand is None:
        return NO_SOURCE, ()
    if isinstance(operand, NotPred):
        raise lo.fail("a negated ignore-src predicate is not in the instruction set here")
    if isinstance(operand, Reg) and operand.type.bits == 1:
        return IGNORE_SOURCE, (lo.pred_src(operand)[0],)
    return SOURCE_SIZE, (lo.src(operand, 32),)


def _copy_small(lo: Lowering, ins: Instr, mods: Mods) -> None:
    """cp.async.{ca,cg}.shared{::cta}.global{.L2::cache_hint}{.L2::size} [dst], [src], size{,
    src-size|ignore}{, policy}."""
    whole = mods.one_of("ca", "cg") == "cg"
    take_space(mods, "shared", "shared::cta")
    mods.one_of("global")
    mods.maybe("L2::64B", "L2::128B", "L2::256B")
    hint = mods.take("L2::cache_hint")
    mods.done()
    operands = ins.operands[: len(ins.operands) - hint]
    size = lo.imm_value(operands[2])
    if size not in ((16,) if whole else (4, 8, 16)) or not 3 <= len(operands) <= 4:
        raise lo.fail(f"cp-size {size}: expected 4, 8 or 16, with .cg 16")
    kind, extra = _third(lo, operands[3] if len(operands) == 4 else None)
    dst, dst_offset, dst_bits = place(lo, operands[0], Space.SHARED_CTA)
    src, src_offset, src_bits = place(lo, operands[1], Space.GLOBAL)
    lo.emit(
        "CP_ASYNC",
        (),
        (dst, src, *extra),
        (size, kind, dst_bits | src_bits << 8, src_offset),
        dst_offset,
        max(1, size // 4),
        Unit.LSU,
    )


# ---- cp.async.bulk ------------------------------------------------------------------------------
def _operation(lo: Lowering, mods: Mods, *, reduce: bool) -> tuple[RedOp, Element]:
    """Consume `.redOp.type` of a bulk reduction."""
    if not reduce:
        return RedOp.add, Element.U8
    op = take_operation(mods)
    kind = mods.last()
    mods.take("noftz")
    if op in (RedOp.exch, RedOp.cas) or kind.endswith("x2") or kind == "b16":
        raise lo.fail(f".{op.name}.{kind} is not a bulk reduction")
    element = element_of(lo, op, kind)[0]
    # unlike red.global, bulk sums of f32 keep subnormals (seen on H200)
    return op, Element.F32 if element == Element.F32_FTZ else element


def _to_shared(lo: Lowering, ins: Instr, mods: Mods, *, reduce: bool) -> None:
    """cp{.reduce}.async.bulk.{shared::cluster,shared::cta}.{global,shared::cta}.mbarrier::complete_tx::bytes
    {.multicast::cluster}{.L2::cache_hint}{.redOp.type} [dst], [src], size, [mbar]{, mask}{,
    policy}."""
    mods.one_of("mbarrier::complete_tx::bytes")
    flags = (FROM_GLOBAL if mods.take("global") else 0) | (
        MULTICAST if mods.take("multicast::cluster") else 0
    )
    space = Space.SHARED_CLUSTER if mods.take("shared::cluster") else Space.SHARED_CTA
    if space == Space.SHARED_CTA or not flags & FROM_GLOBAL:
        mods.one_of("shared::cta")
    if (reduce and flags) or not (flags & FROM_GLOBAL or space == Space.SHARED_CLUSTER):
        raise lo.fail(
            "bulk copies into shared memory come from .global, or from .shared::cta into "
            ".shared::cluster"
        )
    op, element = _operation(lo, mods, reduce=reduce)
    multicast = bool(flags & MULTICAST)
    take_policy(lo, mods, ins.operands, 4 + multicast)
    mods.done()
    dst, dst_offset, dst_bits = place(lo, ins.operands[0], space)
    src, src_offset, src_bits = place(
        lo, ins.operands[1], Space.GLOBAL if flags & FROM_GLOBAL else Space.SHARED_CTA
    )
    bar, bar_offset, bar_bits = place(lo, ins.operands[3], space)
    mask = lo.src(ins.operands[4], 16) if multicast else lo.constant(0, 32)
    flags |= REDUCE if reduce else 0
    lo.emit(
        "BULK_COPY",
        (),
        (dst, src, bar, lo.src(ins.operands[2], 32), mask),
        (
            flags | space << 8 | op << 16 | element << 24,
            src_offset,
            bar_offset,
            dst_bits | src_bits << 8 | bar_bits << 16,
        ),
        dst_offset,
        TMA_ISSUE_CYCLES,
        Unit.TMA,
    )


def _to_global(lo: Lowering, ins: Instr, mods: Mods, *, reduce: bool) -> None:
    """cp{.reduce}.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}{.cp_mask}{.redOp{.noftz}.type}
    [dst], [src], size{, policy}{, byteMask}."""
    mods.one_of("global")
    mods.one_of("shared::cta")
    masked = mods.take("cp_mask")
    op, element = _operation(lo, mods, reduce=reduce)
    operands: tuple[Operand, ...] = ins.operands
    mask = lo.constant(0, 32)
    if masked:
        mask, operands = lo.src(operands[-1], 16), operands[:-1]
    take_policy(lo, mods, operands, 3)
    mods.done()
    dst, dst_offset, dst_bits = place(lo, operands[0], Space.GLOBAL)
    src, src_offset, src_bits = place(lo, operands[1], Space.SHARED_CTA)
    flags = (REDUCE if reduce else 0) | (BYTE_MASK if masked else 0)
    lo.emit(
        "BULK_STORE",
        (),
        (dst, src, lo.src(operands[2], 32), mask),
        (flags | op << 16 | element << 24, src_offset, 0, dst_bits | src_bits << 8),
        dst_offset,
        TMA_ISSUE_CYCLES,
        Unit.TMA,
    )


def _prefetch(lo: Lowering, ins: Instr, mods: Mods) -> None:
    """cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [src], size{, policy}; ...prefetch.tensor
    in tensor_copy.py."""
    mods.one_of("L2")
    mods.one_of("global")
    take_policy(lo, mods, ins.operands, 2)
    mods.done()
    if not isinstance(ins.operands[0], Address):
        raise lo.fail("the first operand must be an address")
    lo.emit(
        "HINT",
        (),
        (place(lo, ins.operands[0], Space.GLOBAL)[0], lo.src(ins.operands[1], 32)),
        unit=Unit.TMA,
    )
