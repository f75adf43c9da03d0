"""Operations across a warp (PTX ISA: shfl, vote, match, redux, elect.sync, activemask)."""

from __future__ import annotations

from ...ptx.program import Instr, PredPair
from ..arith.integer import operands
from ..lowering import Lowering, Mods, instruction

SHUFFLES = ("up", "down", "bfly", "idx")
VOTES = ("ballot", "any", "all", "uni")
REDUCTIONS = {
    "add": {"u32": 0, "s32": 0},
    "min": {"u32": 1, "s32": 3, "f32": 8},
    "max": {"u32": 2, "s32": 4, "f32": 9},
    "and": {"b32": 5},
    "or": {"b32": 6},
    "xor": {"b32": 7},
}


@instruction("shfl")
def shuffle(lo: Lowering, ins: Instr) -> None:
    """shfl.sync.{up,down,bfly,idx}.b32 d{|p}, a, b, c, membermask."""
    mods = Mods(ins)
    mods.one_of("sync")
    mode = SHUFFLES.index(mods.one_of(*SHUFFLES))
    mods.one_of("b32")
    mods.done()
    operands(lo, ins, 5)
    d, *sources = ins.operands
    outs = [lo.dst(d.a, 32), lo.pred_dst(d.b)] if isinstance(d, PredPair) else [lo.dst(d, 32)]
    lo.emit("SHFL", d=outs, s=[lo.src(x, 32) for x in sources], sub=(mode,), cost=2)


@instruction("vote")
def vote(lo: Lowering, ins: Instr) -> None:
    """vote.sync.{all,any,uni}.pred, vote.sync.ballot.b32."""
    mods = Mods(ins)
    mods.one_of("sync")
    mode = mods.one_of(*VOTES)
    mods.one_of("b32" if mode == "ballot" else "pred")
    mods.done()
    operands(lo, ins, 3)
    d, p, members = ins.operands
    slot, negated = lo.pred_src(p)
    out = lo.dst(d, 32) if mode == "ballot" else lo.pred_dst(d)
    lo.emit(
        "VOTE", d=[out], s=[slot, lo.src(members, 32)], sub=(VOTES.index(mode), negated), cost=2
    )


@instruction("elect")
def elect(lo: Lowering, ins: Instr) -> None:
    """elect.sync d|p, membermask: one lane, here the lowest member."""
    mods = Mods(ins)
    mods.one_of("sync")
    mods.done()
    operands(lo, ins, 2)
    d, members = ins.operands
    if not isinstance(d, PredPair):
        raise lo.fail("elect.sync writes d|p")
    lo.emit("ELECT", d=[lo.dst(d.a, 32), lo.pred_dst(d.b)], s=[lo.src(members, 32)], cost=2)


@instruction("activemask")
def activemask(lo: Lowering, ins: Instr) -> None:
    """activemask.b32."""
    mods = Mods(ins)
    mods.one_of("b32")
    mods.done()
    operands(lo, ins, 1)
    lo.emit("ACTIVEMASK", d=[lo.dst(ins.operands[0], 32)], cost=2)


@instruction("match")
def match(lo: Lowering, ins: Instr) -> None:
    """match.{any,all}.sync.{b32,b64} d{|p}, a, membermask."""
    mods = Mods(ins)
    mode = mods.one_of("any", "all")
    mods.one_of("sync")
    kind = mods.one_of("b32", "b64")
    mods.done()
    operands(lo, ins, 3)
    d, a, members = ins.operands
    outs = [lo.dst(d.a, 32), lo.pred_dst(d.b)] if isinstance(d, PredPair) else [lo.dst(d, 32)]
    bits = int(kind[1:])
    lo.emit(
        "MATCH",
        d=outs,
        s=[lo.src(a, bits), lo.src(members, 32)],
        sub=(mode == "all", bits == 64),
        cost=8,
    )


@instruction("redux")
def redux(lo: Lowering, ins: Instr) -> None:
    """redux.sync.{add,min,max,and,or,xor} .u32 .s32 .b32, min/max{.abs}{.NaN}.f32."""
    mods = Mods(ins)
    mods.one_of("sync")
    op = mods.one_of(*REDUCTIONS)
    absolute, nan = mods.take("abs"), mods.take("NaN")
    kind = mods.one_of(*REDUCTIONS[op])
    if (absolute or nan) and kind != "f32":
        raise lo.fail(".abs and .NaN go with f32")
    mods.done()
    operands(lo, ins, 3)
    d, a, members = ins.operands
    sources = [lo.src(a, 32), lo.src(members, 32)]
    lo.emit(
        "REDUX", d=[lo.dst(d, 32)], s=sources, sub=(REDUCTIONS[op][kind], absolute, nan), cost=8
    )
