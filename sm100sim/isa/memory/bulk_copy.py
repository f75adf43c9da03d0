"""Asynchronous copies (PTX ISA 9.7.9.25, "Data Movement and Conversion Instructions: Asynchronous
copy").

The opcode `cp`: cp.async and its groups, cp.async.bulk without and with a tensor (tensor_copy.py),
cp.reduce.async.bulk, bulk async-groups.
"""

from __future__ import annotations

from ...contract.codes import ArriveFlag, CopyFlag, CpSource, Element, RedOp, Space
from ...contract.forms import Bulk, Copy, Mbarrier, WaitGroup
from ...ptx.program import Address, Instr, NotPred, Operand, Reg
from ..addressing import place, take_policy, take_space
from ..lowering import Lowering, Mods, Unit, instruction
from .atomics import element_of, take_operation
from .tensor_copy import TMA_ISSUE_CYCLES, lower_tensor


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
        count = lo.imm_value(ins.operands[0])
        lo.emit("BULK_WAIT", form=WaitGroup(read=read), imm=count, unit=Unit.SYNC)
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
        lo.emit("CP_WAIT", form=WaitGroup(all=True), unit=Unit.SYNC)
    elif mods.take("wait_group"):
        mods.done()
        lo.emit("CP_WAIT", form=WaitGroup(), imm=lo.imm_value(ins.operands[0]), unit=Unit.SYNC)
    elif mods.take("mbarrier"):
        mods.one_of("arrive")
        noinc = mods.take("noinc")
        space = take_space(mods, "shared", "shared::cta")
        mods.one_of("b64")
        mods.done()
        slot, offset, bits = lo.address(ins.operands[0])
        if bits == 32:  # an H100 takes 32 bits for a shared address without .shared, too
            space = Space.SHARED_CTA
        form = Mbarrier(space=space, address_bits=bits, flags=ArriveFlag.NOINC * noinc)
        lo.emit("CP_ARRIVE", (), (slot,), form, offset, 2, Unit.SYNC)
    else:
        _copy_small(lo, ins, mods)


def _third(lo: Lowering, operand: Operand | None) -> tuple[CpSource, tuple[int, ...]]:
    """(kind, slots) of the operand after cp-size: a source size or an ignore-src predicate."""
    if operand is None:
        return CpSource.WHOLE, ()
    if isinstance(operand, NotPred):
        raise lo.fail("a negated ignore-src predicate is not in the instruction set here")
    if isinstance(operand, Reg) and operand.type.bits == 1:
        return CpSource.IGNORE, (lo.pred_src(operand)[0],)
    return CpSource.SIZE, (lo.src(operand, 32),)


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
        Copy(
            size=size, third=kind, address_bits=dst_bits, source_bits=src_bits,
            source_offset=src_offset,
        ),
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
    from_global, multicast = mods.take("global"), mods.take("multicast::cluster")
    space = Space.SHARED_CLUSTER if mods.take("shared::cluster") else Space.SHARED_CTA
    if space == Space.SHARED_CTA or not from_global:
        mods.one_of("shared::cta")
    into_cluster = space == Space.SHARED_CLUSTER
    if (reduce and (from_global or multicast)) or not (from_global or into_cluster):
        raise lo.fail(
            "bulk copies into shared memory come from .global, or from .shared::cta into "
            ".shared::cluster"
        )
    op, element = _operation(lo, mods, reduce=reduce)
    take_policy(lo, mods, ins.operands, 4 + multicast)
    mods.done()
    dst, dst_offset, dst_bits = place(lo, ins.operands[0], space)
    src, src_offset, src_bits = place(
        lo, ins.operands[1], Space.GLOBAL if from_global else Space.SHARED_CTA
    )
    bar, bar_offset, bar_bits = place(lo, ins.operands[3], space)
    mask = lo.src(ins.operands[4], 16) if multicast else lo.constant(0, 32)
    flags = CopyFlag.FROM_GLOBAL * from_global | CopyFlag.MULTICAST * multicast
    lo.emit(
        "BULK_COPY",
        (),
        (dst, src, bar, lo.src(ins.operands[2], 32), mask),
        Bulk(
            flags=flags | CopyFlag.REDUCE * reduce, space=space, op=op, element=element,
            address_bits=dst_bits, source_bits=src_bits, bar_bits=bar_bits,
            source_offset=src_offset, bar_offset=bar_offset,
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
    flags = CopyFlag.REDUCE * reduce | CopyFlag.BYTE_MASK * masked
    lo.emit(
        "BULK_STORE",
        (),
        (dst, src, lo.src(operands[2], 32), mask),
        Bulk(
            flags=flags, op=op, element=element, address_bits=dst_bits, source_bits=src_bits,
            source_offset=src_offset,
        ),
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
