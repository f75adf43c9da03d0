"""Where TMA leaves the elements of an operand tile in shared memory: the plans' offsets obey it."""

from __future__ import annotations

from fa4_cute.plan.facts.umma import SmemOperand


def element_offset(operand: SmemOperand, row: int, k: int) -> int:
    """Return the byte of element (``row`` of M/N, ``k``), before the hardware XOR."""
    outer, inner = (row, k) if operand.mn_major else (k, row)
    chunk, within = divmod(outer, operand.span)
    depth = operand.padded_k if operand.mn_major else operand.mn
    return ((chunk * depth + inner) * operand.span + within) * operand.dtype.size
