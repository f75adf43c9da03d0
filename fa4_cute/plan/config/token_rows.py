"""Rows of key scales in memory: a bulk copy may start where any sequence of packed keys does.

A bulk copy reads 16-byte aligned memory, groups of four floats, and packed sequences start
anywhere. So the row of a head holds its scales four times, each copy a float further from a
group's start than the one before: in one of them any given key starts a group. Nothing depends on
where the sequences lie, and no table is needed, neither on the host nor in the kernel.
"""

from __future__ import annotations

from typing import Any, Final

from ..facts.hardware import UMMA_MAX_N, align_up

_GROUP_BITS: Final = 2
_GROUP: Final = 1 << _GROUP_BITS
COPIES: Final = _GROUP
"""Copies of the scales in a row of packed keys."""
NUM_SCALE_BUFS: Final = 2
"""Buffers of key scales that have barriers of their own: no more key tiles are being scored at a
time, neither in two score buffers nor in two chains that are at most one key tile apart."""


def packed_start(first_key: Any, row: Any) -> Any:
    """Return the float of a row at which the scales of a sequence start.

    Works on integers and on registers.

    Args:
        first_key: first row of the sequence in K.
        row: floats of the row, those of all copies.
    """
    return ((COPIES - first_key) & (COPIES - 1)) * (row >> _GROUP_BITS) + first_key


def row_floats(num_keys: int) -> int:
    """Return the floats of ``num_keys`` scales of a head: the kernel reads those of whole tiles."""
    return align_up(num_keys, _GROUP) + UMMA_MAX_N


def copy_floats(num_keys: int) -> int:
    """Return the same for one of the ``COPIES`` in a row: an odd float follows the groups."""
    return row_floats(num_keys) + 1
