"""mbarrier objects (PTX ISA 9.7.13.15, "mbarrier").

Arrivals, expect_tx and complete_tx reach objects of the own CTA and, with .shared::cluster or a
generic
address, of other CTAs of the cluster; waits are local.
"""

from __future__ import annotations

from ...contract.codes import ArriveFlag, Space, Transaction, WaitFlag
from ...contract.forms import Mbarrier
from ...ptx.program import Imm, Instr, Operand, Sink
from ..addressing import place, take_space
from ..lowering import Lowering, Mods, Unit, instruction

ARRIVE_CYCLES, WAIT_CYCLES = 2, 2
OWN = ("shared", "shared::cta")
ANY = (*OWN, "shared::cluster")


def _count(lo: Lowering, operands: tuple[Operand, ...], least: int, most: int) -> None:
    if not least <= len(operands) <= most:
        raise lo.fail(f"{least} to {most} operands expected, {len(operands)} given")


@instruction("mbarrier")
def mbarrier(lo: Lowering, ins: Instr) -> None:
    """mbarrier.{init, inval, arrive, arrive_drop, expect_tx, complete_tx, test_wait, try_wait,
    pending_count}.

    arrive{_drop}{.expect_tx}{.noComplete}{.release .relaxed}{.scope}{.space}.b64 state|_, [a]{,
    count};
    {test,try}_wait{.parity}{.acquire .relaxed}{.scope}{.shared{::cta}}.b64 p, [a], state|parity{,
    hint}.
    """
    mods = Mods(ins)
    form = mods.one_of(
        "init",
        "inval",
        "arrive",
        "arrive_drop",
        "expect_tx",
        "complete_tx",
        "test_wait",
        "try_wait",
        "pending_count",
    )
    if form in ("init", "inval"):
        _life(lo, ins, mods, form)
    elif form in ("arrive", "arrive_drop"):
        _arrive(lo, ins, mods, drop=form == "arrive_drop")
    elif form in ("expect_tx", "complete_tx"):
        kind = Transaction.EXPECT if form == "expect_tx" else Transaction.COMPLETE
        _transaction(lo, ins, mods, kind)
    elif form == "pending_count":
        mods.one_of("b64")
        mods.done()
        _count(lo, ins.operands, 2, 2)
        lo.emit("MBAR_PENDING", (lo.dst(ins.operands[0], 32),), (lo.src(ins.operands[1], 64),))
    else:
        _wait(lo, ins, mods, attempt=form == "try_wait")


def _life(lo: Lowering, ins: Instr, mods: Mods, form: str) -> None:
    space = take_space(mods, *OWN)
    mods.one_of("b64")
    mods.done()
    _count(lo, ins.operands, *((2, 2) if form == "init" else (1, 1)))
    slot, offset, bits = place(lo, ins.operands[0], space)
    slots = [slot, *(lo.src(x, 32) for x in ins.operands[1:])]
    lo.emit(
        "MBAR_INIT" if form == "init" else "MBAR_INVAL",
        (),
        slots,
        Mbarrier(space=space, address_bits=bits),
        offset,
        2,
        Unit.SYNC,
    )


def _arrive(lo: Lowering, ins: Instr, mods: Mods, *, drop: bool) -> None:
    flags = ArriveFlag.DROP if drop else ArriveFlag(0)
    if mods.take("expect_tx"):
        flags |= ArriveFlag.EXPECT
    if mods.take("noComplete"):
        flags |= ArriveFlag.NO_COMPLETE
    if mods.maybe("release", "relaxed") == "relaxed":
        flags |= ArriveFlag.RELAXED
    if mods.maybe("cta", "cluster") == "cluster":
        flags |= ArriveFlag.WIDE
    space = take_space(mods, *ANY)
    mods.one_of("b64")
    mods.done()
    operands = ins.operands
    address = next((k for k, x in enumerate(operands) if type(x).__name__ == "Address"), 0)
    result, rest = operands[:address], operands[address:]
    _count(lo, result, 0, 1)
    need = bool(flags & (ArriveFlag.EXPECT | ArriveFlag.NO_COMPLETE))
    _count(lo, rest, 2 if need else 1, 2)
    dst: tuple[int, ...] = ()
    if result and not isinstance(result[0], Sink):
        if space == Space.SHARED_CLUSTER:
            raise lo.fail("an arrival with .shared::cluster returns no state; its destination is _")
        flags |= ArriveFlag.STATE
        dst = (lo.dst(result[0], 64),)
    slot, offset, bits = place(lo, rest[0], space)
    operand = lo.src(rest[1], 32) if len(rest) == 2 else lo.constant(1, 32)
    slots = (slot, lo.constant(1, 32), operand) if flags & ArriveFlag.EXPECT else (slot, operand)
    form = Mbarrier(space=space, address_bits=bits, flags=flags)
    lo.emit("MBAR_ARRIVE", dst, slots, form, offset, ARRIVE_CYCLES, Unit.SYNC)


def _transaction(lo: Lowering, ins: Instr, mods: Mods, kind: Transaction) -> None:
    mods.take("relaxed")
    mods.maybe("cta", "cluster")
    space = take_space(mods, *ANY)
    mods.one_of("b64")
    mods.done()
    _count(lo, ins.operands, 2, 2)
    slot, offset, bits = place(lo, ins.operands[0], space)
    lo.emit(
        "MBAR_TX",
        (),
        (slot, lo.src(ins.operands[1], 32)),
        Mbarrier(space=space, address_bits=bits, flags=kind),
        offset,
        ARRIVE_CYCLES,
        Unit.SYNC,
    )


def _wait(lo: Lowering, ins: Instr, mods: Mods, *, attempt: bool) -> None:
    parity = mods.take("parity")
    relaxed = mods.maybe("acquire", "relaxed") == "relaxed"
    wide = mods.maybe("cta", "cluster") == "cluster"
    space = take_space(mods, *OWN)
    mods.one_of("b64")
    mods.done()
    _count(lo, ins.operands, 3, 4 if attempt else 3)
    slot, offset, bits = place(lo, ins.operands[1], space)
    if len(ins.operands) == 4:  # time limit in ns: suspended waits end when nothing else can move
        lo.src(ins.operands[3], 32)
    if parity and isinstance(ins.operands[2], Imm) and ins.operands[2].value not in (0, 1):
        raise lo.fail(f"parity {ins.operands[2].value}: as an immediate it is 0 or 1 (ptxas)")
    wanted = lo.src(ins.operands[2], 32 if parity else 64)
    flags = WaitFlag.TRY * attempt | WaitFlag.PARITY * parity
    flags |= WaitFlag.RELAXED * relaxed | WaitFlag.WIDE * wide
    dst = lo.pred_dst(ins.operands[0])
    form = Mbarrier(space=space, address_bits=bits, flags=flags)
    lo.emit("MBAR_WAIT", (dst,), (slot, wanted), form, offset, WAIT_CYCLES, Unit.SYNC)
