"""Matrix multiply-accumulate (PTX ISA, "tcgen05.mma").

Covered: kinds f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 and mxf4nvf4 with A in shared or Tensor Memory,
cta_group 1 and 2, disable-output-lane vectors, scale-input-d, collector hints; `.sp`; `.ws` of the
kinds without scale factors.
Refused: `.ws.sp`, `.ashift`, shifts of zero-column masks.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...contract.codes import MMA_KINDS, MmaFlag
from ...contract.forms import Mma
from ...ptx.program import Address, Instr, Operand, Vector
from ..lowering import Lowering, Mods, Unit
from .forms import cta_group, form, tmem_address

BLOCK_OF = {
    ("mxf8f6f4", None): 32, ("mxf8f6f4", "scale_vec::1X"): 32, ("mxf8f6f4", "block32"): 32,
    ("mxf4", None): 32, ("mxf4", "scale_vec::2X"): 32, ("mxf4", "block32"): 32,
    ("mxf4nvf4", "scale_vec::2X"): 32, ("mxf4nvf4", "block32"): 32,
    ("mxf4nvf4", "scale_vec::4X"): 16, ("mxf4nvf4", "block16"): 16,
}  # fmt: skip
"""(kind, scale vector size modifier) -> elements along K per scale factor."""

_USES = ("fill", "use", "lastuse", "discard")
COLLECTOR = tuple(f"collector::a::{use}" for use in _USES)
STATIONARY_COLLECTOR = tuple(f"collector::b{k}::{use}" for k in range(4) for use in _USES)
"""Hints about collector buffers, of .ws for B: without effect on a correct program's results."""

MOST_OFFSET = (1 << 15) - 1
"""Of an address of scale factors or metadata: more than the columns there are."""
MMA_ISSUE_CYCLES = 2
"""Issue slots of one MMA; the tensor pipe's time is modelled in the engine's mma.h."""


@dataclass(slots=True)
class _Shape:
    """What the modifiers say."""

    kind: str
    group: int
    block: int
    stationary: bool
    sparse: bool


def _modifiers(lo: Lowering, ins: Instr) -> _Shape:
    mods = Mods(ins)
    mods.take("mma")
    stationary = mods.take("ws")
    sparse = mods.take("sp")
    if mods.take("ashift") or (sparse and stationary):
        raise lo.fail("tcgen05.mma.ashift and tcgen05.mma.ws.sp are not modelled")
    group = cta_group(mods)
    kind = mods.one_of(*(f"kind::{k}" for k in MMA_KINDS)).removeprefix("kind::")
    block = 0
    if kind.startswith("mx"):
        mods.one_of("block_scale")
        size = mods.maybe("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
        if (kind, size) not in BLOCK_OF:
            raise lo.fail(f"kind::{kind} does not go with scale vector size {size}")
        block = BLOCK_OF[kind, size]
    if stationary and (group == 2 or block):
        raise lo.fail("tcgen05.mma.ws exists with cta_group::1 and without block scaling")
    mods.maybe(*(STATIONARY_COLLECTOR if stationary else COLLECTOR))
    mods.done()
    return _Shape(kind, group, block, stationary, sparse)


def _columns(lo: Lowering, operand: Operand) -> tuple[int, int]:
    """Slot and offset of the address of metadata or scale factors."""
    slot, offset = tmem_address(lo, operand)
    if abs(offset) > MOST_OFFSET:
        raise lo.fail(f"an offset of {offset} to scale factors or metadata: {MOST_OFFSET} at most")
    return slot, offset


def _scale_factors(lo: Lowering, shape: _Shape, rest: list[Operand]) -> tuple[list[int], list[int]]:
    """Consume `[scale-A], [scale-B]`; answers slots and address offsets."""
    if not shape.block:
        return [], []
    if len(rest) < 2:
        raise lo.fail("a block-scaled kind needs two scale factor addresses")
    pairs = [_columns(lo, rest.pop(0)) for _ in range(2)]
    return [slot for slot, _ in pairs], [offset for _, offset in pairs]


def _disable_lanes(lo: Lowering, shape: _Shape, rest: list[Operand]) -> list[int]:
    """Consume the disable-output-lane vector: 4 words for one CTA, 8 for a pair."""
    if shape.stationary or not rest or not isinstance(rest[0], Vector):
        return []
    words = rest.pop(0)
    assert isinstance(words, Vector)
    if shape.block or len(words.items) != 4 * shape.group:
        raise lo.fail(f"disable-output-lane needs {4 * shape.group} words, and no block scaling")
    return [lo.src(word, 32) for word in words.items]


@form("mma")
def mma(lo: Lowering, ins: Instr) -> None:
    """tcgen05.mma{.ws}{.sp}.cta_group.kind{.block_scale{.size}}{.collector} [d], a | [a], b,
    {[sp-meta], }idesc, enable.

    Optional operands: [scale-A], [scale-B] before enable (block-scaled kinds);
    {disable-output-lane} before enable; scale-input-d after it (0..15, kinds f16 and tf32); of .ws
    a zero-column mask after it.
    """
    shape = _modifiers(lo, ins)
    if len(ins.operands) < 5:
        raise lo.fail("mma takes at least [d], a, b, idesc and enable-input-d")
    d, a, b, *rest = ins.operands
    metadata = [_columns(lo, rest.pop(0))] if shape.sparse else []
    idesc = rest.pop(0)
    d_slot, d_offset = tmem_address(lo, d)
    flags = MmaFlag.PAIR if shape.group == 2 else MmaFlag(0)
    a_offset = 0
    if isinstance(a, Address):
        flags |= MmaFlag.A_TMEM
        a_slot, a_offset = tmem_address(lo, a)
    else:
        a_slot = lo.src(a, 64)
    factors, offsets = _scale_factors(lo, shape, rest)
    if metadata:
        flags |= MmaFlag.SPARSE
    masks = _disable_lanes(lo, shape, rest)
    if not rest:
        raise lo.fail("enable-input-d is missing")
    enable, negated = lo.pred_src(rest.pop(0))
    flags |= MmaFlag.NOT_ENABLE * negated | MmaFlag.MASKED * bool(masks)
    scale_d, zeros = 0, []
    if shape.stationary:
        zeros = [lo.src(rest.pop(0), 64)] if rest else []
        flags |= MmaFlag.STATIONARY | MmaFlag.ZEROS * bool(zeros)
    elif rest:
        scale_d = lo.imm_value(rest.pop(0))
        if shape.kind not in ("f16", "tf32") or not 0 <= scale_d <= 15:
            raise lo.fail("scale-input-d is 0..15, for kinds f16 and tf32")
    if rest:
        raise lo.fail("unexpected operands")
    sfa_offset, sfb_offset = offsets or (0, 0)
    slots, (meta_offset,) = zip(*metadata, strict=True) if metadata else ((), (0,))
    form = Mma(
        kind=MMA_KINDS.index(shape.kind), flags=flags, scale_d=scale_d, block=shape.block,
        a_offset=a_offset, sfa_offset=sfa_offset, sfb_offset=sfb_offset,
        meta_offset=meta_offset,
    )  # fmt: skip
    more = (*slots, *factors, *masks, *zeros)
    lo.emit(
        "MMA", s=(d_slot, a_slot, lo.src(b, 64), lo.src(idesc, 32), enable, *more), form=form,
        imm=d_offset, cost=MMA_ISSUE_CYCLES, unit=Unit.MMA,
    )  # fmt: skip
