"""Where the scales of packed keys lie, so that every sequence starts where a bulk copy may start.

A bulk copy reads 16-byte aligned memory: groups of four floats. Sequence ``b`` of packed keys,
whose first key is row ``f``, gets the groups from ``f // 4 + b`` on. Sequences do not meet: from
one to the next the start moves on by at least ``(length - 3) / 4 + 1`` groups, ``length + 1``
floats. No table is needed, neither on the host nor in the kernel.
"""

from __future__ import annotations

from typing import Any, Final

from ..facts.hardware import UMMA_MAX_N

GROUP_BITS: Final = 2
_GROUP: Final = 1 << GROUP_BITS
NUM_SCALE_BUFS: Final = 2
"""Buffers of key scales that have barriers of their own: no more key tiles are being scored at a
time, neither in two score buffers nor in two chains that are at most one key tile apart."""


def packed_start(first_key: Any, sequence: Any) -> Any:
    """Return the float at which the scales of ``sequence`` start; ``first_key`` is its first row.

    Works on integers, on tensors of them, and on registers.
    """
    return ((first_key >> GROUP_BITS) + sequence) << GROUP_BITS


def packed_gap(first_key: Any) -> Any:
    """Return how far the scales of sequence 0 would start before ``first_key``."""
    return first_key & ((1 << GROUP_BITS) - 1)


def row_floats(num_keys: int, num_sequences: int = 0) -> int:
    """Return the floats of a row of key scales: the kernel reads the scales of whole key tiles.

    Args:
        num_keys: keys of the row.
        num_sequences: sequences that are packed in it, 0 when it holds a single one.
    """
    used = (num_keys + _GROUP - 1) // _GROUP + num_sequences
    return used * _GROUP + UMMA_MAX_N
