"""Change the sign of floats of 8 or 16 bits in shared memory, in place."""

from cutlass import Int32

from ...plan.facts.dtypes import DType
from ...plan.facts.hardware import UNIT_BYTES, WARP_GROUP_THREADS
from ..lanes import row_in_group
from . import shared

_SIGNS = {1: -0x7F7F7F80, 2: -0x7FFF8000}
"""The sign bits of a word of floats, by their bytes, as a signed number."""


def flip_signs(start: Int32, num_bytes: int, dtype: DType) -> None:
    """Negate ``num_bytes`` of floats from the 16-byte aligned ``start`` on. A warp group."""
    signs = _SIGNS[dtype.size]
    first = start + row_in_group() * UNIT_BYTES
    for offset in range(0, num_bytes, WARP_GROUP_THREADS * UNIT_BYTES):
        words = shared.load_vector(first + offset, 4)
        shared.store_vector(first + offset, [word.bitcast(Int32) ^ signs for word in words])
