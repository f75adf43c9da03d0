"""Where TMA leaves the elements of an operand tile in shared memory: the plans' offsets obey it."""

from __future__ import annotations

from fa4_cute.plan.facts.umma import SmemOperand


def element_offset(operand: SmemOperand, row: int, k: int) -> int:
    """Return the byte of element (``row`` of M/N, ``k``), before the hardware XOR."""
    outer, inner = (row, k) if operand.mn_major else (k, row)
    chunk, within = divmod(outer, operand.span)
    depth = operand.padded_k if operand.mn_major else operand.mn
    return ((chunk * depth + inner) * operand.span + within) * operand.dtype.size


def key_at(position: int) -> int:
    """Return the key in place ``position`` of the rows of a transposed fp8 V, and of P.

    A thread has pairs of two blocks of eight keys, which are four neighbours in the operand A
    (PTX ISA, wgmma m64nNk16: fragment of D, and m64nNk32: fragment of A).
    """
    lane, part = divmod(position % 16, 4)
    return position // 16 * 16 + part // 2 * 8 + lane * 2 + part % 2
