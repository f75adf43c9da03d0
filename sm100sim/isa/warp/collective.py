"""Operations across a warp (PTX ISA: shfl, vote, match, redux, elect.sync, activemask)."""

from __future__ import annotations

from ...contract.codes import REDUCTIONS, SHUFFLES, VOTES
from ...contract.forms import Collective
from ...ptx.program import Instr, PredPair
from ..arith.integer import operands
from ..lowering import Lowering, Mods, instruction

REDUX_TYPES = {
    "add": ("u32", "s32"), "min": ("u32", "s32", "f32"), "max": ("u32", "s32", "f32"),
    "and": ("b32",), "or": ("b32",), "xor": ("b32",),
}  # fmt: skip


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
    lo.emit("SHFL", d=outs, s=[lo.src(x, 32) for x in sources], form=Collective(mode=mode), cost=2)


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
    form = Collective(mode=VOTES.index(mode), negated=negated)
    lo.emit("VOTE", d=[out], s=[slot, lo.src(members, 32)], form=form, cost=2)


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
        form=Collective(all=mode == "all", wide=bits == 64),
        cost=8,
    )


@instruction("redux")
def redux(lo: Lowering, ins: Instr) -> None:
    """redux.sync.{add,min,max,and,or,xor} .u32 .s32 .b32, min/max{.abs}{.NaN}.f32."""
    mods = Mods(ins)
    mods.one_of("sync")
    op = mods.one_of(*REDUX_TYPES)
    absolute, nan = mods.take("abs"), mods.take("NaN")
    kind = mods.one_of(*REDUX_TYPES[op])
    if (absolute or nan) and kind != "f32":
        raise lo.fail(".abs and .NaN go with f32")
    mods.done()
    operands(lo, ins, 3)
    d, a, members = ins.operands
    sources = [lo.src(a, 32), lo.src(members, 32)]
    name = f"{op}_{kind}" if op in ("min", "max") else op
    form = Collective(mode=REDUCTIONS.index(name), absolute=absolute, nan=nan)
    lo.emit("REDUX", d=[lo.dst(d, 32)], s=sources, form=form, cost=8)
