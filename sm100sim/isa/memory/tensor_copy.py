"""Tensor copies in tile mode, of four rows, and in im2col mode (PTX ISA, "cp.async.bulk.tensor",
"cp.reduce.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "Tiled Mode", "Im2col Mode"); the
modes `.im2col::w` stop with the PTX line.
"""

from __future__ import annotations

from ...contract.codes import CopyFlag, RedOp, Space
from ...contract.forms import Tensor
from ...ptx.program import Address, Instr, Operand, Symbol, TensorAddress, Vector
from ..addressing import place, take_policy
from ..lowering import Lowering, Mods, Unit
from .atomics import take_operation

TMA_ISSUE_CYCLES = 48
"""Issue floor of one tensor copy (published)."""


def _dimensions(mods: Mods) -> int:
    return int(mods.one_of("1d", "2d", "3d", "4d", "5d")[0])


IM2COL_RANK = 3
"""Fewest dimensions of an im2col tensor: N, W, C."""
ROWS = 4
"""Rows that .tile::gather4 and .tile::scatter4 name after the column."""


def _mode(lo: Lowering, mods: Mods, rank: int, rows: str, im2col: str = "im2col") -> CopyFlag:
    """Consume the load mode; `rows`: the one that names four rows in this direction; `im2col`: the
    one of pixels."""
    if mods.take(im2col):
        if rank < IM2COL_RANK:
            raise lo.fail(f".{im2col} exists with .3d, .4d and .5d only")
        return CopyFlag.IM2COL
    other = mods.maybe("im2col", "im2col::w", "im2col::w::128", "im2col_no_offs")
    if other is not None:
        raise lo.fail(f"mode .{other} is not in the instruction set here; .tile is")
    if not rows or not mods.take(rows):
        mods.take("tile")
        return CopyFlag(0)
    if rank != 2:
        raise lo.fail(f".{rows} exists with .2d only")
    return CopyFlag.ROWS


def _tensor(
    lo: Lowering, operand: Operand, rank: int, mode: CopyFlag
) -> tuple[int, int, int, Space, list[int]]:
    """(slot, offset, bits, space) of the tensor map and the slots of its coordinates."""
    rank = 1 + ROWS if mode == CopyFlag.ROWS else rank
    if not isinstance(operand, TensorAddress) or not isinstance(operand.base, Address):
        raise lo.fail("[tensor map, {coordinates}] expected")
    if len(operand.coords.items) != rank:
        raise lo.fail(f"{rank} coordinates expected, {len(operand.coords.items)} given")
    space = Space.GENERIC
    base = operand.base.base
    if isinstance(base, Symbol):
        space = Space.PARAM if lo.param_offset(base.name) is not None else Space.GLOBAL
    slot, offset, bits = place(lo, operand.base, space)
    return slot, offset, bits, space, [lo.src(x, 32) for x in operand.coords.items]


def _offsets(lo: Lowering, ins: Instr, at: int, rank: int, mode: CopyFlag) -> list[int]:
    """The slots of the im2col offsets along W, H, D; none in the other modes."""
    if mode != CopyFlag.IM2COL:
        return []
    given = ins.operands[at]
    if not isinstance(given, Vector) or len(given.items) != rank - 2:
        raise lo.fail(f"{{im2col offsets}} expected, {rank - 2} of them")
    return [lo.src(x, 16) for x in given.items]


def lower_tensor(lo: Lowering, ins: Instr, mods: Mods, *, reduce: bool) -> None:
    """cp{.reduce}.async.bulk{.prefetch}.tensor after the opcode's first modifiers."""
    rank = _dimensions(mods)
    if mods.take("prefetch"):
        _prefetch(lo, ins, mods, rank)
    elif mods.take("bulk_group"):
        _store(lo, ins, mods, rank, reduce=reduce)
    else:
        if reduce:
            raise lo.fail("tensor reductions go to global memory, with .bulk_group")
        _load(lo, ins, mods, rank)


def _load(lo: Lowering, ins: Instr, mods: Mods, rank: int) -> None:
    """.{dim}d.{shared::cta,shared::cluster}.global{.tile,.tile::gather4,.im2col}.mbarrier::complete_tx::bytes
    {.multicast::cluster}{.cta_group::1,2}{.L2::cache_hint}
    [dst], [map, {c}], [mbar]{, {im2col offsets}}{, mask}{, policy}."""
    mods.one_of("mbarrier::complete_tx::bytes")
    space = (
        Space.SHARED_CLUSTER
        if mods.one_of("shared::cta", "shared::cluster") == "shared::cluster"
        else Space.SHARED_CTA
    )
    mods.one_of("global")
    mode = _mode(lo, mods, rank, "tile::gather4")
    multicast = mods.take("multicast::cluster")
    pair = mods.maybe("cta_group::1", "cta_group::2") == "cta_group::2"
    mask_at = 3 + (mode == CopyFlag.IM2COL)
    take_policy(lo, mods, ins.operands, mask_at + multicast)
    mods.done()
    tensor, map_offset, map_bits, map_space, coords = _tensor(lo, ins.operands[1], rank, mode)
    dst, offset, bits = place(lo, ins.operands[0], space)
    bar, bar_offset, bar_bits = place(lo, ins.operands[2], space)
    mask = lo.src(ins.operands[mask_at], 16) if multicast else lo.constant(0, 32)
    coords += _offsets(lo, ins, 3, rank, mode)
    flags = CopyFlag.MULTICAST * multicast | CopyFlag.PAIR * pair | mode
    lo.emit(
        "TMA_LOAD",
        (),
        (dst, tensor, bar, mask, *coords),
        Tensor(
            flags=flags, rank=rank, space=space, map_space=map_space, address_bits=bits,
            map_bits=map_bits, bar_bits=bar_bits, map_offset=map_offset, bar_offset=bar_offset,
        ),
        offset,
        TMA_ISSUE_CYCLES,
        Unit.TMA,
    )


def _store(lo: Lowering, ins: Instr, mods: Mods, rank: int, *, reduce: bool) -> None:
    """.{dim}d.global.shared::cta{.redOp}{.tile,.tile::scatter4,.im2col_no_offs}.bulk_group
    {.L2::cache_hint} [map, {c}], [src]{, policy}."""
    mods.one_of("global")
    mods.one_of("shared::cta")
    mode = _mode(lo, mods, rank, "" if reduce else "tile::scatter4", "im2col_no_offs")
    op = take_operation(mods) if reduce else RedOp.add
    if op in (RedOp.exch, RedOp.cas):
        raise lo.fail(f".{op.name} is not a tensor reduction")
    take_policy(lo, mods, ins.operands, 2)
    mods.done()
    tensor, map_offset, map_bits, map_space, coords = _tensor(lo, ins.operands[0], rank, mode)
    if mode == CopyFlag.IM2COL:
        coords += [lo.constant(0, 32)] * (rank - 2)
    src, offset, bits = place(lo, ins.operands[1], Space.SHARED_CTA)
    lo.emit(
        "TMA_STORE",
        (),
        (src, tensor, *coords),
        Tensor(
            flags=CopyFlag.REDUCE * reduce | mode, rank=rank, space=Space.SHARED_CTA,
            map_space=map_space, address_bits=bits, map_bits=map_bits, op=op, map_offset=map_offset,
        ),
        offset,
        TMA_ISSUE_CYCLES,
        Unit.TMA,
    )


def _prefetch(lo: Lowering, ins: Instr, mods: Mods, rank: int) -> None:
    """.prefetch.tensor.{dim}d.L2.global{.tile,.im2col}{.L2::cache_hint}
    [map, {c}]{, {im2col offsets}}{, policy}."""
    mods.one_of("L2")
    mods.one_of("global")
    mode = _mode(lo, mods, rank, "tile::gather4")
    take_policy(lo, mods, ins.operands, 1 + (mode == CopyFlag.IM2COL))
    mods.done()
    tensor, map_offset, map_bits, map_space, coords = _tensor(lo, ins.operands[0], rank, mode)
    coords += _offsets(lo, ins, 1, rank, mode)
    lo.emit(
        "TMA_PREFETCH",
        (),
        (tensor, *coords),
        Tensor(
            flags=mode, rank=rank, map_space=map_space, map_bits=map_bits, map_offset=map_offset
        ),
        0,
        TMA_ISSUE_CYCLES,
        Unit.TMA,
    )
